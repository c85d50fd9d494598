"""A child of the worker: the process of one call or one session.

``enter`` gives up the rights that the code must not have, then ``serve`` runs the code. The outside
trusts nothing that a child sends.
"""

import ast
import atexit
import contextlib
import json
import linecache
import os
import random  # noqa: TID251 - seeded alike in every child: a call should not depend on chance
import socket
import struct
import sys
import threading
import traceback
import types
from typing import Any, NamedTuple, TextIO

from llm_gym.tools.sandbox.inside import kernel, namespaces, seccomp

_CHILDREN = 8  # children at once for which a per-user limit on tasks leaves room
_SIGNALS = 256  # queued signals and timers, which are memory of the kernel
_FRAMES = 12
_TRACEBACK_CHARS = 4000
_ERROR_CHARS = 500
_LIBRARY = f"{os.path.dirname(os.__file__)}/"
"""Folder of the standard library; tracebacks must not show it to the model."""


class WorkerContext(NamedTuple):
    """What all children of one worker share."""

    isolation: str
    folder: str
    proc: int
    machine: str
    landlock: int
    rules: list[kernel.LandlockRule]
    """Landlock's rules for every child, without its own folder."""
    threads: int = 0
    """Threads that the user had when the worker started."""


class ChildLimits(NamedTuple):
    """What a child may use."""

    memory_bytes: int
    disk_bytes: int
    files: int
    tasks: int
    cpu_seconds: int


def enter(context: WorkerContext, limits: ChildLimits, channel: int) -> None:
    """Give up, permanently, all rights that the code must not have.

    Only the descriptors of input, output, errors and ``channel`` stay open.
    """
    os.setsid()
    namespaced = context.isolation == "namespaces"
    if namespaced:
        namespaces.enter_child(context.proc, limits.disk_bytes, limits.files)
    # Under Landlock alone nothing can be written, so there is no working folder.
    os.chdir("/" if context.isolation == "landlock" else context.folder)
    if context.isolation != "none":
        kernel.drop_capabilities()
        kernel.die_with_parent()
        kernel.no_new_privileges()
        if context.landlock:
            own = kernel.landlock_rules((), [context.folder] if namespaced else ())
            kernel.restrict_files(context.landlock, [*context.rules, *own])
    os.closerange(3, channel)
    os.closerange(channel + 1, 1 << 20)
    _set_limits(context, limits)
    if context.isolation != "none":
        kernel.install_filter(seccomp.program(context.machine, os.getpid(), metadata=namespaced))


def _set_limits(context: WorkerContext, limits: ChildLimits) -> None:
    import resource

    values = {
        resource.RLIMIT_AS: limits.memory_bytes,
        resource.RLIMIT_FSIZE: limits.disk_bytes,
        resource.RLIMIT_NOFILE: limits.files,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_SIGPENDING: _SIGNALS,
    }
    if limits.cpu_seconds:
        values[resource.RLIMIT_CPU] = limits.cpu_seconds
    if context.isolation == "namespaces":  # a user namespace counts its own
        values[resource.RLIMIT_NPROC] = limits.tasks
    elif context.isolation == "landlock":  # counts all threads of the user
        values[resource.RLIMIT_NPROC] = context.threads + _CHILDREN * limits.tasks
    for name, value in values.items():
        hard = resource.getrlimit(name)[1]
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(name, (bound, bound))


# --- running the code ---------------------------------------------------------------------------


def receive(channel: socket.socket) -> dict[str, Any] | None:
    """Return the next message, or None at the end."""
    head = _exactly(channel, 4)
    body = _exactly(channel, struct.unpack(">I", head)[0]) if head else b""
    return json.loads(body) if body else None


def send(channel: socket.socket, message: dict[str, Any]) -> None:
    """Send a message: its length, then JSON."""
    body = json.dumps(message).encode()
    channel.sendall(struct.pack(">I", len(body)) + body)


def _exactly(channel: socket.socket, count: int) -> bytes:
    parts = []
    while count:
        part = channel.recv(min(count, 1 << 20))
        if not part:
            return b""
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def prepare(path: list[str]) -> None:
    """Make the interpreter look as code expects it; done once, for all children."""
    sys.path[:] = path
    sys.argv = [""]
    for name in [name for name in sys.modules if name.split(".")[0] == "llm_gym"]:
        del sys.modules[name]  # only the inner half is loaded: an import must find the whole
    # A writer caches whether it writes to a pipe; the streams of a child are pipes.
    for end in os.pipe():
        os.dup2(end, 1)
        os.dup2(end, 2)
        os.close(end)
    sys.stdout = sys.__stdout__ = _writer(1)  # type: ignore[assignment,misc]
    sys.stderr = sys.__stderr__ = _writer(2)  # type: ignore[assignment,misc]


def serve(channel: socket.socket, once: bool) -> int:
    """Run what comes over ``channel``; return the exit status."""
    random.seed(0)
    module = types.ModuleType("__main__")
    sys.modules["__main__"] = module
    count = 0
    while (request := receive(channel)) is not None:
        count += 1  # each run has a name of its own, which tracebacks of its functions show
        name = "<python>" if once else f"<python {count}>"
        status, error = execute(request["code"], vars(module), name)
        if once:
            _finish()
        _flush()
        send(channel, {"exit": status, "error": error})
        if once:
            return status
    return 0


def _writer(descriptor: int) -> TextIO:
    # Line buffering, so that output before a timeout is not lost.
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
        # ``ast.parse`` would add a frame to the traceback.
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
        error.__traceback__ = None  # free the objects that the frames hold
    try:
        frames = error.__traceback__.tb_next if error.__traceback__ else None
        report = traceback.TracebackException(type(error), error, frames, limit=-_FRAMES)
        text, line = "".join(report.format()), "".join(report.format_exception_only()).strip()
        text = text.replace(_LIBRARY, "")
        where = [frame.lineno for frame in report.stack if frame.filename == name]
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
