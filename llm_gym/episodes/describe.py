"""What a record says about where it was played, and how an episode begins.

``begin`` runs beside the environment, in its own process where it has one: what only the
environment itself can tell travels with the first observation, and nobody asks twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NamedTuple

import gymnasium as gym
from gymnasium.envs.registration import EnvSpec

from llm_gym.core.infos import find_attribute, find_system_prompt
from llm_gym.episodes.encoding import decode, encode
from llm_gym.legacy import LegacyEnv


class Beginning(NamedTuple):
    """What ``reset`` returned, and what the environment says about the episode."""

    observation: Any
    info: Mapping[str, Any]
    instance_id: str | None = None
    system_prompt: str = ""


def begin(
    env: gym.Env[Any, Any], seed: int | None = None, options: dict[str, Any] | None = None
) -> Beginning:
    """Reset ``env`` and return how the episode begins."""
    observation, info = env.reset(seed=seed, options=options)
    return Beginning(observation, info, _instance(env), find_system_prompt(env, info))


def describe_env(env: gym.Env[Any, Any]) -> dict[str, Any]:
    """Return ``env_id`` and ``env_spec`` of an environment, which are the same in every episode."""
    if env.spec is not None:
        return describe_spec(env.spec)
    bare = env.unwrapped
    kind = type(bare.environment if isinstance(bare, LegacyEnv) else bare)
    return {"env_id": f"{kind.__module__}:{kind.__qualname__}"}


def describe_spec(spec: EnvSpec) -> dict[str, Any]:
    """Return ``env_id`` and ``env_spec`` of a spec.

    An argument that JSON cannot hold is described in the spec: such a record is still readable,
    but its environment cannot be rebuilt from it.
    """
    try:
        described = json.loads(spec.to_json())
    except (TypeError, ValueError):
        given = {field.name: getattr(spec, field.name) for field in fields(spec) if field.init}
        wrappers = [vars(wrapper) for wrapper in spec.additional_wrappers]
        described = decode(encode({**given, "additional_wrappers": wrappers}))
    return {"env_id": spec.id, "env_spec": described}


def _instance(env: gym.Env[Any, Any]) -> str | None:
    name = find_attribute(env, "instance_id")
    try:
        name = name() if callable(name) else name
        return name if isinstance(name, str) else None
    except NotImplementedError:  # a game need not say what makes its instances differ
        return None
