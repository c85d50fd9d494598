"""``Phrasebook``: the words for one kind of environment, and which phrasebook an environment gets.

The base class derives texts for any environment from its spaces, its spec and its docstring. A
subclass overrides methods with better texts. The methods have the names and the meaning of those of
``llm_gym.core.game.Game``.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from llm_gym.core.errors import ConfigError
from llm_gym.core.infos import flag
from llm_gym.registry.user_code import import_object
from llm_gym.wrappers.as_text.phrasebooks import discover
from llm_gym.wrappers.as_text.phrasebooks.action_readers import make_reader
from llm_gym.wrappers.as_text.phrasebooks.discover import distinct
from llm_gym.wrappers.as_text.phrasebooks.observations import FEW, say
from llm_gym.wrappers.as_text.phrasebooks.planning import best_actions
from llm_gym.wrappers.as_text.phrasebooks.readers import Reader

_STORY, _REWARDS = 700, 400  # characters taken from a docstring
_MASK = "action_mask"


class Phrasebook:
    """Words for an environment, found in its spaces, its spec and its docstring.

    A subclass may set ``names`` and ``aliases`` and override any method; ``self.env`` is the
    environment with its wrappers, ``self.game`` the one inside.

    Args:
        env: The environment to find words for.
        reads_actions: False if a function of the user reads the actions; the action space may then
            be of any type.
    """

    names: Sequence[str] | None = None
    """Names of a Discrete space's actions, in order; a smaller space uses the first ones."""
    aliases: Mapping[str, int] = {}
    """Other words for these actions."""
    labels: Sequence[str] | None = None
    """Names of the numbers in a Box observation."""
    mask_advises = False
    """Whether an action outside the mask may still be played and has no effect."""
    end_text = "The episode is over."
    """Text at the end of a game, after its last state."""
    end_is_success = False
    """Whether a terminated game counts as won."""
    fallback: str | None = None
    """The move that is played for an unusable text, if it is not the idle move."""

    def __init__(self, env: gym.Env[Any, Any], *, reads_actions: bool = True) -> None:
        self.env = env
        self.game: Any = env.unwrapped
        self._doc = discover.sections(_docstring(type(self.game)))
        self.reader: Reader | None = None
        if reads_actions:
            self.reader = make_reader(env.action_space, self._action_names(), self.aliases)
        count = _length(env.observation_space)
        self._labels = self.labels or (self._listed("observation", count) if count else None) or ()
        self._plan: list[str] | None = None  # the best move of each state, once it is asked for

    # --- what the player is told ---------------------------------------------------------

    def rules_text(self) -> str:
        """Return the description of the game; limits and the format of a move are added to it."""
        spec = self.env.spec
        parts = [f"You are playing {spec.id if spec else type(self.game).__name__}."]
        parts.append(discover.prose(self._doc.get("description") or self._doc[""], _STORY))
        for heading in ("rewards", "reward", "reward function"):
            if rewards := discover.prose(self._doc.get(heading, ""), _REWARDS):
                parts.append(f"Rewards: {rewards}")
                break
        return " ".join(filter(None, parts))

    def step_limit(self) -> int | None:
        """Return the number of moves after which an episode is truncated, if known."""
        return discover.step_limit(self.env, self.game)

    def limit_text(self) -> str:
        """Return what is known about the length of an episode."""
        limit = self.step_limit()
        return f"The episode is cut after {limit} moves." if limit else ""

    def describe(self, observation: Any, info: Mapping[str, Any]) -> str:
        """Return what the player sees."""
        text = say(self.env.observation_space, observation, self._labels)
        return f"{text}\n{line}" if (line := self.legal_line(info)) else text

    def legal_line(self, info: Mapping[str, Any]) -> str:
        """Return a line with the moves that the action mask allows, if there is one."""
        moves = self._allowed(info)
        return f"Legal moves: {', '.join(moves)}." if moves else ""

    def _allowed(self, info: Mapping[str, Any]) -> Sequence[str] | None:
        """Return the moves that the action mask allows; None without a mask that can be read."""
        mask = info.get(_MASK)
        return None if mask is None or self.reader is None else self.reader.allowed(mask)

    def ending(self, reward: float) -> str:
        """Return the text at the end of a game, after the description of its last state."""
        return self.end_text

    # --- moves ---------------------------------------------------------------------------

    def parse(self, move: str) -> Any:
        """Return the action that ``move`` means, or raise ``Unusable`` with the reason."""
        assert self.reader is not None, "only a user's own function reads these actions"
        return self.reader.read(move)

    def how(self) -> str:
        """Return how a move is written, as a sentence."""
        return "" if self.reader is None else f"Your move is {self.reader.how()}."

    def example_moves(self) -> Sequence[str]:
        """Return a few typical moves; the first one illustrates the format in the rules."""
        return ["your move"] if self.reader is None else self.reader.examples()

    def legal_moves(self, info: Mapping[str, Any]) -> Sequence[str] | None:
        """Return the moves that the action mask allows, or all moves; None if they are too many."""
        return None if self.reader is None else self._allowed(info) or self.reader.moves()

    def fallback_move(self, info: Mapping[str, Any]) -> str | None:
        """Return the move that is played for an unusable text: the idle move, if it is legal.

        None if no such move is known.
        """
        if self.reader is None:
            return None
        action = self.reader.fallback()
        idle = self.fallback or (None if action is None else self.reader.write(action))
        legal = None if info.get(_MASK) is None else self.legal_moves(info)
        return idle if legal is None or idle in legal else legal[0]

    def random_move(self, info: Mapping[str, Any], rng: np.random.Generator) -> str:
        """Return a random usable move."""
        if moves := self.legal_moves(info):
            return moves[int(rng.integers(len(moves)))]
        if self.reader is None:
            raise NotImplementedError("with a parse function of your own there is no random move")
        return self.reader.write(self.reader.draw(rng))

    def move_pattern(self) -> str | None:
        """Return a regex of the moves, where ``legal_moves`` cannot list them."""
        return None if self.reader is None else self.reader.pattern()

    def oracle_move(self) -> str:
        """Return the best move, computed from the full state.

        By default it uses the transition table ``P``, if the environment has one.
        """
        try:
            if self._plan is None:
                assert self.reader is not None
                self._plan = [self.reader.write(action) for action in best_actions(self.game.P)]
            return self._plan[int(self.game.s)]
        except Exception as error:  # of others' code, which may call anything P and s
            name = type(self).__name__
            raise NotImplementedError(f"{name} does not define oracle_move()") from error

    def played(self, action: Any) -> None:
        """Record the played move, for an oracle that needs it; called only if overridden."""
        return

    # --- the result ----------------------------------------------------------------------

    def success(
        self, total: float, terminated: bool, reward: float, info: Mapping[str, Any]
    ) -> bool | None:
        """Return whether a finished episode was a success, or None if that is unknown.

        By default ``info["is_success"]`` decides, or else the reward threshold of the spec.
        """
        if self.end_is_success:
            return terminated
        if (success := flag(info, "is_success")) is not None:
            return success
        threshold = None if self.env.spec is None else self.env.spec.reward_threshold
        return None if threshold is None else total >= threshold

    # --- from the docstring --------------------------------------------------------------

    def _action_names(self) -> Sequence[str] | None:
        space = self.env.action_space
        if isinstance(space, spaces.Discrete):
            if self.names is not None and space.n <= len(self.names):
                return self.names[: int(space.n)]
            return self._choice_names(int(space.n)) if space.start == 0 else None
        return self._listed("action", _length(space)) if _length(space) else None

    def _choice_names(self, count: int) -> Sequence[str] | None:
        if count > FEW:
            return None
        found = discover.choice_names(self.game, count)
        return found or distinct(self._listed("action", count) or (), count)

    def _listed(self, what: str, count: int) -> list[str] | None:
        for heading, text in self._doc.items():
            if heading.startswith(what):
                return discover.numbered(text, count)
        return None


