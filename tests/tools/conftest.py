import pytest


@pytest.fixture
def kills_soon(monkeypatch):
    """An MCP server that does not end by itself is killed after a tenth of a second."""
    pytest.importorskip("mcp")
    for wait in ("PROCESS_TERMINATION_TIMEOUT", "FORCE_KILL_TIMEOUT"):
        monkeypatch.setattr(f"mcp.client.stdio.{wait}", 0.1, raising=False)
