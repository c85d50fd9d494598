"""``AsText``: any Gymnasium environment, played in text.

Read ``step`` first. It finds the action that the model's text means, lets the environment play it,
and describes the result. The words come from a phrasebook or from functions that the user gives.
Reward, flags and info are the environment's own.
"""

import copy
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal, SupportsFloat

import gymnasium as gym
import numpy as np

from llm_gym.core.env import MAX_ACTION_CHARS
from llm_gym.core.errors import ConfigError, ContractError
from llm_gym.core.infos import Info, Options, flag
from llm_gym.core.outcome import StopReason, refuse_step, stop_reason
from llm_gym.core.settings import check_range, get_format
from llm_gym.core.spaces import AnyText
from llm_gym.core.text import clip
from llm_gym.wrappers.as_text.phrasebooks.book import (
    Phrasebook,
    find_phrasebook,
    load_phrasebook,
    path_of,
)
from llm_gym.wrappers.as_text.phrasebooks.readers import Unusable
from llm_gym.wrappers.as_text.replies import ParsedReply, ReplyReader
from llm_gym.wrappers.as_text.settings import Success, load_success, of_reset, of_step
from llm_gym.wrappers.base import TextWrapper

_PLAYING = StopReason.PLAYING
_NOTHING_READ = ParsedReply(None)
_MAX_INVALID = 20
_PLAYED_ON = 200  # steps of the random play that says what giving up costs
_ENDLESS = 1000  # turns of an episode that has no limit
_ESCAPED = r'(?:[^"\\\n]|\\.){1,2000}'
_VERDICTS = ("success", "is_success")  # of an environment on a game that the fallback ended
_Played = tuple[str, SupportsFloat, bool, bool, dict[str, Any], dict[str, Any]]
_Step = tuple[str, SupportsFloat, bool, bool, dict[str, Any]]


