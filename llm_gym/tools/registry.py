"""``ToolRegistry``: holds the tools of an episode and runs them.

Every failed call (unknown name, wrong arguments, exception, timeout) becomes text for the model.
Only ``KeyboardInterrupt`` and similar exceptions are raised. ``as_registry`` builds a registry from
names, so that the spec of an environment with tools can be written as JSON.
"""

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

from llm_gym.core.errors import ConfigError
from llm_gym.core.text import closest
from llm_gym.tools.definition import FunctionTool, Tool, ToolDefinition, ToolError
from llm_gym.tools.schema import fit

MAX_RESULT_CHARS = 4000
"""Default maximum length of a result."""


class ToolRegistry:
    """Tools by name.

    Args:
        tools: Tools, or functions that become tools.
        max_result_chars: Maximum length of a result; the middle of a longer one is cut out.

    >>> registry = ToolRegistry()
    >>> @registry.register
    ... def shout(text: str) -> str:
    ...     '''Say it loudly.'''
    ...     return text.upper()
    >>> registry.execute_tool("shout", text="hello")
    (True, 'HELLO')
    >>> registry.execute_tool("shoot", text="hello")
    (False, "There is no tool 'shoot'. Did you mean shout? Tools: shout.")
    """

    def __init__(
        self,
        tools: Iterable[Tool | Callable[..., object]] = (),
        *,
        max_result_chars: int = MAX_RESULT_CHARS,
    ) -> None:
        if max_result_chars < 100:
            raise ConfigError(f"max_result_chars must be at least 100, got {max_result_chars}")
        self.max_result_chars = max_result_chars
        self.tools: dict[str, Tool] = {}
        """Tools by name, in order of registration."""
        for one in tools:
            self.register(one)

    def register(self, tool: Tool | Callable[..., object]) -> Tool:
        """Add a tool or a function and return the tool. Also usable as a decorator."""
        if not isinstance(tool, Tool):
            tool = FunctionTool(tool)
        if tool.name in self.tools:
            raise ConfigError(f"there is a tool called {tool.name} already")
        self.tools[tool.name] = tool
        return tool

    @property
    def definitions(self) -> list[ToolDefinition]:
        """The definition of each tool, for the model."""
        return [tool.definition for tool in self.tools.values()]

    def schemas(self) -> list[dict[str, Any]]:
        """Return the definitions for the ``tools=`` argument of a chat template."""
        return [definition.schema() for definition in self.definitions]

    def __contains__(self, name: object) -> bool:
        return name in self.tools

    def __len__(self) -> int:
        return len(self.tools)

    def execute_tool(self, name: str, /, **params: Any) -> tuple[bool, str]:
        """Run a tool; return whether it succeeded, and its result or what went wrong."""
        tool = self.tools.get(name)
        if tool is None:
            return False, self._unknown(name)
        params, problem = fit(params, tool.definition.parameters)
        if problem:
            return False, f"{name} was not called: {problem}."
        succeeded, result = _run(tool, params)
        return succeeded, cut_middle(result, self.max_result_chars)

    def reset(self) -> None:
        for tool in self.tools.values():
            tool.reset()

    def close(self) -> None:
        for tool in self.tools.values():
            tool.close()

    def _unknown(self, name: object) -> str:
        shown = str(name)[:64]  # a parser of the user's own may find anything
        meant = closest(shown, self.tools)
        hint = f" Did you mean {meant}?" if meant else ""
        return f"There is no tool {shown!r}.{hint} Tools: {', '.join(self.tools) or 'none'}."


def cut_middle(text: str, limit: int) -> str:
    """Return ``text``; if it is longer than ``limit``, only its beginning and end.

    >>> cut_middle("0123456789" * 20, 40)
    '0123456 [187 characters left out] 456789'
    """
    if len(text) <= limit:
        return text
    keep = limit - len(f" [{len(text)} characters left out] ")
    head, tail = keep - keep // 2, keep // 2
    return f"{text[:head]} [{len(text) - keep} characters left out] {text[len(text) - tail :]}"


