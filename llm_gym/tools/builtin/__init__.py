"""Tools that come with llm_gym: ``python``, ``calculator``, ``search``, ``sql``, and MCP's."""

from importlib import import_module
from typing import Any

_HOMES = {
    "CalculatorTool": "calculator",
    "McpServer": "mcp_client",
    "PythonTool": "python",
    "SearchTool": "search",
    "SqlTool": "sql",
    "mcp_tools": "mcp_client",
}
__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    # Late, so that a tool does not load what only another one needs.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
