"""``Tool``: a definition for the model, and a method that runs the tool.

Subclass ``Tool``, or write a typed function with a Google docstring and put ``@tool`` on it.
"""

from __future__ import annotations

import functools
import inspect
import math
import re
import sys
import types
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, overload

from llm_gym.core.errors import ConfigError
from llm_gym.reading.calls import ToolDefinition as ToolDefinition

TIMEOUT = 10.0
"""Default time limit of a call in seconds."""


class ToolError(Exception):
    """Raised by a tool; the model gets its message word for word."""


def text_definition(name: str, description: str, parameter: str, meaning: str) -> ToolDefinition:
    """Return the definition of a tool whose only parameter is a text."""
    schema = {
        "type": "object",
        "properties": {parameter: {"type": "string", "description": meaning}},
        "required": [parameter],
        "additionalProperties": False,
    }
    return ToolDefinition(name, description, schema)


class Tool(ABC):
    """A tool that a model may call."""

    definition: ToolDefinition
    """What the model is told about the tool."""
    timeout: float | None = TIMEOUT
    """Time limit of a call in seconds. The call runs in a thread, which is abandoned after this
    time. None for a tool that limits its own time or never waits: it runs in the caller's
    thread."""
    final: bool = False
    """Whether a call ends the use of tools; its result is then the answer."""

    @abstractmethod
    def execute(self, /, **params: Any) -> object:
        """Run the tool; ``params`` fit the definition.

        The result becomes text: a string stays unchanged, other values become JSON if possible. An
        exception becomes text, too; for a ``ToolError`` this is only its message.
        """

    def reset(self) -> None:
        """Forget the state of earlier calls. Called when an episode begins."""
        return

    def close(self) -> None:
        """Free the tool's resources. Called once, at the end."""
        return

    @property
    def name(self) -> str:
        return self.definition.name

    def __repr__(self) -> str:
        return f"<tool {self.name}>"


class FunctionTool(Tool):
    """A tool that ``tool`` made of a function. It can still be called like the function."""

    def __init__(self, function: Callable[..., object], timeout: float | None = TIMEOUT) -> None:
        functools.update_wrapper(self, function)
        self.function, self.timeout = function, check_timeout(timeout)
        self.definition = read_function(function)

    def execute(self, /, **params: Any) -> object:
        return self.function(**params)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __reduce__(self) -> str | tuple[Any, ...]:
        # By name, as functions are: a decorated name no longer leads to the bare function.
        name = self.function.__qualname__
        found: Any = sys.modules.get(self.__module__)
        for part in name.split("."):
            found = getattr(found, part, None)
        return name if found is self else (FunctionTool, (self.function, self.timeout))

    def __deepcopy__(self, memo: object) -> FunctionTool:
        return self


@overload
def tool(function: Callable[..., object], /) -> FunctionTool: ...
@overload
def tool(*, timeout: float | None = ...) -> Callable[[Callable[..., object]], FunctionTool]: ...
def tool(
    function: Callable[..., object] | None = None, /, *, timeout: float | None = TIMEOUT
) -> FunctionTool | Callable[[Callable[..., object]], FunctionTool]:
    """Make a tool of a typed function with a Google docstring.

    The types become the schema, the first paragraph the description, and the lines under
    ``Args:`` the descriptions of the parameters.

    Args:
        function: The function, when used as ``@tool``.
        timeout: As in ``Tool``, when used as ``@tool(timeout=2)``.

    >>> @tool
    ... def add(a: int, b: int = 1) -> int:
    ...     '''Add two numbers.
    ...
    ...     Args:
    ...         a: The first.
    ...         b: The second.
    ...     '''
    ...     return a + b
    >>> add.definition.properties["b"]
    {'type': 'integer', 'description': 'The second.', 'default': 1}
    >>> add(2), add.definition.required
    (3, ('a',))
    """
    if function is None:
        return lambda found: FunctionTool(found, timeout)
    return FunctionTool(function, timeout)


def check_timeout(timeout: float | None) -> float | None:
    """Return ``timeout`` if it is a number of seconds above 0, or None."""
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if timeout is None or (is_number and 0 < timeout < math.inf):
        return timeout
    raise ConfigError(f"timeout must be a number of seconds above 0 or None, got {timeout!r}")


