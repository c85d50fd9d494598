"""``BridgeEnv``: a text environment of another suite as a ``gymnasium.Env``.

Read ``step`` first: it finds the move in the reply, lets the suite's environment play it with
isolated random generators, and translates the result. A bridge implements ``begin`` and ``play``,
and instances, legal moves and the answer if its suite has them.
"""

import copy
import difflib
import importlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NamedTuple, TypedDict

import gymnasium as gym
import numpy as np

from llm_gym.bridges.rng_guard import GlobalRngGuard
from llm_gym.core import splits
from llm_gym.core.env import MAX_ACTION_CHARS
from llm_gym.core.errors import ConfigError, LLMGymError, WorkerError, error_words, install_command
from llm_gym.core.infos import Info, Options
from llm_gym.core.outcome import TERMINAL, StopReason, refuse_step
from llm_gym.core.settings import check_range, get_format
from llm_gym.core.spaces import AnyText
from llm_gym.core.text import clip
from llm_gym.reading.markup import visible
from llm_gym.registry.suite import BRIDGES

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_WORD_LIST = 1000
_BUILD_ERRORS = (
    AssertionError, ImportError, LookupError, OSError, SyntaxError, TypeError, ValueError,
)  # fmt: skip


def need_package(package: str, module: str = "") -> ModuleType:
    """Return a module of a suite; raise an error with the install command if it is missing."""
    try:
        with GlobalRngGuard():
            return importlib.import_module(module or package)
    except ImportError as error:
        is_missing = (error.name or "").split(".")[0] == package
        why = "" if is_missing else f" in working order ({error})"
        extra = next(row.extra for row in BRIDGES if row.package == package)
        raise ConfigError(
            f"this bridge needs {package}{why}. Install it with: {install_command(extra)}"
        ) from error


@contextmanager
def building(failed: str) -> Iterator[None]:
    """Turn what a suite raises of settings that it cannot build into one sentence."""
    try:
        yield
    except LLMGymError:
        raise
    except _BUILD_ERRORS as error:
        why = " ".join(str(error).split())
        raise ConfigError(f"{failed}: {why:.200}") from error


def choose(name: str, given: str, known: Iterable[str]) -> str:
    """Return ``given`` if it is in ``known``; otherwise raise with similar names."""
    names = sorted(known)
    if given in names:
        return given
    near = ", ".join(difflib.get_close_matches(str(given), names, 3) or names[:3])
    raise ConfigError(f"{name} must be one of {len(names)} names, such as {near}, got {given!r}")


def fresh_copy(made: Any) -> Any:
    """Return a copy of an unused environment, for one episode.

    Many environments keep state of the last episode, such as a shuffled deck, so a seed alone does
    not determine the next one. Word lists are shared, because they are large and constant.
    """
    shared: dict[int, Any] = {}
    for value in vars(made).values():
        for inner in (value, *getattr(value, "__dict__", {}).values()):
            if isinstance(inner, Collection) and len(inner) >= _WORD_LIST:
                shared[id(inner)] = inner
    return copy.deepcopy(made, shared)


def stable(value: object, depth: int = 6) -> str:
    """Return a text of ``value`` that is the same in every process.

    >>> stable({"b": {2, 1}, "a": (1.5, None)})
    "{'a': [1.5, None], 'b': [1, 2]}"
    """
    if isinstance(value, Mapping) and depth:
        parts = sorted((stable(k, depth - 1), stable(v, depth - 1)) for k, v in value.items())
        return "{" + ", ".join(f"{k}: {v}" for k, v in parts) + "}"
    if isinstance(value, set | frozenset) and depth:
        return "[" + ", ".join(sorted(stable(item, depth - 1) for item in value)) + "]"
    if isinstance(value, list | tuple) and depth:
        return "[" + ", ".join(stable(item, depth - 1) for item in value) + "]"
    if isinstance(value, np.ndarray | np.generic):
        return stable(value.tolist(), depth)
    return _ADDRESS.sub("", repr(value))


_PLAYING = StopReason.PLAYING
_SEEDS = 2**31
_PLAYED_ON = 100  # moves of the random play that says what giving up costs
_LONGEST_REPLY = 20_000  # characters: the patterns of suites were not written for longer ones
_UNUSABLE = "The game could not use that reply."


class BridgeArgs(TypedDict, total=False):
    """Arguments that every bridge takes; ``BridgeEnv`` documents them."""

    action_format: str
    max_turns: int | None
    max_invalid: int
    max_observation_chars: int
    render_mode: str | None