def _length(space: gym.Space[Any]) -> int:
    """Return how many numbers stand in a row in ``space``; 0 where they do not."""
    in_a_row = isinstance(space, (spaces.Box, spaces.MultiDiscrete))
    return space.shape[0] if in_a_row and space.shape and len(space.shape) == 1 else 0


def _docstring(kind: type) -> str:
    """Return the docstring of an environment's class, or of the nearest one it derives from."""
    own = itertools.takewhile(lambda each: each not in (gym.Env, gym.Wrapper, object), kind.__mro__)
    docs = [each.__doc__ if isinstance(each.__doc__, str) else "" for each in own]
    return docs[0] or next((doc for doc in docs if doc and not discover.for_authors(doc)), "")


_TOY, _CONTROL = "gymnasium.envs.toy_text", "gymnasium.envs.classic_control"
_HERE = "llm_gym.wrappers.as_text.phrasebooks"

# By class, so that every id of a class is found, and every class that derives from it. Strings,
# so that neither the environments nor their phrasebooks are imported before they are used.
_BOOKS: dict[str, str | type[Phrasebook]] = {
    f"{_TOY}.frozen_lake:FrozenLakeEnv": f"{_HERE}.toy_text:FrozenLakeWords",
    f"{_TOY}.cliffwalking:CliffWalkingEnv": f"{_HERE}.toy_text:CliffWalkingWords",
    f"{_TOY}.taxi:TaxiEnv": f"{_HERE}.toy_text:TaxiWords",
    f"{_TOY}.blackjack:BlackjackEnv": f"{_HERE}.toy_text:BlackjackWords",
    f"{_CONTROL}.cartpole:CartPoleEnv": f"{_HERE}.control:CartPoleWords",
    f"{_CONTROL}.mountain_car:MountainCarEnv": f"{_HERE}.control:MountainCarWords",
    f"{_CONTROL}.acrobot:AcrobotEnv": f"{_HERE}.control:AcrobotWords",
    "gymnasium.envs.box2d.lunar_lander:LunarLander": f"{_HERE}.control:LunarLanderWords",
    "minigrid.minigrid_env:MiniGridEnv": f"{_HERE}.minigrid:MiniGridWords",
}