_SIMPLE: dict[Any, dict[str, Any]] = {
    str: {"type": "string"}, int: {"type": "integer"}, float: {"type": "number"},
    bool: {"type": "boolean"}, type(None): {"type": "null"}, list: {"type": "array"},
    dict: {"type": "object"}, Any: {},
}  # fmt: skip
_ARG = re.compile(r"(\w+)(?: *\([^)]*\))? *:(.*)")
_SECTION = re.compile(r"(?:Args|Arguments|Returns|Raises|Yields|Example|Examples|Note|Notes):")
_WITH_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def read_function(function: Callable[..., object]) -> ToolDefinition:
    """Return the definition of a tool that calls ``function``."""
    # A function may be wrapped, as by ``lru_cache``; a builtin has no types.
    if not inspect.isroutine(inspect.unwrap(function)) or inspect.isbuiltin(function):
        given = f"{function!r:.200}" + "; build a class first" * isinstance(function, type)
        raise ConfigError(f"a tool must be a Tool object or a function, got {given}")
    name = function.__name__
    if inspect.iscoroutinefunction(function):
        raise ConfigError(f"the tool {name} must be a plain function, got an async one")
    description, described = read_docstring(inspect.getdoc(function) or "")
    if not description:
        raise ConfigError(f"the tool {name} needs a docstring: it is what the model reads")
    hints = get_type_hints(function)
    parameters = inspect.signature(function).parameters
    if unknown := described.keys() - parameters.keys():
        raise ConfigError(
            f"the docstring of the tool {name} describes {sorted(unknown)}, which it does not take"
        )
    properties = {
        key: _read_parameter(parameter, hints, described, f"parameter {key} of the tool {name}")
        for key, parameter in parameters.items()
    }
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required := [key for key, given in parameters.items() if given.default is given.empty]:
        schema["required"] = required
    return ToolDefinition(name, description, {**schema, "additionalProperties": False})


def _read_parameter(
    parameter: inspect.Parameter, hints: dict[str, Any], described: dict[str, str], where: str
) -> dict[str, Any]:
    key = parameter.name
    if parameter.kind not in _WITH_NAME:
        raise ConfigError(f"{where} must be one that is given by name, got {parameter}")
    if key not in hints:
        raise ConfigError(f"{where} needs a type, such as {key}: str")
    schema = type_schema(hints[key], where)
    if key in described:
        schema["description"] = described[key]
    if isinstance(parameter.default, str | int | float | bool | None):
        schema["default"] = parameter.default
    return schema


def type_schema(hint: Any, where: str = "the type") -> dict[str, Any]:
    """Return the JSON schema of a type.

    >>> type_schema(list[int]), type_schema(Literal["asc", "desc"])
    ({'type': 'array', 'items': {'type': 'integer'}}, {'type': 'string', 'enum': ['asc', 'desc']})
    >>> type_schema(int | None)
    {'anyOf': [{'type': 'integer'}, {'type': 'null'}]}
    """
    if hint in _SIMPLE:
        return dict(_SIMPLE[hint])
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        kinds = {type(value) for value in arguments}
        schema = dict(_SIMPLE[kinds.pop()]) if len(kinds) == 1 else {}
        return {**schema, "enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [type_schema(one, where) for one in arguments]}
    if origin is list:
        return {"type": "array", "items": type_schema(arguments[0], where)}
    if origin is dict and arguments[0] is str:
        return {"type": "object", "additionalProperties": type_schema(arguments[1], where)}
    raise ConfigError(
        f"{where} must be made of str, int, float, bool, None, Any, list, dict with str keys, "
        f"Literal and |, got {hint!r}"
    )


def read_docstring(text: str) -> tuple[str, dict[str, str]]:
    r"""Return the description and the descriptions of the arguments in a Google docstring.

    >>> read_docstring("Find it.\n\nArgs:\n    query: What to\n        look for.\n    k: How many.")
    ('Find it.', {'query': 'What to look for.', 'k': 'How many.'})
    """
    head: list[str] = []
    arguments: dict[str, str] = {}
    section = key = ""
    indent = 0
    for line in text.splitlines():
        stripped = line.strip()
        if _SECTION.fullmatch(stripped) and line == stripped:
            section, key, indent = stripped, "", 0
        elif not section:
            head.append(stripped)
        elif section in ("Args:", "Arguments:") and stripped:
            depth = len(line) - len(line.lstrip())
            indent = indent or depth
            if depth <= indent and (found := _ARG.fullmatch(stripped)):
                key = found[1]
                arguments[key] = found[2].strip()
            elif key:
                arguments[key] = f"{arguments[key]} {stripped}".strip()
    paragraphs = (" ".join(each.split()) for each in "\n".join(head).split("\n\n"))
    return "\n\n".join(filter(None, paragraphs)), arguments
