"""What a tool is: a definition that a model reads, and a function that runs.

Subclass ``Tool``, or write a typed function with a Google docstring and put ``@tool`` on it.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, overload

from llm_gym.errors import ConfigError
from llm_gym.parsing.definition import ToolDefinition as ToolDefinition
from llm_gym.tools.signature import read_function

TIMEOUT = 10.0
"""Seconds a call may take unless its tool says otherwise."""


class ToolError(Exception):
    """Raised by a tool to answer the model with its message, word for word."""


class Tool(ABC):
    """A tool that a model may call."""

    timeout: float | None = TIMEOUT
    """Seconds a call may take. It then runs in a thread, which is left behind when time is up.
    None for a tool that keeps its own time (or never waits): it runs in the caller's thread."""
    final: bool = False
    """Whether a call is the last one: its result is the answer, not something to go on from."""

    @property
    @abstractmethod
    def definition(self) -> ToolDefinition:
        """What the model is told about the tool."""

    @abstractmethod
    def execute(self, /, **params: Any) -> object:
        """Run the tool; ``params`` fit the definition.

        The result becomes text: a string as it is, anything else as JSON where it can. What is
        raised is answered as text too; ``ToolError`` in its own words.
        """

    def reset(self) -> None:
        """Forget what earlier calls left behind. Called when an episode begins."""
        return

    def close(self) -> None:
        """Free what the tool holds. Called once, at the end."""
        return

    @property
    def name(self) -> str:
        """Name in the definition."""
        return self.definition.name

    def __repr__(self) -> str:
        return f"<tool {self.name}>"


class FunctionTool(Tool):
    """A function as a tool; ``tool`` makes it. It can still be called as the function."""

    def __init__(self, function: Callable[..., object], timeout: float | None = TIMEOUT) -> None:
        self.function, self.timeout = function, check_timeout(timeout)
        name, description, parameters = read_function(function)
        self._definition = ToolDefinition(name, description, parameters)
        self.__doc__, self.__module__ = function.__doc__, function.__module__
        self.__qualname__ = function.__qualname__

    @property
    def definition(self) -> ToolDefinition:
        return self._definition

    def execute(self, /, **params: Any) -> object:
        return self.function(**params)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function."""
        return self.function(*args, **kwargs)

    def __reduce__(self) -> str | tuple[Any, ...]:
        # By name, as functions are: a decorated name no longer leads to the bare function.
        found: Any = sys.modules.get(self.__module__)
        for part in self.__qualname__.split("."):
            found = getattr(found, part, None)
        return self.__qualname__ if found is self else (FunctionTool, (self.function, self.timeout))

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
    if timeout is None:
        return None
    number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not (number and 0 < timeout < math.inf):
        raise ConfigError(f"timeout must be a number of seconds above 0 or None, got {timeout!r}")
    return timeout