def register_phrasebook(env: str | type[gym.Env[Any, Any]], book: str | type[Phrasebook]) -> None:
    """Use ``book`` for ``env`` from now on, instead of any other phrasebook.

    Args:
        env: An id (``Maze-v2``; ``Maze`` stands for every version), or an environment class
            (including its subclasses), which may be given as ``module:Class``.
        book: A subclass of ``Phrasebook``, which may be given as ``module:Class``.
    """
    if isinstance(env, type):
        env = path_of(env)
    if not isinstance(env, str) or not env:
        raise ConfigError(f"a phrasebook is for an id or a class of environments, got {env!r}")
    _BOOKS[env] = book if isinstance(book, str) else _checked(book)


def find_phrasebook(env: gym.Env[Any, Any]) -> type[Phrasebook]:
    """Return the phrasebook for ``env``: by its id, by its class, or the one for all.

    >>> find_phrasebook(gym.make("CartPole-v1")).__name__
    'CartPoleWords'
    >>> find_phrasebook(gym.make("Pendulum-v1")).__name__
    'Phrasebook'
    """
    name = env.spec.id if env.spec is not None else ""
    keys = [name, re.sub(r"-v\d+$", "", name), *map(path_of, type(env.unwrapped).__mro__)]
    for key in keys:
        if key in _BOOKS:
            return load_phrasebook(_BOOKS[key])
    return Phrasebook


def load_phrasebook(book: str | type[Phrasebook]) -> type[Phrasebook]:
    """Return a phrasebook that may be given as ``module:Class``."""
    return _checked(import_object(book) if isinstance(book, str) and ":" in book else book)


def _checked(book: Any) -> type[Phrasebook]:
    if isinstance(book, type) and issubclass(book, Phrasebook):
        return book
    raise ConfigError(f"a phrasebook must be a subclass of {_HERE}.Phrasebook, got {book!r}")


def path_of(kind: type) -> str:
    """Return the name of a class as ``module:Class``."""
    return f"{kind.__module__}:{kind.__qualname__}"
