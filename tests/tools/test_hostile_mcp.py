"""Faulty MCP servers: one error of ours, in time, and no process left."""

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from llm_gym.core.errors import ConfigError

pytest.importorskip("mcp")

from llm_gym.tools import ToolRegistry
from llm_gym.tools.builtin.mcp_client import McpServer
from llm_gym.tools.definition import ToolError
from llm_gym.tools.sandbox.guard import guard_command
from tests.processes import run_python, still_running

HERE = Path(__file__).parent
SERVER = str(HERE / "hostile_mcp_server.py")


@pytest.fixture
def place(tmp_path):
    """The file into which a server writes its process."""
    return tmp_path / "pids"


def pids(place):
    return [int(line) for line in place.read_text().split()] if place.exists() else []


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("deaf", "did not answer within 1 s"), ("endless", "more than 100 pages"), ("flood", ""),
        *(pytest.param(*row, marks=pytest.mark.slow) for row in (
            ("silent", "did not answer within 1 s"), ("many", "or 1000 tools"), ("shapes", ""),
            ("ends", ""),
        )),
    ],
)  # fmt: skip
def test_a_server_without_a_tool_list_is_refused_and_ended(place, kind, why, kills_soon):
    with pytest.raises(ConfigError, match=f"cannot connect.*{why}"):
        # Only a deaf server needs its time-out to come; the others must be found out before it.
        McpServer([sys.executable, SERVER, kind, str(place)], start_s=1.0 if "1 s" in why else 60.0)
    # A busy machine may not have started it within that second.
    assert len(pids(place)) == 1 or "1 s" in why
    assert still_running(pids(place)) == []


@pytest.mark.parametrize(
    "lies",
    [("shapes", "parts", "numbers", "nothing", "deep", "error", "other id", "noise", "silent"),
     ("ends",), ("flood",)],
    ids=lambda lies: lies[0],
)  # fmt: skip
def test_an_invalid_answer_fails_one_call_and_the_next_is_made(place, lies):
    server = McpServer([sys.executable, SERVER, "tools/call", str(place)], start_s=60.0, timeout=60)
    registry = ToolRegistry(server.tools)
    for how in lies:
        server.timeout = 60.0 if how in ("noise", "ends", "flood") else 1.0
        succeeded, answer = registry.execute_tool("shout", text=how)
        if how == "noise":  # what is no answer is passed over
            assert (succeeded, answer.splitlines()[0]) == (True, "NOISE")
        elif how != "deep":
            assert not succeeded, how
            assert answer, how
            assert "\n" not in answer, how
    registry.close()
    assert still_running(pids(place)) == []


def test_an_invalid_schema_restricts_nothing(place):
    with McpServer([sys.executable, SERVER, "schema", str(place)], timeout=60) as server:
        registry = ToolRegistry(server.tools)
        assert registry.execute_tool("odd", n=5)[0] in (True, False)
        assert "whole number" in registry.execute_tool("odd", n="x")[1]


def test_a_server_whose_loop_has_just_ended_is_closed():
    server, over = McpServer.__new__(McpServer), threading.Event()
    server._loop, server._closing = asyncio.new_event_loop(), asyncio.Event()
    server._loop.close()
    server._thread = threading.Thread(target=over.wait)  # still on its way out
    server._thread.start()
    with pytest.raises(ToolError, match="closed"):
        server.call("add", {})
    threading.Timer(0.1, over.set).start()
    server.close()
    assert not server._thread.is_alive()


def test_the_server_ends_with_us_even_when_we_are_killed(place):
    code = f"""
import os, signal, sys, threading, time
from llm_gym.tools.builtin.mcp_client import McpServer
from llm_gym.tools.definition import ToolError
def end():
    while not os.path.exists({str(place)!r}) or not os.path.getsize({str(place)!r}):
        time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGKILL)
threading.Thread(target=end).start()
McpServer([sys.executable, {SERVER!r}, "deaf", {str(place)!r}], start_s=60.0)
"""
    assert run_python(code, capture_output=False).returncode == -9
    assert len(pids(place)) == 1
    assert still_running(pids(place)) == []


def guarded(command, line_bytes=0):
    """Run a command under the guard, apart from us, since it may end its whole group."""
    command = guard_command(command, line_bytes=line_bytes)
    return subprocess.run(command, input=b"hello\n", capture_output=True, start_new_session=True)


def test_the_guard_passes_on_streams_and_exit_status():
    done = guarded([sys.executable, "-c", "print(input()); raise SystemExit(7)"])
    assert (done.returncode, done.stdout) == (7, b"hello\n")
    assert guarded(["/nowhere"]).returncode == 127


@pytest.mark.parametrize("line", [0, 1, 65536, 200_000])
def test_the_guard_passes_on_lines_of_any_allowed_length(line):
    code = f"import sys; sys.stdout.write(('a' * {line} + chr(10)) * 3 + 'end')"
    done = guarded([sys.executable, "-c", code], line_bytes=max(line, 3))
    assert (done.returncode, done.stdout) == (0, (b"a" * line + b"\n") * 3 + b"end")


@pytest.mark.parametrize("before", ["", "short\\n"])
def test_a_line_that_is_too_long_ends_the_program(before):
    code = f"import sys\nsys.stdout.write('{before}')\nwhile True: sys.stdout.write('a' * 4096)"
    done = guarded([sys.executable, "-c", code], line_bytes=100_000)
    assert done.returncode == -9
    assert len(done.stdout) <= 100_000 + len("short\n")
    assert b"more than 100000 bytes" in done.stderr
