"""Environments whose ``step`` returns four values, and ``as_gym``, which adapts them to Gymnasium.

``BaseEnvironment`` is for classes that return ``(observation, reward, done, info)`` from ``step``
and a string from ``reset``. New environments should use ``llm_gym.TextEnv``.

``done`` says only that an episode is over. Gymnasium also asks whether the game ended
(``terminated``) or was cut off (``truncated``), and value estimates depend on the answer:

- The class says ``done`` (returns it, sets ``self.done`` or ``self._done``, or overrides
  ``is_done``): terminated. ``info["success"]`` says whether it is won or lost; without this key,
  the stop reason is ``finished``. A class that tells the player about ``max_steps`` ends the game
  itself and belongs here.
- ``max_steps`` are taken and the class did not say ``done``, or only returned the inherited
  ``is_done()``: truncated, ``max_steps``. The player was never told of the limit.
- The class says ``done`` and ``info["stop_reason"]`` names a truncation (such as ``tokens``):
  truncated, with that reason.
"""

import inspect
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np

from llm_gym.core.errors import ConfigError, ContractError
from llm_gym.core.infos import Info, Options, flag, reward_terms
from llm_gym.core.outcome import TERMINAL, StopReason, refuse_step, stop_reason
from llm_gym.core.settings import check_range, check_type, plain
from llm_gym.core.spaces import AnyText
from llm_gym.reading.formats import drop_thinking, parse_plain

DEFAULT_MAX_STEPS = 10


@dataclass
class EnvironmentConfig:
    """Settings of a ``BaseEnvironment``.

    Define your own parameters in a subclass; it is typed and rejects misspelt names:

    >>> @dataclass
    ... class MazeConfig(EnvironmentConfig):
    ...     rooms: int = 4
    >>> MazeConfig(max_steps=20, rooms=9)
    MazeConfig(max_steps=20, seed=None, rooms=9)
    """

    max_steps: int = DEFAULT_MAX_STEPS
    """Steps after which an episode is over."""
    seed: int | None = None
    """Seed of ``np_random``; None draws one from the operating system."""


class BaseEnvironment(ABC):
    """An environment that answers a step with observation, reward, done and info.

    ``as_gym`` turns it into a ``gymnasium.Env``; functions of llm_gym that take an environment call
    it. The defaults below are set on the class, so a subclass works even if its ``__init__`` or
    ``reset`` never calls ``super()``.

    Args:
        config: An object with attributes or a dictionary; ``max_steps`` and ``seed`` are read
            here, the rest is for the subclass, which finds it in ``self.config``.
    """

    config: Any = None
    state: Any = None
    """Reserved for the subclass; the base class does not use it."""
    step_count: int = 0
    """Steps taken. A subclass may count them; otherwise ``as_gym`` does."""
    max_steps: int = DEFAULT_MAX_STEPS
    np_random: np.random.Generator
    """Random generator of this environment, seeded by the config and by ``as_gym``."""
    _done: bool = False
    _limit_reached: bool = False

    def __init__(self, config: object | Mapping[str, Any] | None = None) -> None:
        self.config = config
        read = config.get if isinstance(config, Mapping) else partial(getattr, config)
        self.max_steps, seed = plain(read("max_steps", DEFAULT_MAX_STEPS)), read("seed", None)
        check_type("max_steps", self.max_steps, int)
        check_range("max_steps", self.max_steps, 1)
        check_type("seed", seed, int | None)
        check_range("seed", seed, 0)
        self.np_random = np.random.default_rng(seed)
        self.state = None
        self.done = False
        self.step_count = 0

    @property
    def done(self) -> bool:
        """Whether the episode is over by the rules of the game. Also called ``_done``."""
        return self._done

    @done.setter
    def done(self, done: bool) -> None:
        self._done = done

    @abstractmethod
    def reset(self) -> str:
        """Begin an episode and return the first observation."""

    @abstractmethod
    def step(self, action: str) -> tuple[str, float, bool, dict[str, Any]]:
        """Play ``action`` and return observation, reward, done and info."""

    @abstractmethod
    def get_state_description(self) -> str:
        """Return the current state as text."""

    def get_prompt_prefix(self) -> str:
        """Return the system prompt; empty for none."""
        return ""

    def is_done(self) -> bool:
        """Return whether the episode is over, by its rules or because ``max_steps`` are taken."""
        # Noted, because a step may return this: ``as_gym`` has to tell a cut from an end.
        self._limit_reached = not self.done and self.step_count >= self.max_steps
        return bool(self.done) or self._limit_reached


