"""Tool definitions in the shape of OpenAI's API: ``tools=`` of a request or a template."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from llm_gym.core.infos import find_attribute
from llm_gym.tools.registry import ToolRegistry


def _one(name: str, about: str, argument: str, meaning: str) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {argument: {"type": "string", "description": meaning}},
        "required": [argument],
    }
    return {
        "type": "function",
        "function": {"name": name, "description": about, "parameters": schema},
    }


_PLAY = _one("play", "Play one move and see what happens.", "move", "As the rules ask for.")


def tool_definitions(env: gym.Env[str, str]) -> list[dict[str, Any]]:
    """Return the tools of an environment with tools; of any other, the one tool ``play``.

    >>> import llm_gym
    >>> told = tool_definitions(gym.make("llm_gym/MathPython-v0"))
    >>> [one["function"]["name"] for one in told]
    ['python']
    >>> tool_definitions(gym.make("llm_gym/Echo-v0"))[0]["function"]["name"]
    'play'
    """
    if (own := find_attribute(env, "sample_tools")) is not None:
        return [tool.definition.schema() for tool in own()]
    registry = find_attribute(env, "registry")
    return list(registry.schemas()) if isinstance(registry, ToolRegistry) else [_PLAY]
