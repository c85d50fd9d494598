"""What an author writes: the game, and nothing else.

Five methods make a playable environment (``new_game``, ``apply``, ``describe``, ``rules_text``,
``example_moves``). The rest is optional and earns more: an oracle proves instances solvable, a
solver gives the score a good player reaches, ``legal_moves`` gives random play and constrained
decoding, ``potential`` gives shaping. Everything here speaks in *moves*; ``TextEnv`` turns them
into actions, rewards, flags and ``info``.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np

from llm_gym.core.errors import ConfigError
from llm_gym.core.outcome import Outcome
from llm_gym.core.settings import check_range, check_types, plain
from llm_gym.reading.moves import Named, find_pattern, find_phrases


class Game(ABC):
    """The author's side of a text environment."""

    max_turns: int | None = None
    """Turns after which the game is lost. Stated in the rules, so it terminates."""
    max_observation_chars: int = 8192
    max_move_chars: int = 1000
    """Longer moves are answered as unusable, which bounds what ``apply`` has to read."""
    worst_reward: float = 0.0
    """Lowest reward that a move can bring, at most 0. An unusable reply brings it too, and so does
    each turn that is left where such a reply ends the game: giving up never pays."""
    move_name: str = "move"
    """What the rules call a move: "guess", "answer"."""
    free_text: bool = False
    """True where a move may hold any text, which is then not searched for doubts and questions."""
    mention_is_answer: bool = False
    """True where a statement of fact that names one move is that move: "Paris is the capital"."""
    find_moves: Callable[[str], Iterator[Named]] | None = None
    """Finds the moves in a sentence, where looking for the legal ones word for word is too little;
    a ``staticmethod``."""
    has_splits: bool = True
    """False for a game with too few instances (under 100), or answers, to keep some of them unseen.
    It is so by itself for one that does not define ``instance``."""
    no_difficulty: str = ""
    """Why ``at_difficulty`` is empty, for who asks for a difficulty all the same."""

    # --- the game ------------------------------------------------------------------------

    @abstractmethod
    def new_game(self, rng: np.random.Generator) -> None:
        """Set up a new instance, drawing only from ``rng``."""

    @abstractmethod
    def apply(self, move: str) -> Outcome:
        """Play ``move`` and say what happened.

        ``move`` is stripped, not empty, at most ``max_move_chars`` long and otherwise anything:
        answer what cannot be used with ``reject("why")`` and leave the state alone.
        """

    @abstractmethod
    def describe(self) -> str:
        """Return what the player may see of the current state. Must not change anything."""

    @abstractmethod
    def rules_text(self) -> str:
        """Return the rules. Turn limit, invalid moves and format are added by the base."""

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
        """Return the settings that ``difficulty`` in [0, 1] stands for; empty if it has none."""
        return {}

    @property
    def observation_says_all(self) -> bool:
        """Whether a good move can be found from the current observation alone.

        Set it to True in the class of a game where that is so: a trainer then leaves out the rest
        of the episode, which is cheaper.
        """
        return False

    # --- optional: identity --------------------------------------------------------------

    def instance(self) -> object:
        """Return what is asked in this episode; its ``repr`` names it and decides the split.

        Episodes with an equal first observation and an equal answer must have equal ones: leave
        out what the answer does not depend on, such as the rows of a table or rooms far away.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define instance()")

    def swap_secret(self, rng: np.random.Generator) -> bool:
        """Replace what is hidden by something else that fits all the player has seen.

        Returns False where nothing is hidden or only one secret fits. The checker uses it to
        show that no observation gives the secret away.
        """
        return False

    def reveal(self) -> str:
        """Return what a player who ran out of turns is told about the solution."""
        return ""

    # --- optional: reading ---------------------------------------------------------------

    def named_moves(self, text: str) -> Iterator[Named]:
        """Return start, end and move of every move that a sentence of a reply names.

        Called only for a reply that is not simply a move. By default what ``find_moves`` finds,
        the moves of ``legal_moves``, word for word, or what matches ``move_pattern``.
        """
        if self.find_moves is not None:
            return self.find_moves(text)
        if (moves := self.legal_moves()) is not None:
            return find_phrases(text, moves)
        pattern = None if self.free_text else self.move_pattern()
        return find_pattern(text, pattern) if pattern else iter(())

    def marked_move(self, label: str, text: str) -> str:
        """Return the move that ``text`` is where a reply marks it as its action, answer, ...

        ``label`` is the mark, empty for the last line. Empty where it is not to be taken whole.
        """
        return text

    def is_understood(self, move: str) -> bool:
        """Return whether a move that was refused is one all the same, so that nothing else is."""
        return False

    # --- optional: players ---------------------------------------------------------------

    def legal_moves(self) -> Sequence[str] | None:
        """Return the moves that do something in this state, or None where they are too many."""
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

        What this player reaches takes no thought: it is the floor of a score.
        """
        return self.random_move(rng)

    def move_pattern(self) -> str | None:
        """Return a regex of the usable moves, where ``legal_moves`` cannot list them."""
        return None

    def oracle_move(self) -> str:
        """Return a move of a best player who sees everything."""
        raise NotImplementedError(f"{type(self).__name__} does not define oracle_move()")

    def oracle_value(self) -> float:
        """Return the success the oracle expects from here; below 1 only in games of chance."""
        return 1.0

    @staticmethod
    def solve(observations: Sequence[str], moves: Sequence[str]) -> str:
        """Return the next move of a good player who has read only ``observations``.

        There is one more observation than there are moves, and the first holds the rules. Being
        a function of the transcript alone, a solver cannot peek and needs no state of its own.
        """
        raise NotImplementedError("this game has no solver")

    def potential(self) -> float:
        """Return how good this state is, for shaping: in [0, 1], and 1 at the goal.

        The base checks the range. It counts from the potential of the first state and takes all
        back at the end, so that the terms of an episode add up to 0 and none is above 1.
        ``progress`` makes a potential of a distance.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define potential()")


def progress(left: float, whole: float) -> float:
    """Return the potential of a state that is ``left`` away from the goal.

    The start, ``whole`` away from it, has 1/2, so that going astray shows as well as getting
    nearer; what is twice as far, or from where no way leads, has 0.

    >>> progress(0, 8), progress(8, 8), progress(12, 8), progress(float("inf"), 8)
    (1.0, 0.5, 0.25, 0.0)
    """
    return max(0.0, 1.0 - left / (2.0 * whole)) if whole else 1.0


def settings_at(game: Game, difficulty: float) -> Mapping[str, Any]:
    """Return the settings of ``game`` at ``difficulty``."""
    check_types(type(game), {"difficulty": difficulty})
    difficulty = plain(difficulty)
    check_range("difficulty", difficulty, 0, 1)
    settings = game.at_difficulty(difficulty)
    if not settings:
        why = f": {game.no_difficulty}" if game.no_difficulty else ""
        raise ConfigError(f"{type(game).__name__} has no difficulty setting{why}")
    return settings


def settings_given(game: Game, names: Iterable[str]) -> dict[str, Any]:
    """Return the settings among ``names`` that the user gave, rather than the registered id.

    The settings of a registered level (Easy, Hard) give way to the difficulty, as they do for
    the one of ``reset``: who asks a level for another difficulty means that one.
    """
    taken = inspect.signature(type(game).__init__).parameters
    defaults = {name: taken[name].default for name in names if name in taken}
    given = [
        {name: value for name in defaults if (value := getattr(game, name)) != level.get(name)}
        for level in (defaults, *({**defaults, **row} for row in _levels_of(type(game))))
    ]
    return min(given, key=len)


def _levels_of(env_class: type) -> list[Mapping[str, Any]]:
    name = f"{env_class.__module__}:{env_class.__qualname__}"
    return [spec.kwargs for spec in gym.registry.values() if spec.entry_point in (name, env_class)]
