"""What a model is told about a tool: parsers write it into a prompt, tools run what comes back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from llm_gym.errors import ConfigError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_EMPTY = {"type": "object", "properties": {}}


@dataclass(frozen=True)
class ToolDefinition:
    """What a model is told about a tool.

    Args:
        name: 1 to 64 letters, digits, ``_``, ``-`` or ``.``, beginning with a letter or ``_``.
        description: What it does, for the model.
        parameters: JSON schema of the arguments: an object with properties.

    >>> ToolDefinition("now", "Tell the time.").schema()["function"]["name"]
    'now'
    """

    name: str
    description: str
    parameters: Mapping[str, Any] = field(default_factory=lambda: dict(_EMPTY))

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not _NAME.fullmatch(self.name):
            raise ConfigError(
                "a tool's name must be 1 to 64 letters, digits, '_', '-' or '.', beginning with a "
                f"letter or '_', got {self.name!r}"
            )
        if not isinstance(self.parameters, Mapping) or self.parameters.get("type") != "object":
            raise ConfigError(
                f"the parameters of the tool {self.name} must be a JSON schema such as "
                f'{{"type": "object", "properties": {{}}}}, got {self.parameters!r}'
            )

    @property
    def properties(self) -> Mapping[str, Any]:
        """The schema of each parameter, by name."""
        found: Mapping[str, Any] = self.parameters.get("properties", {})
        return found

    @property
    def required(self) -> tuple[str, ...]:
        """Names of the parameters that every call must give."""
        return tuple(self.parameters.get("required", ()))

    def schema(self) -> dict[str, Any]:
        """Return what the ``tools=`` of a chat template takes."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": dict(self.parameters),
            },
        }
