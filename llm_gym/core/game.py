"""``Game``: the methods that the author of an environment writes.

Five methods make a playable environment (``new_game``, ``apply``, ``describe``, ``rules_text``,
``example_moves``). The other methods are optional and add features: an oracle proves instances
solvable, a solver gives the score that a good player reaches, ``legal_moves`` gives random play and
constrained decoding, ``potential`` gives shaping. These methods take and return *moves*;
``TextEnv`` turns moves into actions, rewards, flags and ``info``.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from llm_gym.core.errors import ConfigError
from llm_gym.core.outcome import Outcome
from llm_gym.core.settings import TypedSettings, check_range, check_types, plain
from llm_gym.reading.moves import Find, Named, find_pattern, find_phrases, find_with


class Game(TypedSettings, ABC):
    """The methods and attributes that the author of a text environment defines."""

    max_turns: int | None = None
    """Turns after which the game is lost. The rules state it, so the episode terminates."""
    max_observation_chars: int = 8192
    max_move_chars: int = 1000
    """Maximum characters of a move; a longer move is unusable and never reaches ``apply``."""
    worst_reward: float = 0.0
    """Lowest reward of a move, at most 0. An unusable reply gets this reward. If such a reply ends
    the game, the reward also counts once for every turn that was left, so giving up never pays."""
    move_name: str = "move"
    """What the rules call a move: "guess", "answer"."""
    free_text: bool = False
    """True if a move may be any text; the text is then not searched for doubts and questions."""
    mention_is_answer: bool = False
    """True if a statement that names one move plays that move: "Paris is the capital"."""
    find_moves: Callable[[str], Iterator[Named]] | None = None
    """A ``staticmethod`` that finds the moves in a sentence, if a word-for-word search for the
    legal moves is not enough; see ``finder``."""
    has_splits: bool = True
    """False for a game with too few instances (under 100) or answers to hold some out, and always
    for a game without ``instance``."""
    no_difficulty: str = ""
    """Why ``at_difficulty`` is empty; part of the error if a user sets a difficulty."""

    # --- the game ------------------------------------------------------------------------

    @abstractmethod
    def new_game(self, rng: np.random.Generator) -> None:
        """Set up a new instance, drawing only from ``rng``."""

    @abstractmethod
    def apply(self, move: str) -> Outcome:
        """Play ``move`` and say what happened.

        ``move`` is stripped, not empty, at most ``max_move_chars`` long, and otherwise any text.
        For a move that cannot be used, return ``reject("why")`` and do not change the state.
        """

    @abstractmethod
    def describe(self) -> str:
        """Return what the player sees of the current state. It must not change the state."""

    @abstractmethod
    def rules_text(self) -> str:
        """Return the rules. ``TextEnv`` adds turn limit, invalid moves and format."""

    @abstractmethod
    def example_moves(self) -> Sequence[str]:
        """Return a few typical moves; the first one illustrates the format in the rules."""

    # --- optional: settings --------------------------------------------------------------

    def check_settings(self) -> None:
        """Raise ``ConfigError`` for a setting that cannot be honoured."""
        return

    def check_range(
        self, name: str, least: float, most: float | None = None, why: str = ""
    ) -> None:
        """Raise ``ConfigError`` unless the setting ``name`` is None or in its range."""
        check_range(name, getattr(self, name), least, most, why)

    @classmethod
    def at_difficulty(cls, difficulty: float) -> Mapping[str, Any]:
        """Return the settings for a ``difficulty`` in [0, 1]; empty if the game has no levels.

        By default, the settings that are declared with ``levels``.
        """
        declared = cls._declared_settings.items()
        return {name: one.at(difficulty) for name, one in declared if one.levels}

    @property
    def is_markov(self) -> bool:
        """Whether a good move can be found from the current observation alone.

        Set it to True in the class of such a game: a trainer then sends the model only the
        current observation, which is cheaper.
        """
        return False

    # --- optional: identity --------------------------------------------------------------

    def instance(self) -> object:
        """Return the task of this episode; its ``repr`` identifies the task and decides the split.

        Two episodes with the same first observation and the same answer must return equal
        instances: leave out what does not change the answer, such as rooms far away.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define instance()")

    def swap_secret(self, rng: np.random.Generator) -> bool:
        """Replace the secret by another one that fits everything the player has seen.

        Return False if there is no secret, or no other one fits. The checker uses it to prove
        that no observation gives the secret away.
        """
        return False

    def reveal(self) -> str:
        """Return the solution as text, for a player who ran out of turns."""
        return ""

    # --- optional: reading ---------------------------------------------------------------

    def named_moves(self, text: str) -> Iterable[Named]:
        """Return start, end and move of every move that a sentence of a reply names.

        Called only if the reply is more than a move. The default uses ``find_moves``, else looks
        for the moves of ``legal_moves`` word for word, else for ``move_pattern``.
        """
        find = self.finder()
        return find(text) if find else iter(())

    def finder(self) -> Find | None:
        """Return a function that finds moves in a sentence; None if the sentence is not enough.

        Its results for short replies are cached, so it must be a pure function.
        """
        if type(self).named_moves is not Game.named_moves:
            return None
        if (find := self.find_moves) is not None:
            return find
        if (moves := self.legal_moves()) is not None:
            return find_with(find_phrases, moves=tuple(moves))
        pattern = None if self.free_text else self.move_pattern()
        return find_with(find_pattern, pattern=pattern) if pattern else None

    def marked_move(self, label: str, text: str) -> str:
        """Return the move in ``text``, the part of a reply that is marked as action or answer.

        ``label`` is the mark, such as "Action"; it is empty for the last line. Return "" if
        ``text`` as a whole is no move.
        """
        return text

    def is_understood(self, move: str) -> bool:
        """Return whether the player meant this refused move; no other is then searched for."""
        return False

    # --- optional: players ---------------------------------------------------------------

    def legal_moves(self) -> Sequence[str] | None:
        """Return the moves that are usable in this state, or None if there are too many."""
        return None

    def random_move(self, rng: np.random.Generator) -> str:
        """Return a random usable move."""
        moves = self.legal_moves()
        if moves is None:
            raise NotImplementedError(
                f"{type(self).__name__} defines neither legal_moves() nor random_move()"
            )
        return moves[int(rng.integers(len(moves)))]

    def reflex_move(self, rng: np.random.Generator) -> str:
        """Return a move by one simple rule, such as "never into a hole"; by default a random one.

        Its success rate is a baseline that needs no planning.
        """
        return self.random_move(rng)

    def move_pattern(self) -> str | None:
        """Return a regex of the usable moves, if ``legal_moves`` cannot list them."""
        return None

    def oracle_move(self) -> str:
        """Return the best move of a player who sees the whole state."""
        raise NotImplementedError(f"{type(self).__name__} does not define oracle_move()")

    def oracle_value(self) -> float:
        """Return the oracle's expected success from here; below 1 only in games of chance."""
        return 1.0

    @staticmethod
    def solve(observations: Sequence[str], moves: Sequence[str]) -> str:
        """Return the next move of a good player who sees only ``observations``.

        There is one more observation than moves, and the first one holds the rules. A solver is
        a function of the transcript, so it cannot peek at the state.
        """
        raise NotImplementedError("this game has no solver")

    def potential(self) -> float:
        """Return how good this state is, for shaping: in [0, 1], and 1 at the goal.

        ``TextEnv`` checks the range. It subtracts the potential of the first state and takes
        everything back at the end, so that the terms of an episode add up to 0 and none is above
        1. ``progress`` turns a distance into a potential.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define potential()")


def progress(left: float, whole: float) -> float:
    """Return the potential of a state that is ``left`` away from the goal.

    The start, at distance ``whole``, has potential 1/2, so that moves away from the goal lower it.
    A state at twice that distance, or with no path to the goal, has 0.

    >>> progress(0, 8), progress(8, 8), progress(12, 8), progress(float("inf"), 8)
    (1.0, 0.5, 0.25, 0.0)
    """
    return max(0.0, 1.0 - left / (2.0 * whole)) if whole else 1.0


def settings_at(game: Game, difficulty: float, is_alone: bool = False) -> dict[str, Any]:
    """Return the settings of ``game`` at ``difficulty``.

    ``is_alone`` refuses settings that the user gave besides. A difficulty overrides those of a
    registered level (Easy, Hard), as it does in ``reset``.
    """
    check_types(type(game), {"difficulty": difficulty})
    difficulty = plain(difficulty)
    check_range("difficulty", difficulty, 0, 1)
    settings = dict(game.at_difficulty(difficulty))
    if not settings:
        why = f": {game.no_difficulty}" if game.no_difficulty else ""
        raise ConfigError(f"{type(game).__name__} has no difficulty setting{why}")
    if is_alone and (given := _settings_given(game, settings)):
        raise ConfigError(
            f"difficulty sets {', '.join(settings)}; got difficulty={difficulty} and "
            f"{given}: give one or the other"
        )
    return settings


def _settings_given(game: Game, names: Iterable[str]) -> dict[str, Any]:
    """Return the settings among ``names`` that come from the user, not from the registered id."""
    made = type(game)
    taken = inspect.signature(made.__init__).parameters
    defaults = {name: taken[name].default for name in names if name in taken}
    entry_points = (made, f"{made.__module__}:{made.__qualname__}")
    rows = [spec.kwargs for spec in gym.registry.values() if spec.entry_point in entry_points]
    given = [
        {name: value for name in defaults if (value := getattr(game, name)) != level.get(name)}
        for level in (defaults, *({**defaults, **row} for row in rows))
    ]
    return min(given, key=len)
