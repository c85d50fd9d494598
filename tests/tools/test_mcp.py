"""MCP servers: one written by hand, as a setting, and one of the package's own."""

import sys
from pathlib import Path

import pytest

from llm_gym.core.errors import ConfigError, MissingExtraError
from llm_gym.tools import ToolError, ToolRegistry
from llm_gym.tools.builtin.mcp_client import McpServer
from llm_gym.tools.registry import as_registry

COMMAND = [sys.executable, str(Path(__file__).with_name("mcp_server.py"))]
OF_THE_PACKAGE = """
try:
    from mcp.server.mcpserver import MCPServer as Server
except ImportError:
    from mcp.server.fastmcp import FastMCP as Server

server = Server("tiny")

@server.tool()
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b

@server.tool(name="odd name/1")
def fail(reason: str) -> str:
    "Fail."
    raise ValueError(reason)

server.run("stdio")
"""


@pytest.fixture(scope="module")
def registry():
    pytest.importorskip("mcp")
    registry = as_registry([{"mcp": COMMAND, "timeout": 60}, "finish"])
    yield registry
    registry.close()


def test_every_page_of_tools_is_listed_and_called_like_any_other(registry):
    assert list(registry.tools) == ["shout", "fail", "sleep", "finish"]
    shout = registry.tools["shout"].definition
    assert (shout.description, shout.required) == ("Say it loudly.", ("text",))
    success, text = registry.execute_tool("shout", text="hello")
    assert success
    assert text.startswith("HELLO\n[image")
    assert registry.execute_tool("shout") == (False, "shout was not called: text is missing.")
    assert registry.execute_tool("fail", text="x") == (False, "It is broken.")


@pytest.mark.slow
def test_tools_of_the_mcp_packages_own_server_work(tmp_path):
    pytest.importorskip("mcp")
    (tmp_path / "server.py").write_text(OF_THE_PACKAGE)
    command = [sys.executable, str(tmp_path / "server.py")]
    with McpServer(command, timeout=60, start_s=120) as server:
        registry = ToolRegistry(server.tools)
        assert list(registry.tools) == ["add", "odd_name_1"]
        assert registry.definitions[0].required == ("a", "b")
        assert registry.execute_tool("add", a=2, b=40) == (True, "42")
        ok, text = registry.execute_tool("odd_name_1", reason="no luck")
        assert (ok, "odd name/1" in text) == (False, True)  # not every version tells the reason
    with pytest.raises(ToolError, match="closed"):
        server.call("add", {"a": 1, "b": 1})


def test_a_call_times_out_and_close_ends_the_connection(kills_soon):
    registry = as_registry({"mcp": COMMAND, "timeout": 0.5})
    assert registry.execute_tool("sleep") == (False, "sleep took longer than 0.5 s.")
    registry.close()
    success, text = registry.execute_tool("shout", text="hello")
    assert (success, "closed" in text) == (False, True)


def test_exactly_one_of_command_and_url_is_needed_and_the_mcp_package(monkeypatch):
    for settings in ({}, {"command": ["x"], "url": "http://localhost"}):
        with pytest.raises(ConfigError, match="url"):
            McpServer(**settings)
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(MissingExtraError, match=r"\[mcp\]"):
        as_registry({"mcp": COMMAND})
