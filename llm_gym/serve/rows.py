"""The plain protocol: many sessions in one request. ``llm_gym.remote.wire`` has its words."""

from __future__ import annotations

import json
from typing import Any

import gymnasium as gym
from gymnasium import spaces

from llm_gym import __version__
from llm_gym.core.infos import find_attribute, find_system_prompt
from llm_gym.errors import ConfigError
from llm_gym.remote import wire
from llm_gym.serve.limits import Limits
from llm_gym.serve.sessions import Answer, Job, Sessions

_write = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def read_jobs(body: bytes, limits: Limits) -> list[Job]:
    """Return the rows of a request; ``ConfigError`` says what is wrong with it."""
    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        raise ConfigError("the body must be JSON") from None
    rows = request.get("rows") if isinstance(request, dict) else None
    if not isinstance(rows, list) or len(rows) > limits.rows:
        raise ConfigError(f"the body must be an object with at most {limits.rows} rows")
    for at, row in enumerate(rows):
        if problem := _problem(row):
            raise ConfigError(f"row {at}: {problem}")
    return [tuple(row) for row in rows]


def _problem(row: Any) -> str:
    """Return what is wrong with a row, or nothing."""
    if type(row) is not list or len(row) != 4:
        return "must be a list of session, number, operation and argument"
    name, number, operation, argument = row
    if type(name) is not str or type(number) is not int:
        return "its session must be a string and its number a whole number"
    if operation in (wire.STEP, wire.STEP_AND_RESET, wire.CALL):
        return "" if type(argument) is str else f"{operation} takes a string"
    if operation == wire.RESET:
        fits = type(argument) is list and len(argument) == 2
        seed, options = argument if fits else ("", "")
        fits = fits and (seed is None or type(seed) is int)
        fits = fits and (options is None or type(options) is dict)
        return "" if fits else "reset takes a seed and options, either of them null"
    return "" if operation == wire.CLOSE else f"operation must be one of {wire.OPERATIONS}"


def write_answers(answers: list[Answer]) -> bytes:
    """Return the body of an answer."""
    return _write({"rows": answers}).encode("ascii")


def about(env: gym.Env[str, str], env_id: str, sessions: Sessions) -> dict[str, Any]:
    """Return what a player has to know of ``env`` before the first episode."""
    limits = sessions.limits
    return {
        "protocol": wire.PROTOCOL,
        "version": __version__,
        "env_id": env_id,
        "observation": _space(env.observation_space),
        "action": _space(env.action_space),
        "system_prompt": find_system_prompt(env),
        "has_splits": find_attribute(env, "has_splits") is True,
        "players": sorted(sessions.players & _players(env)),
        "limits": {
            "rows": limits.rows,
            "body_bytes": limits.body_bytes,
            "sessions": limits.sessions,
            "episode_turns": limits.episode_turns,
            "idle_s": limits.idle_s,
        },
    }


def _players(env: gym.Env[str, str]) -> set[str]:
    return {name for name in wire.PLAYERS if env.has_wrapper_attr(f"{name}_action")}


def _space(space: Any) -> dict[str, Any]:
    if not isinstance(space, spaces.Text):
        raise ConfigError(f"only environments of text can be served, got {space}")
    examples = getattr(space, "examples", ())
    return {"max_length": int(space.max_length), "examples": [str(one) for one in examples][:100]}