class BridgeStep(NamedTuple):
    """The result of a reply."""

    text: str
    reward: float = 0.0
    stop: StopReason = _PLAYING
    valid: bool = True
    info: Mapping[str, Any] = {}


def verdict(over: object, won: object) -> StopReason:
    """Return the stop reason for an episode from the suite's ``done`` and ``won`` flags."""
    return StopReason.WON if won else StopReason.LOST if over else _PLAYING


class BridgeEnv(gym.Env[str, str]):
    """Base class of the bridges.

    Every ``info`` has ``valid_action``, ``success``, ``stop_reason``, ``reward_terms``, ``turn``
    and ``invalid_actions``; ``foreign`` holds the suite's own info.

    Args:
        action_format: How a move is written: raw passes on the whole reply without reasoning;
            plain, tag, boxed, json and react add the format to the rules and pass on the move.
        max_turns: Turns after which an episode is truncated, in addition to the game's own limit.
        max_invalid: Unusable replies after which an episode is truncated; it then costs what a
            random player would lose in the remaining turns.
        max_observation_chars: Maximum length of an observation; a longer one is cut.
        render_mode: ``ansi`` or None.
    """

    takes_text_settings = frozenset(BridgeArgs.__annotations__)
    offers_players = True
    """The checker may use ``random_action``, ``instance_id`` and the oracle, if there is one."""
    has_splits = True
    move_name = "move"
    examples: Sequence[str] = ("look",)
    """Typical moves, which ``action_space.sample`` draws from."""
    instance: object = None
    """What makes this episode differ from others, set by ``begin``; it decides the split."""
    metadata = {"render_modes": ["ansi"], "render_fps": 4}
    observation_space: AnyText

    def __init__(
        self,
        *,
        action_format: str = "raw",
        max_turns: int | None = None,
        max_invalid: int = 20,
        max_observation_chars: int = 32_768,
        render_mode: str | None = None,
    ) -> None:
        check_range("max_turns", max_turns, 1)
        check_range("max_invalid", max_invalid, 1)
        check_range("max_observation_chars", max_observation_chars, 1)
        if render_mode not in (None, "ansi"):
            raise ConfigError(f"render_mode must be None or 'ansi', got {render_mode!r}")
        self.format = get_format(action_format)
        self.max_turns, self.max_invalid = max_turns, max_invalid
        self.render_mode = render_mode
        self.observation_space = AnyText(max_observation_chars)
        examples = [self.format.render(move) for move in self.examples]
        self.action_space = AnyText(MAX_ACTION_CHARS, examples=examples)
        self._rng_guard = GlobalRngGuard()
        self._player_seed: int | None = None
        self._player_rng: np.random.Generator | None = None
        self._stop: StopReason | None = None
        self._turn = self._invalid = 0
        self._screen = ""

    # --- what a bridge implements --------------------------------------------------------

    def begin(self, seed: int) -> str:
        """Begin the episode of ``seed``; return the first observation."""
        raise NotImplementedError

    def play(self, text: str) -> BridgeStep:
        """Play ``text`` in the game. Any exception means that the text is unusable."""
        raise NotImplementedError

    def legal_moves(self) -> Sequence[str] | None:
        """Return every usable move in this state, or None if they are not known."""
        return None

    def random_move(self, rng: np.random.Generator) -> str:
        legal = self.legal_moves()
        moves = sorted(legal) if legal else self.examples
        return moves[int(rng.integers(len(moves)))]

    def oracle_move(self) -> str:
        raise NotImplementedError(f"{type(self).__name__} knows no solution")

    def oracle_value(self) -> float:
        return 1.0

    # --- Gymnasium -----------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: Options = None) -> tuple[str, Info]:
        """Begin a new episode; ``options`` may hold ``split`` (train, dev or test)."""
        super().reset(seed=seed)
        if seed is not None:
            self._player_seed, self._player_rng = seed, None
        if unknown := (options or {}).keys() - {"split"}:
            raise ConfigError(f"reset options may only be split, got {sorted(unknown)}")
        self._stop, self._turn, self._invalid = _PLAYING, 0, 0
        split = (options or {}).get("split")
        text = self._draw() if split is None else self._draw_from(split)
        if self.format.how:
            text = f"{text}\n\n{self.format.tell(self.examples[0], self.move_name)}"
        self._screen = text = clip(text, self.observation_space.max_length)
        return text, self._info(True, {}, {})

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if self._stop is not _PLAYING or not isinstance(action, str):
            raise refuse_step(type(self).__name__, action, self._stop)
        move = self.format.parse(visible(action))
        text, reward, stop, valid, foreign = self._play(move)
        self._turn += 1
        if not valid:
            self._invalid += 1
        terms = {"reward": reward}
        if stop is _PLAYING and not valid and self._invalid >= self.max_invalid:
            stop = StopReason.MAX_STEPS
            terms["given_up"] = self.quitting_cost()
        elif stop is _PLAYING and self._turn == self.max_turns:
            stop = StopReason.MAX_STEPS
        self._stop = stop
        self._screen = text = clip(text, self.observation_space.max_length)
        terminated = stop in TERMINAL
        truncated = not terminated and stop is not _PLAYING
        reward = sum(terms.values())
        return text, reward, terminated, truncated, self._info(valid, terms, foreign)

    def quitting_cost(self) -> float:
        """Return what a random player would lose in the remaining turns; its gains do not count.

        Only for an episode that is over, because it steps the game; reset it afterwards.
        """
        entropy = None if self._player_seed is None else (self._player_seed, 2)
        rng, lost = np.random.default_rng(entropy), 0.0
        for _ in range(_PLAYED_ON):
            try:
                step = self._play(self.random_move(rng))
            except LLMGymError:  # of an opponent that failed, in an episode that is over
                break
            lost += min(step.reward, 0.0)
            if step.stop is not _PLAYING:
                break
        return lost

    def close(self) -> None:
        """End the episode and free its resources; ``reset`` begins another one."""
        self._stop = None

    def render(self) -> str | None:
        return self._screen if self.render_mode == "ansi" else None

    # --- players -------------------------------------------------------------------------

    def random_action(self) -> str:
        if self._player_rng is None:
            entropy = None if self._player_seed is None else (self._player_seed, 1)
            self._player_rng = np.random.default_rng(entropy)
        return self.format.render(self.random_move(self._player_rng))

    def oracle_action(self) -> str:
        return self.format.render(self.oracle_move())

    def legal_actions(self) -> list[str] | None:
        moves = self.legal_moves()
        return None if moves is None else [self.format.render(move) for move in moves]

    def instance_id(self) -> str:
        if self.instance is None:
            raise NotImplementedError(f"{type(self).__name__} does not know its instances")
        return splits.digest(f"{type(self).__name__} {stable(self.instance)}")

    # --- the turn ------------------------------------------------------------------------

    def _play(self, move: str | None) -> BridgeStep:
        if move is None:
            how = self.format.tell(self.examples[0], self.move_name)
            return BridgeStep(
                f"I found no {self.move_name} in your reply. {how}".rstrip(), valid=False
            )
        if len(move) > _LONGEST_REPLY:
            return BridgeStep(f"A reply has at most {_LONGEST_REPLY} characters.", valid=False)
        with self._rng_guard:
            try:
                return self.play(move)
            except LLMGymError:  # about a setting, or an opponent that failed
                raise
            except (Exception, SystemExit):  # noqa: BLE001 - whatever a text makes others' code do
                return BridgeStep(_UNUSABLE, valid=False)

    def _draw(self) -> str:
        seed = int(self.np_random.integers(_SEEDS))
        self._rng_guard.seed(seed)
        with self._rng_guard:
            try:
                return self.begin(seed)
            except LLMGymError:
                raise
            except (Exception, SystemExit) as error:
                why = error_words(error)[:300]
                raise WorkerError(f"{type(self).__name__} could not begin: {why}") from error

    def _draw_from(self, split: object) -> str:
        wanted = splits.check_split(split)
        if not self.has_splits:
            raise ConfigError(f"{type(self).__name__} has no splits; reset without one")
        for _ in range(splits.DRAWS):
            text = self._draw()
            if splits.split_of(self.instance_id()) == wanted:
                return text
        raise ConfigError(f"no {wanted} instance among {splits.DRAWS} draws")

    def _info(
        self, valid: bool, terms: dict[str, float], foreign: Mapping[str, Any]
    ) -> dict[str, Any]:
        return {
            "valid_action": valid,
            "success": self._stop is StopReason.WON,
            "stop_reason": self._stop,
            "reward_terms": terms,
            "turn": self._turn,
            "invalid_actions": self._invalid,
            "foreign": dict(foreign),
        }