def as_text(result: object) -> str:
    """Return a tool's result as text: a string unchanged, other values as JSON or ``str``.

    >>> as_text("as it is"), as_text({"n": 1}), as_text(None)
    ('as it is', '{"n": 1}', 'null')
    """
    if isinstance(result, str):
        return str.__str__(result)
    try:
        return json.dumps(result, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return str(result)


def _run(tool: Tool, params: dict[str, Any]) -> tuple[bool, str]:
    if tool.timeout is None:
        return _attempt(tool, params)
    # Each call has its own thread, so that a call that hangs blocks no other.
    results: list[tuple[bool, str]] = []
    worker = threading.Thread(
        target=lambda: results.append(_attempt(tool, params)), name=tool.name, daemon=True
    )
    worker.start()
    worker.join(tool.timeout)
    return results[0] if results else (False, f"{tool.name} took longer than {tool.timeout:g} s.")


def _attempt(tool: Tool, params: dict[str, Any]) -> tuple[bool, str]:
    try:
        return True, as_text(tool.execute(**params))
    except ToolError as error:
        return False, str(error)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - it may raise anything; we tell
        return False, f"{tool.name} failed: {type(error).__name__}: {error}"


BUILT_IN = {
    "finish": "llm_gym.tools.calling:FinishTool",
    "python": "llm_gym.tools.builtin.python:PythonTool",
    "calculator": "llm_gym.tools.builtin.calculator:CalculatorTool",
    "search": "llm_gym.tools.builtin.search:SearchTool",
    "sql": "llm_gym.tools.builtin.sql:SqlTool",
}
"""Import path of each built-in tool; imported on first use."""

ToolSource = Tool | Callable[..., object] | str | Mapping[str, Any]


def get_tool(name: str, **settings: Any) -> Any:
    """Return the tool called ``name``, built with ``settings``.

    Args:
        name: A built-in tool, or ``module:attribute`` for one of your own: a class, a tool or
            a function.
        **settings: Arguments of the class.

    >>> get_tool("finish")
    <tool finish>
    """
    path = BUILT_IN.get(name, name)
    module, colon, attribute = path.partition(":")
    if not colon:
        raise ConfigError(
            f"a tool must be one of {', '.join(BUILT_IN)} or module:attribute, got {name!r}"
        )
    try:
        found: Any = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"cannot import the tool {name}: {error}") from error
    if isinstance(found, type):
        return found(**settings)
    if settings:
        raise ConfigError(f"the tool {name} is built already, so it takes no {sorted(settings)}")
    return found


def as_registry(tools: ToolRegistry | ToolSource | Iterable[ToolSource]) -> ToolRegistry:
    """Return a registry of ``tools``; a registry is returned unchanged.

    A tool is a ``Tool``, a function, a name for ``get_tool``, or a mapping with the name as
    ``"tool"`` and with settings. A mapping with ``"mcp"``, the command or the URL of an MCP server,
    adds all tools of that server.

    >>> list(as_registry(["finish"]).tools)
    ['finish']
    """
    if isinstance(tools, ToolRegistry):
        return tools
    if isinstance(tools, str | Mapping | Tool) or callable(tools):
        tools = [tools]
    if not isinstance(tools, Iterable):
        raise ConfigError(f"tools must be a tool, its name, or a list of these, got {tools!r:.100}")
    return ToolRegistry(tool for source in tools for tool in _build_tools(source))


def _build_tools(source: ToolSource) -> list[Any]:
    if isinstance(source, str):
        return [get_tool(source)]
    if not isinstance(source, Mapping):
        return [source]
    settings = dict(source)
    if "mcp" in settings:
        from llm_gym.tools.builtin.mcp_client import McpServer

        target = settings.pop("mcp")
        where = {"url": target} if isinstance(target, str) else {"command": target}
        return list(McpServer(**where, **settings).tools)  # the connection ends with the process
    if not isinstance(name := settings.pop("tool", None), str):
        raise ConfigError(f'a tool with settings needs its name as "tool", got {source!r}')
    return [get_tool(name, **settings)]
