"""``as_gym``: a ``BaseEnvironment`` as a true ``gymnasium.Env``.

The difficult part is the end. ``done`` says only that an episode is over; Gymnasium, and with it
every value estimate, asks whether the game ended (``terminated``) or was cut (``truncated``):

- The class says ``done`` (returns it, sets ``self.done`` or ``self._done``, or overrides
  ``is_done``): terminated. ``info["success"]`` makes it won or lost, otherwise it is finished.
  A class that tells the player about ``max_steps`` ends the game itself and belongs here.
- ``max_steps`` are taken and the class said nothing, or only returned the ``is_done()`` it
  inherits: truncated, ``max_steps``. The player was never told of the limit.
- The class says ``done`` and gives an ``info["stop_reason"]`` that stands for a cut (such as
  ``tokens``): truncated, with that reason.
"""

import inspect
import math
from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np

from llm_gym.core.errors import ConfigError, ContractError
from llm_gym.core.infos import Info, Options, flag, reward_terms
from llm_gym.core.legacy.base import BaseEnvironment
from llm_gym.core.outcome import TERMINAL, StopReason, refuse_step, stop_reason
from llm_gym.core.spaces import AnyText

MAX_CHARS = 1_000_000


class LegacyEnv(gym.Env[str, str]):
    """A ``BaseEnvironment`` behind Gymnasium's interface; ``as_gym`` makes it.

    ``reset(seed=...)`` reseeds ``environment.np_random`` and is passed on to a ``reset`` that
    takes a seed, or else to a method called ``seed``. Options are passed on to a ``reset`` that
    takes them and refused otherwise.

    Every ``info`` has ``valid_action``, ``success``, ``stop_reason``, ``reward_terms``, ``turn``
    and ``invalid_actions`` beside what the class put there; that of ``reset`` has
    ``system_prompt`` where there is one.
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
        """Begin an episode, also with a class whose ``reset`` forgets to clear its flags."""
        super().reset(seed=seed)
        old = self.environment
        _set_done(old, False)
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

    def _arguments(self, seed: int | None, options: dict[str, Any] | None) -> dict[str, Any]:
        old = self.environment
        taken = inspect.signature(old.reset).parameters
        takes_all = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in taken.values())
        arguments: dict[str, Any] = {}
        if options:
            if not ("options" in taken or takes_all):
                raise ConfigError(
                    f"{type(old).__name__}.reset takes no options, got {sorted(options)}; give "
                    "reset an argument called options, or leave them out"
                )
            arguments["options"] = options
        random = getattr(old, "np_random", None)  # missing where __init__ never called ours
        if random is None or (seed is not None and isinstance(random, np.random.Generator)):
            old.np_random = self.np_random
        if seed is not None:
            if "seed" in taken or takes_all:
                arguments["seed"] = seed
            elif callable(reseed := getattr(old, "seed", None)):
                reseed(seed)
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
        environment: A ``BaseEnvironment`` (used as it is, not copied), a class of them (built
            with ``config``), or a ``gymnasium.Env``, which is returned unchanged.
        config: For a class of ``BaseEnvironment`` only.

    >>> from llm_gym.core.legacy import SimpleGameEnvironment
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
        # What is not a string is no reason, and may not even be hashable.
        said = {
            key: info[key] for key in info if key != "stop_reason" or isinstance(info[key], str)
        }
        return stop_reason(True, False, said)
    return StopReason.MAX_STEPS if out_of_steps else StopReason.PLAYING


def _set_done(old: BaseEnvironment, done: bool) -> None:
    old.done = done
    old._done = done


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