MAX_CHARS = 1_000_000


class LegacyEnv(gym.Env[str, str]):
    """A ``BaseEnvironment`` behind Gymnasium's interface; ``as_gym`` makes it.

    ``reset(seed=...)`` reseeds ``environment.np_random`` and is passed on to a ``reset`` that
    takes a seed. Options are passed on to a ``reset`` that takes them and refused otherwise.

    Every ``info`` has ``valid_action``, ``success``, ``stop_reason``, ``reward_terms``, ``turn``
    and ``invalid_actions`` in addition to the keys of the class. The ``info`` of ``reset`` has
    ``system_prompt`` if there is one.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 4}

    def __init__(self, environment: BaseEnvironment) -> None:
        self.environment = environment
        self.observation_space = AnyText(MAX_CHARS)
        self.action_space = AnyText(MAX_CHARS)
        self.render_mode = "ansi"
        self._stop: StopReason | None = None
        self._turn = 0
        self._invalid_actions = 0

    @property
    def system_prompt(self) -> str:
        return self.environment.get_prompt_prefix()

    def reset(self, *, seed: int | None = None, options: Options = None) -> tuple[str, Info]:
        """Begin an episode, even if the class does not clear its ``done`` flags."""
        super().reset(seed=seed)
        old = self.environment
        old.done = old._done = False  # a subclass may have hidden one behind the other
        old.step_count = 0
        observation = old.reset(**self._arguments(seed, options))
        self._stop, self._turn, self._invalid_actions = StopReason.PLAYING, 0, 0
        info = self._info({}, StopReason.PLAYING, {})
        if prompt := self.system_prompt:
            info["system_prompt"] = prompt  # for players at the other end of a process
        return _text(observation, old, "reset"), info

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if self._stop is not StopReason.PLAYING or not isinstance(action, str):
            raise refuse_step(type(self.environment).__name__, action, self._stop)
        old = self.environment
        before = old.step_count
        old._limit_reached = False
        observation, reward, done, info = _check_step(old.step(action), old)
        if old.step_count == before:
            old.step_count += 1
        self._turn += 1
        self._invalid_actions += not _is_valid(info)
        self._stop = _why_over(old, done, info)
        terminated = self._stop in TERMINAL
        truncated = not terminated and self._stop is not StopReason.PLAYING
        terms = reward_terms(info) or {"reward": reward}
        return observation, reward, terminated, truncated, self._info(info, self._stop, terms)

    def describe(self) -> str:
        return self.environment.get_state_description()

    def render(self) -> str:
        return self.describe()

    def close(self) -> None:
        if callable(close := getattr(self.environment, "close", None)):
            close()

    def __str__(self) -> str:
        return f"<LegacyEnv<{type(self.environment).__name__}>>"

    def _arguments(self, seed: int | None, options: Options) -> dict[str, Any]:
        old = self.environment
        taken = inspect.signature(old.reset).parameters
        takes_all = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in taken.values())
        given = {"options": options or None, "seed": seed}
        arguments = {
            name: value
            for name, value in given.items()
            if value is not None and (takes_all or name in taken)
        }
        if options and "options" not in arguments:
            raise ConfigError(
                f"{type(old).__name__}.reset takes no options, got {sorted(options)}; give "
                "reset an argument called options, or leave them out"
            )
        random = getattr(old, "np_random", None)  # missing where __init__ never called ours
        if random is None or (seed is not None and isinstance(random, np.random.Generator)):
            old.np_random = self.np_random
        return arguments

    def _info(self, info: Mapping[str, Any], stop: StopReason, terms: Any) -> dict[str, Any]:
        return {
            **info,
            "valid_action": _is_valid(info),
            "success": bool(flag(info, "success")),
            "stop_reason": stop,
            "reward_terms": dict(terms),
            "turn": self._turn,
            "invalid_actions": self._invalid_actions,
        }


def as_gym(
    environment: BaseEnvironment | type[BaseEnvironment] | gym.Env[Any, Any] | Any,
    config: object | Mapping[str, Any] | None = None,
) -> gym.Env[Any, Any]:
    """Return ``environment`` as a ``gymnasium.Env``.

    Args:
        environment: A ``BaseEnvironment`` (used directly, not copied), a subclass of it (built with
            ``config``), or a ``gymnasium.Env``, which is returned unchanged.
        config: Only for a subclass of ``BaseEnvironment``.

    >>> env = as_gym(SimpleGameEnvironment, {"max_steps": 8})
    >>> observation, info = env.reset(seed=0)
    >>> info["turn"], env.environment.max_steps
    (0, 8)
    """
    if isinstance(environment, type) and issubclass(environment, BaseEnvironment):
        return LegacyEnv(environment(config))
    if config is not None:
        raise ConfigError("config is for a class of BaseEnvironment; this one is built already")
    if isinstance(environment, BaseEnvironment):
        return LegacyEnv(environment)
    if isinstance(environment, gym.Env):
        return environment
    given = environment.__name__ if isinstance(environment, type) else repr(environment)
    raise ConfigError(
        "as_gym takes a BaseEnvironment, a class of them or a gymnasium.Env, got "
        f"{given[:100]} ({type(environment).__name__})"
    )


def _why_over(old: BaseEnvironment, done: bool, info: Mapping[str, Any]) -> StopReason:
    out_of_steps = old.step_count >= old.max_steps
    over = old.done or old._done  # a subclass may have hidden the property behind an attribute
    if done and not over and old._limit_reached:
        done = False  # the class only passed on what is_done() said about the limit
    if not (done or over):
        over = old.is_done() and not out_of_steps  # for a class with an is_done of its own
    if done or over:
        return stop_reason(True, False, info)
    return StopReason.MAX_STEPS if out_of_steps else StopReason.PLAYING


def _is_valid(info: Mapping[str, Any]) -> bool:
    valid = flag(info, "valid_action")
    return not flag(info, "invalid_action") if valid is None else valid


def _check_step(result: Any, old: BaseEnvironment) -> tuple[str, float, bool, dict[str, Any]]:
    name = type(old).__name__
    if not isinstance(result, tuple) or len(result) != 4:
        given = f"{len(result)} values" if isinstance(result, tuple) else type(result).__name__
        raise ContractError(
            f"{name}.step must return (observation, reward, done, info), got {given}"
        )
    observation, reward, done, info = result
    try:
        number = float(reward)
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(reward, str) or not math.isfinite(number):
        raise ContractError(f"{name}.step must return a finite reward, got {reward!r}")
    if info is not None and not isinstance(info, Mapping):
        raise ContractError(
            f"{name}.step must return a dictionary as info, got {type(info).__name__}"
        )
    return _text(observation, old, "step"), number, bool(done), dict(info or {})


def _text(observation: object, old: BaseEnvironment, method: str) -> str:
    if not isinstance(observation, str):
        raise ContractError(
            f"{type(old).__name__}.{method} must return its observation as a str, got "
            f"{type(observation).__name__}"
        )
    if len(observation) > MAX_CHARS:
        raise ContractError(
            f"{type(old).__name__}.{method} must return at most {MAX_CHARS} characters, got "
            f"{len(observation)}"
        )
    return observation


SIZE = 3
ITEM = "sword"
_STEPS = {"north": (0, 1), "south": (0, -1), "east": (1, 0), "west": (-1, 0)}
_COMMANDS = {
    "move": re.compile(r"(?:move|go|walk) (?:to the )?(north|south|east|west)"),
    "pick up": re.compile(r"(?:pick up|take|get) (?:the )?(\S+)"),
    "complete": re.compile(r"(?:complete|finish) (?:the )?(quest)"),
}
_MAX_COMMAND = 200


def parse_command(text: str) -> tuple[str, str] | None:
    r"""Return the verb and the object of the command in the last line of ``text``, or None.

    >>> parse_command("I need the sword.\nPick up the sword!"), parse_command("fly")
    (('pick up', 'sword'), None)
    """
    line = parse_plain(drop_thinking(text)) or ""
    if len(line) > _MAX_COMMAND:
        return None
    words = " ".join(line.lower().split()).rstrip(".!")
    found = ((verb, pattern.fullmatch(words)) for verb, pattern in _COMMANDS.items())
    return next(((verb, one[1]) for verb, one in found if one), None)


class SimpleGameEnvironment(BaseEnvironment):
    """Pick up the sword, carry it to the altar and complete the quest.

    The board has 3 by 3 squares, north is up, and the player begins in the middle. Where sword
    and altar are is drawn from ``np_random``, so a seed fixes the episodes that follow. Eight
    steps are always enough. The steps that remain are part of the description, so running out of
    them is a loss by the rules. The reward is 1 for the quest and 0 for everything else.

    >>> game = SimpleGameEnvironment({"max_steps": 10, "seed": 0})
    >>> print(game.reset())
    Game State:
    - Position: (1, 1)
    - Sword: at (0, 2)
    - Altar: at (2, 2)
    - Inventory: empty
    - Steps remaining: 10
    >>> for action in ["move north", "move west", "pick up sword", "move east", "move east"]:
    ...     state, reward, done, info = game.step(action)
    >>> game.step("complete quest")[1:]
    (1.0, True, {'success': True})
    """

    def reset(self) -> str:
        self.done, self.step_count = False, 0
        middle = SIZE * SIZE // 2
        squares = [square for square in range(SIZE * SIZE) if square != middle]
        sword, altar = self.np_random.choice(squares, size=2, replace=False)
        self.position = (SIZE // 2, SIZE // 2)
        self.item_at: tuple[int, int] | None = (int(sword) % SIZE, int(sword) // SIZE)
        self.goal = (int(altar) % SIZE, int(altar) // SIZE)
        return self.get_state_description()

    def step(self, action: str) -> tuple[str, float, bool, dict[str, Any]]:
        self.step_count += 1
        command = parse_command(action)
        refusal = "I do not know that command." if command is None else self._play(*command)
        info: dict[str, Any] = {"invalid_action": True} if refusal else {}
        success = self.done
        if success or self.step_count >= self.max_steps:
            self.done, info["success"] = True, success
        feedback = f"{refusal}\n" if refusal else ""
        state = feedback + self.get_state_description()
        return state, float(success), self.done, info

    def get_state_description(self) -> str:
        item = "carried" if self.item_at is None else f"at {self.item_at}"
        return (
            "Game State:\n"
            f"- Position: {self.position}\n"
            f"- {ITEM.capitalize()}: {item}\n"
            f"- Altar: at {self.goal}\n"
            f"- Inventory: {ITEM if self.item_at is None else 'empty'}\n"
            f"- Steps remaining: {self.max_steps - self.step_count}"
        )

    def get_prompt_prefix(self) -> str:
        return (
            f"You are on a board of {SIZE} by {SIZE} squares; north of (1, 1) is (1, 2), east of "
            f"it (2, 1). Bring the {ITEM} to the altar and complete the quest there, within "
            f"{self.max_steps} steps. Commands: move north, move south, move east, move west, "
            f"pick up {ITEM}, complete quest. Answer with one command; it must be the last line."
        )

    def _play(self, verb: str, target: str) -> str:
        """Carry out a command; return why it cannot be done, or nothing."""
        if verb == "move":
            (x, y), (dx, dy) = self.position, _STEPS[target]
            if not (0 <= x + dx < SIZE and 0 <= y + dy < SIZE):
                return "The board ends here."
            self.position = (x + dx, y + dy)
            return ""
        if verb == "pick up":
            if target != ITEM or self.item_at != self.position:
                return "There is no such thing here."
            self.item_at = None
            return ""
        if self.item_at is not None:
            return f"You do not carry the {ITEM}."
        if self.position != self.goal:
            return "The altar is elsewhere."
        self.done = True
        return ""