class AsText(TextWrapper):
    r"""Play any environment in text.

    The spaces may be Discrete, MultiDiscrete, MultiBinary, Box, Text, and Dict and Tuple of these.
    A phrasebook names the actions and describes the observations; without one, the names come from
    the environment's spaces, spec and docstring. Reward, flags and the environment's keys of
    ``info`` are passed on unchanged. ``info`` also gets these keys, unless the environment uses
    them: ``move``, ``reader``, ``valid_action``, ``success`` (if known), ``stop_reason``,
    ``reward_terms``, ``turn``, ``invalid_actions``, and ``fallback``, the move that was played for
    an unusable text.

    For an unusable text the wrapper says why and plays the fallback, a move that does as little as
    possible. Its costs count, its rewards do not, and a game that ends by it is no success, so
    nonsense never pays more than play. Without a fallback (text spaces, your own ``parse``), and
    with ``invalid="feedback"``, the environment is not stepped, and the text costs as much as the
    worst step of the episode so far. If unusable texts end the episode, it costs as much as a
    random player would lose in the remaining turns (of the environment's limit, or of 1,000).

    Args:
        env: The environment to play.
        phrasebook: Replaces the phrasebook registered for the environment: a subclass of
            ``Phrasebook`` or its name, ``module:Class``. ``Phrasebook`` itself uses only spaces,
            spec and docstring.
        system_prompt: System prompt instead of the rules.
        describe: Function from observation and info to the text that the player sees.
        parse: Function from the text of a move to the action. If it returns None or raises, the
            text is unusable; the player reads the exception's message.
        success: Function that decides whether a finished episode was a success, or its name,
            ``module:function``. It gets the return, ``terminated``, the last reward and ``info``.
        action_format: How a move is written: plain, tag, boxed, json, react or raw.
        strict: Accept only a move in the exact format. By default, a reply that names exactly one
            legal move plays that move.
        rules: Where the rules go: into the first observation, or into ``system_prompt`` (the
            default if ``system_prompt`` is given).
        invalid: What an unusable text does: ``fallback`` says why and plays the fallback,
            ``feedback`` says why, ``terminate`` ends the episode.
        fallback: The move that is played for an unusable text, instead of the phrasebook's.
        penalty: Subtracted from the reward at every unusable text, at least 0.
        retries: Unusable texts per turn that do not count.
        max_invalid: Unusable texts after which the episode is truncated. None: 20, or no limit if
            fallbacks are played and the environment has a step limit.
        masked: What happens to an action that ``info["action_mask"]`` excludes: ``play`` passes it
            on, ``refuse`` makes the text unusable.
        max_observation_chars: Maximum length of a description; a longer one is cut.

    Example:
        >>> import gymnasium as gym
        >>> env = AsText(gym.make("FrozenLake-v1", is_slippery=False), rules="system")
        >>> print(env.reset(seed=0)[0])
        P . . .
        . H . H
        . . . H
        H . . G
        >>> observation, reward, terminated, truncated, info = env.step("Hm.\nright")
        >>> info["move"], info["valid_action"], info["prob"]
        ('right', True, 1.0)
    """

    has_splits = False
    _player_seed: int | None = None
    _player_rng: np.random.Generator | None = None

    def __init__(
        self,
        env: gym.Env[Any, Any],
        *,
        phrasebook: str | type[Phrasebook] | None = None,
        system_prompt: str | None = None,
        describe: Callable[[Any, dict[str, Any]], str] | None = None,
        parse: Callable[[str], Any] | None = None,
        success: str | Success | None = None,
        action_format: str = "plain",
        strict: bool = False,
        rules: Literal["observation", "system"] | None = None,
        invalid: Literal["fallback", "feedback", "terminate"] = "fallback",
        fallback: str | None = None,
        penalty: float = 0.0,
        retries: int = 0,
        max_invalid: int | None = None,
        masked: Literal["play", "refuse"] = "play",
        max_observation_chars: int = 8192,
    ) -> None:
        check_range("penalty", penalty, 0)
        check_range("retries", retries, 0)
        check_range("max_invalid", max_invalid, 1)
        check_range("max_observation_chars", max_observation_chars, 200)
        if parse is not None and masked == "refuse":
            raise ConfigError("masked='refuse' needs no parse; return None in parse to refuse one")
        super().__init__(env)
        if isinstance(phrasebook, type) and "<locals>" not in phrasebook.__qualname__:
            self._saved_kwargs["phrasebook"] = path_of(phrasebook)  # for JSON
        kind = find_phrasebook(env) if phrasebook is None else load_phrasebook(phrasebook)
        self.book = kind(env, reads_actions=parse is None)
        self._format = get_format(action_format)
        how = {"strict": strict, "refuses": masked == "refuse"}
        self._replies = ReplyReader(self.book, self._format, env.action_space, parse, **how)
        self._describe, self._own_describe = describe or self.book.describe, describe
        self._played = None if kind.played is Phrasebook.played else self.book.played
        self.rules = rules or ("observation" if system_prompt is None else "system")
        self.invalid, self.penalty, self.retries = invalid, penalty, retries
        self._fallback = None if fallback is None else self._checked_fallback(fallback)
        self._success = load_success(success)
        self.max_observation_chars = max_observation_chars
        self.observation_space = AnyText(max_observation_chars)
        examples = [self._format.render(move) for move in self.book.example_moves()]
        self.action_space = AnyText(MAX_ACTION_CHARS, examples=examples)
        self._plays_on = invalid == "fallback" and self._fallback_move({}) is not None
        limited = self._plays_on and self.book.step_limit() is not None
        self.max_invalid = max_invalid or (None if limited else _MAX_INVALID)
        self._rules_text = self._write_rules() if system_prompt is None else system_prompt
        self._clear(None)

    def _clear(self, stop: StopReason | None) -> None:
        self._stop = stop
        self._state, self._total = "", 0.0
        self._last_info: dict[str, Any] = {}
        self._turn = self._misses = self._charged = self._invalid_actions = 0
        self._worst = 0.0  # the lowest reward of a step

    # --- Gymnasium -----------------------------------------------------------------------

    def reset(self, *, seed: int | None = None, options: Options = None) -> tuple[str, Info]:
        """Begin an episode; seed and options go to the environment."""
        if seed is not None:
            self._player_seed, self._player_rng = seed, None
        observation, info = of_reset(self.env, self.env.reset(seed=seed, options=options))
        self._clear(_PLAYING)
        self._last_info = info
        self._state = text = self._words(observation, info)
        ours = self._info(_NOTHING_READ, {})
        if self.rules == "system":
            ours["system_prompt"] = self._rules_text  # for players at the other end of a process
        else:
            text = f"{self._rules_text}\n\n{text}"
        return clip(text, self.max_observation_chars), {**ours, **info}

    def step(self, action: str) -> _Step:
        if self._stop is not _PLAYING or not isinstance(action, str):
            raise refuse_step("AsText", action, self._stop)
        reading = self._replies.read(action, self._last_info, (self._rules_text, self._state))
        if reading.problem is not None:
            text, reward, terminated, truncated, info = self._answer(reading)
        else:
            text, reward, terminated, truncated, ours, own = self._play(reading)
            info = {**ours, **own}
        return clip(text, self.max_observation_chars), reward, terminated, truncated, info

    # --- the turn ------------------------------------------------------------------------

    def _play(self, reading: ParsedReply) -> _Played:
        """Play an action in the environment and return the described observation."""
        played = of_step(self.env, self.env.step(reading.action))
        observation, reward, terminated, truncated, info = played
        if self._played is not None:
            self._played(reading.action)
        self._turn += 1
        self._misses = 0
        self._last_info = info
        points = float(reward)
        self._worst = min(self._worst, points)
        self._total += points
        self._state = text = self._words(observation, info)
        ours = self._info(reading, {"reward": points})
        if terminated or truncated:
            self._finish(ours, terminated, truncated, points, info)
            if terminated and self._own_describe is None:
                text = f"{text}\n{self.book.ending(points)}".strip()
        return text, reward, terminated, truncated, ours, info

    def _checked_fallback(self, move: str) -> str | None:
        """Return the fallback setting; None if the phrasebook handles the fallback.

        The phrasebook knows when the fallback is legal and what to play instead.
        """
        try:
            action = self._replies.action(move, {})
        except Unusable as problem:
            raise ConfigError(f"fallback must be a move, got {move!r:.100}: {problem}") from None
        if self._replies.by_function or self.book.reader is None:
            return move
        self.book.fallback = self.book.reader.write(action)
        return None

    def _fallback_move(self, info: Mapping[str, Any]) -> str | None:
        if self._replies.by_function and self._fallback is None:
            return None
        if self.book.mask_advises and not self._replies.refuses:
            info = {}  # the move that the rules name can always be played
        return self._fallback or self.book.fallback_move(info)

    def _play_fallback(self, reading: ParsedReply) -> _Step | None:
        """Play the fallback for an unusable text; None if there is none in this state."""
        fallback = self._fallback_move(self._last_info)
        if fallback is None:
            return None
        self._charged += 1
        action = self._replies.action(fallback, self._last_info)
        played = self._play(reading._replace(action=action))
        text, reward, terminated, truncated, ours, info = played
        points = float(reward)
        # It may cost, and does not earn.
        terms = ours["reward_terms"] = {"reward": min(points, 0.0)}
        self._total += terms["reward"] - points
        if self.penalty:
            terms["invalid"] = -self.penalty
        if terminated or truncated:
            ours["success"] = False
            if self._stop is StopReason.WON:
                self._stop = ours["stop_reason"] = StopReason.LOST
        elif self.max_invalid is not None and self._charged >= self.max_invalid:
            truncated = True
            self._stop = ours["stop_reason"] = StopReason.MAX_STEPS
            terms["given_up"] = self.quitting_cost()
        ours["fallback"] = fallback
        text = f"{reading.problem} I play {fallback} for you.\n{text}"
        won = {key: value for key, value in info.items() if key not in _VERDICTS}
        return text, sum(terms.values()), terminated, truncated, {**ours, **won}

    def _answer(self, reading: ParsedReply) -> _Step:
        """Answer an unusable text: play the fallback, or leave the environment as it is."""
        self._invalid_actions += 1
        self._misses += 1
        counts = self._misses > self.retries
        if counts and self._plays_on and (step := self._play_fallback(reading)):
            return step
        cost = self.penalty
        if counts:
            cost -= self._worst
            self._misses = 0
            self._charged += 1
            self._turn += 1
            if self.invalid == "terminate":
                self._stop = StopReason.INVALID
            elif self._charged >= (self.max_invalid or _MAX_INVALID):
                self._stop = StopReason.MAX_STEPS
        terminated = self._stop is StopReason.INVALID
        terms = {"invalid": -cost} if cost else {}
        info = self._info(reading, terms)
        if "action_mask" in self._last_info:
            info["action_mask"] = self._last_info["action_mask"]  # it still holds
        problem = reading.problem or ""
        text = problem if terminated else f"{problem}\n{self._state}"
        cut = self._stop is StopReason.MAX_STEPS
        if terminated or cut:
            terms["given_up"] = self.quitting_cost()
        return text, sum(terms.values(), 0.0), terminated, cut, info

    def quitting_cost(self) -> float:
        """Return what a random player would lose in the remaining turns; its gains do not count.

        Only for an episode that is over, because it steps the environment; reset it afterwards.
        """
        entropy = None if self._player_seed is None else (self._player_seed, 2)
        rng, info, over = np.random.default_rng(entropy), self._last_info, False
        left = (self.book.step_limit() or _ENDLESS) - self._turn
        lost, steps = 0.0, 0
        while steps < min(left, _PLAYED_ON) and not over:
            try:
                action = self._random_action(info, rng)
                _, reward, terminated, truncated, info = of_step(self.env, self.env.step(action))
            except Exception:  # noqa: BLE001 - of others' code, in an episode that is over
                break
            lost += float(reward) if float(reward) < 0.0 else 0.0
            steps, over = steps + 1, terminated or truncated
        return lost * left / steps if steps and not over else lost

    def _random_action(self, info: Mapping[str, Any], rng: np.random.Generator) -> Any:
        try:
            return self._replies.action(self.book.random_move(info, rng), info)
        except (NotImplementedError, Unusable):  # moves that only the author's function reads
            space = copy.deepcopy(self.env.action_space)
            space.seed(int(rng.integers(2**31)))
            return space.sample()

    def _info(self, reading: ParsedReply, terms: dict[str, float]) -> dict[str, Any]:
        return {
            "move": reading.move,
            "reader": reading.how,
            "valid_action": reading.problem is None,
            "success": False,
            "stop_reason": self._stop,
            "reward_terms": terms,
            "turn": self._turn,
            "invalid_actions": self._invalid_actions,
        }

    def _finish(
        self,
        ours: dict[str, Any],
        terminated: bool,
        truncated: bool,
        points: float,
        info: Mapping[str, Any],
    ) -> None:
        """Record how the episode ended, if that is known."""
        success = flag(info, "success")
        if self._success is not None:
            success = self._success(self._total, terminated, points, info)
        elif success is None:
            success = self.book.success(self._total, terminated, points, info)
        known: dict[str, Any] = {"stop_reason": info.get("stop_reason")}
        if success is None:
            del ours["success"]
        else:
            ours["success"] = known["success"] = bool(success)
        self._stop = ours["stop_reason"] = stop_reason(terminated, truncated, known)

    # --- players -------------------------------------------------------------------------

    def legal_actions(self) -> list[str] | None:
        moves = self.book.legal_moves(self._last_info)
        return None if moves is None else [self._format.render(move) for move in moves]

    def action_pattern(self) -> str:
        moves = self.book.legal_moves(self._last_info)
        if moves is not None:
            return self._format.pattern(moves)
        pattern = self.book.move_pattern() or r"[^\n]{1,200}"
        if '"' in pattern and self._format.escape('"') != '"':
            pattern = _ESCAPED  # quotes within quotes: any string that JSON allows
        return self._format.pattern(pattern)

    def random_action(self) -> str:
        if self._player_rng is None:
            entropy = None if self._player_seed is None else (self._player_seed, 1)
            self._player_rng = np.random.default_rng(entropy)
        return self._format.render(self.book.random_move(self._last_info, self._player_rng))

    def oracle_action(self) -> str:
        return self._format.render(self.book.oracle_move())

    # --- text ----------------------------------------------------------------------------

    @property
    def system_prompt(self) -> str:
        return self._rules_text if self.rules == "system" else ""

    def _write_rules(self) -> str:
        parts = [self.book.rules_text(), self.book.limit_text(), self.book.how()]
        if self.retries:
            parts.append(f"Up to {self.retries} unusable replies per turn are forgiven.")
        if self.invalid == "terminate":
            parts.append("An unusable reply ends the episode.")
        elif self._plays_on:
            move = self._fallback_move({})
            parts.append(f"For an unusable reply I play {move}, and what it earns does not count.")
        if self.max_invalid is not None and self.invalid != "terminate":
            cut = f"After {self.max_invalid} unusable replies the episode is cut,"
            parts.append(f"{cut} and costs what random play would cost.")
        if self.penalty:
            parts.append(f"Each unusable reply costs {self.penalty:g} points.")
        text = " ".join(filter(None, parts))
        return f"{text}\n{self._replies.instruction()}".rstrip("\n")

    def _words(self, observation: Any, info: dict[str, Any]) -> str:
        text = self._describe(observation, info)
        if not isinstance(text, str):
            raise ContractError(f"describe must return a str, got {type(text).__name__}")
        return clip(text, self.max_observation_chars)


SETTINGS: Mapping[str, Any] = inspect.unwrap(AsText.__init__).__kwdefaults__
"""The settings of ``AsText`` and their defaults."""
