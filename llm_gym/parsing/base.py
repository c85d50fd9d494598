"""What every parser returns and promises, and what a model is told about a tool.

A parser is pure: the same text gives the same ``Parsed``, whatever came before. It never raises
for what a model wrote, reads at most ``MAX_CHARS`` characters, and takes time linear in them. What
its own ``render`` writes, it reads back exactly.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from llm_gym.errors import ConfigError
from llm_gym.reading.markup import own_turn

MAX_CHARS = 1_000_000
MAX_CALLS = 32
"""Most calls in one reply."""


@dataclass(frozen=True)
class ToolCall:
    """A call that a model wrote; whether there is such a tool is for the registry to say."""

    name: str
    arguments: dict[str, Any] = field(default_factory=dict)
    text: str | None = None
    """Input that came without names, as ReAct allows; it is meant for the only parameter."""


class Parsed(NamedTuple):
    """What a reply says: calls, an answer or a problem.

    One of the three is set, with one exception: a bare ReAct action (``Action: north``) is both,
    a call if there is a tool of that name and otherwise a move.
    """

    calls: tuple[ToolCall, ...] = ()
    answer: str | None = None
    """The part of a reply without calls that is meant for the environment or the user."""
    thought: str = ""
    problem: str = ""
    """Why nothing can be done with the reply, for the model."""


class ActionParser(ABC):
    """Reads the calls in a model's reply, and writes them."""

    name: str
    """What ``get_parser`` calls it."""

    def parse(self, text: str) -> Parsed:
        """Return what ``text`` says in its own turn. Reasoning is not looked at."""
        if len(text) > MAX_CHARS:
            return Parsed(problem=f"Your reply is longer than {MAX_CHARS} characters.")
        return self.read(own_turn(text))

    def render(self, calls: Sequence[ToolCall], thought: str = "") -> str:
        """Return a reply with ``calls``, which ``parse`` reads back exactly.

        Raises ``ConfigError`` for what the format cannot say, such as a thought that reads as a
        call.
        """
        text = self.write(tuple(calls), thought)
        found = self.parse(text)
        if (found.calls, found.thought) != (tuple(calls), thought):
            raise ConfigError(
                f"the {self.name} format cannot say this so that it is read back: calls "
                f"{list(calls)!r:.300} with the thought {thought!r:.100}"
            )
        return text

    def render_answer(self, answer: str, thought: str = "") -> str:
        """Return a reply without a call, which ``parse`` reads back exactly."""
        text = self.write_answer(answer, thought)
        found = self.parse(text)
        if (found.calls, found.answer, found.thought) != ((), answer, thought):
            raise ConfigError(
                f"the {self.name} format cannot say this so that it is read back: the answer "
                f"{answer!r:.200} with the thought {thought!r:.100}"
            )
        return text

    def render_result(self, call: ToolCall, result: str) -> str:
        """Return the result of ``call`` as the model reads it."""
        return result

    # --- what a format defines -----------------------------------------------------------

    @abstractmethod
    def read(self, text: str) -> Parsed:
        """Return what ``text`` says; its length is bounded and its reasoning dropped."""

    @abstractmethod
    def write(self, calls: tuple[ToolCall, ...], thought: str) -> str:
        """Return a reply with ``calls``."""

    def write_answer(self, answer: str, thought: str) -> str:
        """Return a reply without a call."""
        return f"{thought}\n{answer}" if thought else answer

    @abstractmethod
    def instructions(self, tools: Sequence[ToolDefinition]) -> str:
        """Return how to call ``tools``, for the rules; empty where there are none."""


def broken(why: str, how: str) -> Parsed:
    """Return the problem of a call that cannot be read.

    >>> broken("the name is missing", 'Write {"name": ...}.').problem
    'I could not read your tool call: the name is missing. Write {"name": ...}.'
    """
    return Parsed(problem=f"I could not read your tool call: {why}. {how}")


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
