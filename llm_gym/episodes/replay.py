"""Rebuild the environment of a saved episode, play it again, and report the first difference.

A file of episodes may come from an untrusted source, and its specs name classes to import and their
settings. ``rebuild`` therefore accepts only a list of harmless classes and settings; anything else
needs ``--trust``.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from llm_gym.core.errors import RecordError, error_words
from llm_gym.core.outcome import TERMINAL, StopReason
from llm_gym.datasets.files import SUFFIXES
from llm_gym.episodes.play import add_turn, begin, describe_env, open_record, play_step
from llm_gym.episodes.record import ENV_REWARDS, Trajectory

_OWN = "llm_gym.envs."
_PLAIN_GYM = ("gymnasium.envs.toy_text.", "gymnasium.envs.classic_control.")
_AS_TEXT = "llm_gym.wrappers.as_text.env:AsTextEnv"
_MAX_NUMBER, _MAX_TEXT, _MAX_ITEMS, _MAX_DEPTH = 100_000, 2000, 1000, 5
_MAX_ROWS = 100_000
# Words, and no path, no module:attribute, no command.
_WORDS = re.compile(r"[^/\\:;\x00-\x08\x0b-\x1f\x7f]*")
_WRAPPERS = frozenset(
    {
        "gymnasium.wrappers.common:OrderEnforcing",
        "gymnasium.wrappers.common:PassiveEnvChecker",
        "gymnasium.wrappers.common:TimeLimit",
        "llm_gym.wrappers.as_text.wrapper:AsText",
        "llm_gym.wrappers.limits:EpisodeLimits",
        "llm_gym.wrappers.limits:MaxInvalid",
        "llm_gym.wrappers.limits:TokenBudget",
        "llm_gym.wrappers.tool_use:ToolUse",
        "llm_gym.wrappers.transcript:TranscriptObservation",
    }
)


def refusal(spec: EnvSpec) -> str:
    """Return the part of ``spec`` that is not known to be harmless, or ""."""
    if why := _env_risk(spec.id, spec.entry_point, spec.kwargs):
        return why
    if spec.vector_entry_point not in (None, gym.registry[spec.id].vector_entry_point):
        return f"{spec.id} names a vector environment of its own"
    for wrapper in spec.additional_wrappers:
        if wrapper.entry_point not in _WRAPPERS:
            return f"the wrapper {wrapper.entry_point!s:.80} may do anything"
        if problem := _settings_risk(wrapper.kwargs or {}, f"{wrapper.name!s:.80}"):
            return problem
    return ""


def _registered(env_id: str) -> Any:
    spec = gym.registry.get(env_id)
    return None if spec is None else spec.entry_point


def _env_risk(env_id: Any, entry_point: Any, kwargs: Mapping[str, Any]) -> str:
    if not isinstance(env_id, str) or _registered(env_id) is None:
        return f"{env_id!s:.80} is not registered"
    if _registered(env_id) != entry_point or not isinstance(entry_point, str):
        return f"{env_id} is registered as something else than {entry_point!s:.80}"
    if entry_point == _AS_TEXT:
        return _as_text_risk(kwargs)
    if not entry_point.startswith((_OWN, *_PLAIN_GYM)):
        return f"{env_id} belongs to another package"
    return _settings_risk(kwargs, env_id)


def risky_env(env_id: str, kwargs: Mapping[str, Any]) -> str:
    """Return why an id with these settings is not known to be harmless, or ""."""
    return _env_risk(env_id, _registered(env_id), kwargs)


def _as_text_risk(kwargs: Mapping[str, Any]) -> str:
    inner, own = kwargs.get("env_id", "CartPole-v1"), kwargs.get("env_kwargs") or {}
    rest = {key: value for key, value in kwargs.items() if key not in ("env_id", "env_kwargs")}
    if not isinstance(own, Mapping):
        return "env_kwargs must be an object"
    entry_point = _registered(inner) if isinstance(inner, str) else None
    if entry_point == _AS_TEXT:
        return f"{inner} inside itself has no end"
    return _env_risk(inner, entry_point, own) or _settings_risk(rest, "AsText")


def risky_setting(kwargs: Mapping[str, Any]) -> str:
    """Return the first setting that is not known to be harmless, or ""."""
    for name, value in kwargs.items():
        is_harmless = _SPECIAL.get(name, _is_plain)
        if not is_harmless(value):
            return f"{name!s:.60}={value!r:.60}"
    return ""


def _settings_risk(kwargs: Mapping[str, Any], where: str) -> str:
    found = risky_setting(kwargs)
    return f"the setting {found} of {where} may do anything" if found else ""


def _is_plain(value: Any, depth: int = 0) -> bool:
    """Return whether ``value`` is a number, a short text, or a short collection of these."""
    if value is None or isinstance(value, bool):
        return True
    if isinstance(value, int):
        return abs(value) <= _MAX_NUMBER
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, str):
        return len(value) <= _MAX_TEXT and _WORDS.fullmatch(value) is not None
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            return False
        value = list(value.values())
    is_small = isinstance(value, list | tuple) and len(value) <= _MAX_ITEMS
    return is_small and depth < _MAX_DEPTH and all(_is_plain(item, depth + 1) for item in value)


def _are_safe_tools(value: Any) -> bool:
    listed = value if isinstance(value, list) else [value]
    return all(name in ("finish", "calculator", "python") for name in listed)


def _is_safe_dataset(value: Any) -> bool:
    if isinstance(value, str):
        outside = Path(value).is_absolute() or ".." in Path(value).parts or ":" in value
        return value.lower().endswith(SUFFIXES) and not outside
    if isinstance(value, Mapping):
        return all(_is_safe_dataset(part) for part in value.values())
    return value is None or (isinstance(value, list) and len(value) <= _MAX_ROWS)


_SPECIAL: Mapping[str, Callable[[Any], bool]] = {
    "tools": _are_safe_tools,
    "dataset": _is_safe_dataset,
    "render_mode": lambda value: value in (None, "ansi"),
    # A sandbox without isolation, a foreign server, code by name.
    **dict.fromkeys(("isolation", "mcp", "sandbox", "read", "preload"), lambda value: False),
}


_MAX_SHOWN = 100
_MAX_SEED = 2**63


def rebuild(episode: Trajectory, *, trust: bool = False) -> gym.Env[str, str]:
    """Return the environment that ``episode`` was played in.

    Args:
        episode: A record with a spec.
        trust: Whether to run any code that the spec names. Otherwise it must be a registered
            environment with wrappers and tools that are known to be harmless.
    """
    if episode.env_spec is None:
        raise RecordError("the record has no spec of its environment")
    try:
        spec = EnvSpec.from_json(json.dumps(episode.env_spec))
    except (TypeError, ValueError, KeyError, AttributeError, gym.error.Error) as error:
        raise RecordError(f"its environment cannot be rebuilt: {error!s:.300}") from error
    if not trust and (why := refusal(spec)):
        raise RecordError(f"{why}; if you trust the file, pass --trust")
    try:
        return gym.make(spec)
    except Exception as error:  # any kind: the settings are untrusted
        raise RecordError(
            f"its environment cannot be rebuilt: {error_words(error):.300}"
        ) from error


def replay(env: gym.Env[str, str], episode: Trajectory) -> str:
    """Play the actions of ``episode`` in ``env``; return the first difference, or "".

    >>> import llm_gym
    >>> from llm_gym.episodes import play_episode
    >>> env = gym.make("llm_gym/GuessTheNumber-v0")
    >>> episode = play_episode(env, lambda observation: "7", seed=3)
    >>> replay(env, episode)
    ''
    >>> episode.rewards[0] = 0.5
    >>> replay(env, episode)
    'turn 0: the reward is 0.0, was 0.5'
    """
    if episode.seed is None:
        raise RecordError("the record has no seed, so nothing says which episode it is")
    if any(info.get("tool_call") for info in episode.infos):
        raise RecordError("some turns were played by tools outside the environment")
    if not 0 <= episode.seed < _MAX_SEED:
        raise RecordError(f"seed must be from 0 on and below 2**63, got {episode.seed!r:.40}")
    try:
        return _play(env, episode)
    except Exception as error:  # any kind: options and actions are untrusted
        raise RecordError(f"the environment raised {error_words(error):.300}") from error


def _play(env: gym.Env[str, str], episode: Trajectory) -> str:
    """Return the first difference between ``episode`` and what happens now, or nothing."""
    again = open_record(begin(env, episode.seed, episode.options), describe_env(env))
    if difference := _differs("instance", again.instance_id, episode.instance_id):
        return difference
    if difference := _differs("first observation", again.states[0], _at(episode.states, 0)):
        return difference
    for turn, action in enumerate(_answered_actions(episode)):
        if again.dones and again.dones[-1]:
            return f"turn {turn}: the episode is over, and was not"
        add_turn(again, action, play_step(env, action))
        if difference := _turn_differs(again, episode, turn):
            return f"turn {turn}: {difference}"
    if again.dones and again.dones[-1] and not (episode.dones and episode.dones[-1]):
        return "the episode is over, and was not"
    return ""


def _answered_actions(episode: Trajectory) -> list[str]:
    """Return the actions that the environment answered, without a last one that it failed at."""
    failed = bool(episode.infos) and "error" in episode.infos[-1]
    ended = failed and episode.stop_reason == StopReason.ERROR
    return episode.actions[:-1] if ended else episode.actions


def _turn_differs(again: Trajectory, episode: Trajectory, turn: int) -> str:
    rewards = (episode.extra or {}).get(ENV_REWARDS, episode.rewards)
    compared = {
        "observation": (again.states[turn + 1], _at(episode.states, turn + 1)),
        "reward": (again.rewards[turn], _at(rewards, turn)),
        "move": (again.moves[turn], _at(episode.moves, turn)),
        "end (terminated)": (again.terminated[turn], _at(episode.terminated, turn)),
        "cut (truncated)": (again.truncated[turn], _env_truncated(episode, turn)),
    }
    found = (_differs(name, now, then) for name, (now, then) in compared.items())
    return next(filter(None, found), "")


def _at(column: list[Any], turn: int) -> Any:
    return column[turn] if turn < len(column) else None


def _env_truncated(episode: Trajectory, turn: int) -> Any:
    """Return whether the environment truncated the episode; None if the player may have done so."""
    last = turn == len(episode.actions) - 1
    outside = episode.stop_reason not in TERMINAL and episode.stop_reason != StopReason.PLAYING
    return None if last and outside else _at(episode.truncated, turn)


def _differs(name: str, now: Any, then: Any) -> str:
    if then is None or now == then:
        return ""
    if isinstance(now, float) and isinstance(then, float) and math.isclose(now, then, rel_tol=1e-9):
        return ""
    if isinstance(now, str) and isinstance(then, str):
        pairs = enumerate(zip(now, then, strict=False))
        at = next((i for i, (a, b) in pairs if a != b), min(len(now), len(then)))
        begin = max(0, at - 20)
        now, then = now[begin : begin + _MAX_SHOWN], then[begin : begin + _MAX_SHOWN]
        return f"the {name} differs from character {at} on: it is ...{now!r}, was ...{then!r}"
    return f"the {name} is {now!r:.100}, was {then!r:.100}"
