"""Tools by name, so that an environment with tools has a JSON spec."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

from llm_gym.errors import ConfigError
from llm_gym.tools.definition import Tool
from llm_gym.tools.registry import ToolRegistry

BUILT_IN = {
    "finish": "llm_gym.tools.finish:FinishTool",
    "python": "llm_gym.tools.builtin.python:PythonTool",
    "calculator": "llm_gym.tools.builtin.calculator:CalculatorTool",
    "search": "llm_gym.tools.builtin.search:SearchTool",
    "sql": "llm_gym.tools.builtin.sql:SqlTool",
}
"""Where each built-in tool lives; imported when asked for."""

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
    """Return a registry of ``tools``; one that is given is returned as it is.

    A tool is a ``Tool``, a function, a name for ``get_tool``, or a mapping with the name as
    ``"tool"`` and settings beside it. A mapping with ``"mcp"``, the command or the URL of an MCP
    server, stands for all tools of that server.

    >>> list(as_registry(["finish"]).tools)
    ['finish']
    """
    if isinstance(tools, ToolRegistry):
        return tools
    if isinstance(tools, str | Mapping | Tool) or callable(tools):
        tools = [tools]
    if not isinstance(tools, Iterable):
        raise ConfigError(f"tools must be a tool, its name, or a list of these, got {tools!r:.100}")
    return ToolRegistry(tool for source in tools for tool in _built(source))


def _built(source: ToolSource) -> list[Any]:
    if isinstance(source, str):
        return [get_tool(source)]
    if not isinstance(source, Mapping):
        return [source]
    settings = dict(source)
    if "mcp" in settings:
        from llm_gym.tools.builtin.mcp_client import mcp_tools

        target = settings.pop("mcp")
        where = {"url": target} if isinstance(target, str) else {"command": target}
        return list(mcp_tools(**where, **settings))
    name = settings.pop("tool", None)
    if not isinstance(name, str):
        raise ConfigError(f'a tool with settings needs its name as "tool", got {source!r}')
    return [get_tool(name, **settings)]
