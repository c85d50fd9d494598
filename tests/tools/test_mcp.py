"""An MCP server as a setting: all its tools, page by page, and its end with the registry."""

import sys
from pathlib import Path

import pytest

from llm_gym.errors import ConfigError
from llm_gym.tools.registry import as_registry

COMMAND = [sys.executable, str(Path(__file__).with_name("mcp_server.py"))]


@pytest.fixture(scope="module")
def registry():
    pytest.importorskip("mcp")
    registry = as_registry([{"mcp": COMMAND, "timeout": 60}, "finish"])
    yield registry
    registry.close()


def test_every_page_of_tools_is_listed(registry):
    assert list(registry.tools) == ["shout", "fail", "sleep", "finish"]
    shout = registry.tools["shout"].definition
    assert (shout.description, shout.required) == ("Say it loudly.", ("text",))


def test_they_are_called_like_any_other(registry):
    success, text = registry.execute_tool("shout", text="hello")
    assert success
    assert text.startswith("HELLO\n[image")
    assert registry.execute_tool("shout") == (False, "shout was not called: text is missing.")
    assert registry.execute_tool("fail", text="x") == (False, "It is broken.")


def test_the_time_of_a_call_is_a_setting():
    pytest.importorskip("mcp")
    registry = as_registry({"mcp": COMMAND, "timeout": 0.5})
    assert registry.execute_tool("sleep") == (False, "sleep took longer than 0.5 s.")
    registry.close()


def test_the_connection_ends_with_the_registry():
    pytest.importorskip("mcp")
    registry = as_registry({"mcp": COMMAND})
    assert registry.execute_tool("shout", text="hello")[0]
    registry.close()
    success, text = registry.execute_tool("shout", text="hello")
    assert not success
    assert "closed" in text


def test_a_missing_client_is_named_with_its_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(ConfigError, match=r"\[mcp\]"):
        as_registry({"mcp": COMMAND})
