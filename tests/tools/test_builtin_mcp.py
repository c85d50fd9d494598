"""Tools of MCP servers, against a real one."""

import sys
import textwrap

import pytest

from llm_gym.errors import ConfigError
from llm_gym.tools import ToolError, ToolRegistry
from llm_gym.tools.builtin.mcp_client import McpServer, mcp_tools

SERVER = """
import time
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

@server.tool()
def wait(seconds: float) -> str:
    "Wait."
    time.sleep(seconds)
    return "done"

server.run("stdio")
"""


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    pytest.importorskip("mcp")
    path = tmp_path_factory.mktemp("mcp") / "server.py"
    path.write_text(textwrap.dedent(SERVER))
    return [sys.executable, str(path)]


@pytest.fixture(scope="module")
def server(command):
    with McpServer(command, timeout=60, start_s=120) as made:
        yield made


def test_the_servers_tools_are_tools(server):
    registry = ToolRegistry(server.tools)
    assert list(registry.tools) == ["add", "odd_name_1", "wait"]
    assert registry.definitions[0].description == "Add two numbers."
    assert registry.definitions[0].required == ("a", "b")
    assert registry.execute_tool("add", a=2, b=40) == (True, "42")


def test_arguments_are_checked_before_they_are_sent(server):
    ok, text = ToolRegistry(server.tools).execute_tool("add", a=2)
    assert not ok
    assert "add was not called" in text


def test_what_fails_there_is_told_here(server):
    ok, text = ToolRegistry(server.tools).execute_tool("odd_name_1", reason="no luck")
    assert not ok
    assert "Error executing tool odd name/1" in text  # not every version tells the reason


def test_a_call_ends_in_time_and_none_follows_a_close(command):
    with McpServer(command, timeout=1, start_s=120) as server:
        registry = ToolRegistry(server.tools)
        assert registry.execute_tool("wait", seconds=30) == (False, "wait took longer than 1 s.")
    with pytest.raises(ToolError, match="closed"):
        server.call("add", {"a": 1, "b": 1})


def test_a_program_that_is_no_server_is_an_error_with_its_name():
    pytest.importorskip("mcp")
    with pytest.raises(ConfigError, match="no-such-program"):
        mcp_tools(["no-such-program"])


def test_one_of_command_and_url_is_given():
    for settings in ({}, {"command": ["x"], "url": "http://localhost"}):
        with pytest.raises(ConfigError, match="a command or a url"):
            McpServer(**settings)


def test_without_the_package_the_message_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(ConfigError, match=r"\[mcp\]"):
        McpServer(["x"])
