"""Runs the code, inside the cell. Nothing here is trusted by the outside."""

from __future__ import annotations

import ast
import atexit
import contextlib
import json
import linecache
import os
import random  # noqa: TID251 - seeded alike in every cell: a call should not depend on chance
import socket
import struct
import sys
import threading
import traceback
import types
from typing import Any, TextIO

_FRAMES = 12
_TRACEBACK_CHARS = 4000
_ERROR_CHARS = 500
_LIBRARY = f"{os.path.dirname(os.__file__)}/"
"""Where Python is on this machine, which is nothing to tell a player."""


def receive(control: socket.socket) -> dict[str, Any] | None:
    """Return the next message, or None at the end."""
    head = _exactly(control, 4)
    body = _exactly(control, struct.unpack(">I", head)[0]) if head else b""
    return json.loads(body) if body else None


def send(control: socket.socket, message: dict[str, Any]) -> None:
    """Send a message: its length, then JSON."""
    body = json.dumps(message).encode()
    control.sendall(struct.pack(">I", len(body)) + body)


def _exactly(control: socket.socket, count: int) -> bytes:
    parts = []
    while count:
        part = control.recv(min(count, 1 << 20))
        if not part:
            return b""
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def prepare(path: list[str]) -> None:
    """Make the interpreter look as code expects it; done once, for all cells."""
    sys.path[:] = path
    sys.argv = [""]
    for name in [name for name in sys.modules if name.split(".")[0] == "llm_gym"]:
        del sys.modules[name]  # it is only the inner half: an import should find the whole
    # A writer remembers whether it writes to a pipe, as those of a cell will be.
    for end in os.pipe():
        os.dup2(end, 1)
        os.dup2(end, 2)
        os.close(end)
    sys.stdout = sys.__stdout__ = _writer(1)  # type: ignore[assignment,misc]
    sys.stderr = sys.__stderr__ = _writer(2)  # type: ignore[assignment,misc]


def serve(control: socket.socket, once: bool) -> int:
    """Run what comes over ``control``; return the exit status."""
    random.seed(0)
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    count = 0
    while (request := receive(control)) is not None:
        count += 1  # a function keeps the name of the run that defined it, for its traceback
        name = "<python>" if once else f"<python {count}>"
        status, error = execute(request["code"], vars(module), name)
        if once:
            _finish()
        _flush()
        send(control, {"exit": status, "error": error})
        if once:
            return status
    return 0


def _writer(descriptor: int) -> TextIO:
    # By line, so that what was printed before the time ran out is not lost.
    return open(
        descriptor, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False
    )


def execute(code: str, namespace: dict[str, Any], name: str) -> tuple[int, str]:
    """Run ``code`` as a notebook does: the value of a last expression is shown.

    Returns:
        The exit status, and in one line what went wrong ("" if nothing did).
    """
    lines = code.splitlines(keepends=True)
    linecache.cache[name] = (len(code), None, lines, name)  # tracebacks quote from here
    try:
        # Of ast.parse, a frame would show.
        tree: ast.Module = compile(code, name, "exec", ast.PyCF_ONLY_AST)  # type: ignore[assignment]
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, name, "exec"), namespace)
        if last is not None:
            exec(compile(ast.Interactive([last]), name, "single"), namespace)
    except SystemExit as stop:
        return _exit_status(stop.code)
    except BaseException as error:  # noqa: BLE001 - whatever the code raised is its result
        return 1, _report(error, name)
    return 0, ""


def _exit_status(code: object) -> tuple[int, str]:
    if code is None or isinstance(code, int):
        status = (code or 0) & 255
        return status, f"SystemExit: {status}" if status else ""
    sys.stderr.write(f"{code}\n")
    return 1, f"SystemExit: {code}"[:_ERROR_CHARS]


def _report(error: BaseException, name: str) -> str:
    """Write the traceback, as Python would but short; return its last line."""
    kind = type(error).__name__
    if isinstance(error, MemoryError):
        error.__traceback__ = None  # let go of what the frames hold
    try:
        frames = error.__traceback__.tb_next if error.__traceback__ else None
        told = traceback.TracebackException(type(error), error, frames, limit=-_FRAMES)
        text, line = "".join(told.format()), "".join(told.format_exception_only()).strip()
        text = text.replace(_LIBRARY, "")
        where = [frame.lineno for frame in told.stack if frame.filename == name]
    except BaseException:  # noqa: BLE001 - an exception may have a hostile __str__
        text, line, where = f"{kind}\n", kind, []
    if len(text) > _TRACEBACK_CHARS:
        half = _TRACEBACK_CHARS // 2
        text = f"{text[:half]}\n  [...]\n{text[-half:]}"
    with contextlib.suppress(BaseException):
        sys.stderr.write(text)
    line = line.rpartition("\n")[2][:_ERROR_CHARS]
    return f"{line} (line {where[-1]})" if where else line


def _finish() -> None:
    """Do what an interpreter does at its end: wait for threads, run exit functions."""
    with contextlib.suppress(BaseException):
        threading._shutdown()  # type: ignore[attr-defined]
    with contextlib.suppress(BaseException):
        atexit._run_exitfuncs()


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        with contextlib.suppress(BaseException):
            stream.flush()  # type: ignore[union-attr]
