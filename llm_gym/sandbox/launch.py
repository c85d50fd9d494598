"""Starting a worker: what it may read, and the command that puts walls around it."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from llm_gym.sandbox.inside.cell import WALLED
from llm_gym.sandbox.inside.namespaces import DEVICES, FOLDER
from llm_gym.sandbox.result import SandboxError

_START = 30.0  # seconds for a worker to start, preloaded packages included
_SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/share/zoneinfo", "/etc/ld.so.cache")
# The inner half without llm_gym itself, which would bring numpy and Gymnasium along.
_BOOT = """
import json, os, sys, types
package = ["llm_gym", "tools", "sandbox"]
for count in range(1, 4):
    module = types.ModuleType(".".join(package[:count]))
    module.__path__ = [os.path.join(sys.argv[1], *package[:count])]
    sys.modules[module.__name__] = module
from llm_gym.sandbox.inside.zygote import main
main(json.loads(sys.argv[2]))
"""
PRELOAD = (
    "bisect", "collections", "dataclasses", "datetime", "decimal", "fractions", "functools",
    "heapq", "itertools", "json", "math", "operator", "re", "statistics", "string", "textwrap",
    "typing",
)  # fmt: skip
"""Modules that code asks for all the time: imported once, before the first call."""


def readable(more: Iterable[str] = ()) -> list[str]:
    """Return the real paths that code may read: interpreter, packages, system libraries."""
    paths = sysconfig.get_paths()
    wanted = [os.path.dirname(paths[name]) for name in ("stdlib", "platstdlib")]
    wanted += [paths[name] for name in ("purelib", "platlib")]
    wanted += [os.path.realpath(sys.executable), *_SYSTEM, *more]
    found = sorted({os.path.realpath(path) for path in wanted if os.path.exists(path)})
    kept: list[str] = []
    for path in found:
        if not any(_within(path, parent) for parent in kept):
            kept.append(path)
    return kept


def _within(path: str, parent: str) -> bool:
    return path == parent or path.startswith(parent.rstrip("/") + "/")


class Worker:
    """A running worker and the door to it.

    Args:
        isolation: bubblewrap, namespaces, landlock or none.
        read: What code may read besides interpreter, packages and system libraries.
        preload: Modules to import before the first call.
        subprocesses: Whether cells may execute programs.
    """

    def __init__(
        self, isolation: str, read: Sequence[str], preload: Sequence[str], subprocesses: bool
    ) -> None:
        self.isolation = isolation
        self.owner, self.closed = os.getpid(), False
        paths = readable(read)
        walls = _walls(isolation, paths)
        self.folder = tempfile.mkdtemp(prefix="llm-gym-")
        home = FOLDER if isolation in WALLED else self.folder
        self.door, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
        settings = {
            "isolation": isolation,
            "door": inner.fileno(),
            "proc": proc,
            "folder": self.folder,
            "read": paths,
            "path": _import_path(paths, read),
            "preload": [*PRELOAD, *preload],
            "subprocesses": subprocesses,
        }
        with inner:
            self.process = subprocess.Popen(
                [*walls, *_python(settings)],
                env=_environment(home),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=(inner.fileno(), proc),
                start_new_session=True,  # an interrupt at the terminal is not for the worker
            )
        os.close(proc)
        self.landlock = self._greet()

    def _greet(self) -> int:
        """Wait until the worker is ready; return its version of Landlock."""
        self.door.settimeout(_START)
        try:
            answer: dict[str, Any] = json.loads(self.door.recv(65536) or b"{}")
        except TimeoutError:
            answer = {"refused": f"no answer within {_START:g} s"}
        self.door.settimeout(None)
        if "landlock" in answer:
            return int(answer["landlock"])
        complaint = self.close()
        raise SandboxError(answer.get("refused") or complaint or "the worker did not start")

    def close(self) -> str:
        """End the worker with everything in it; return what it complained about, if anything."""
        if self.closed or self.owner != os.getpid():
            return ""  # a fork of the program does not own it
        self.closed = True
        self.door.close()
        try:
            _, complaint = self.process.communicate(timeout=2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            _, complaint = self.process.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)
        last = complaint.decode("utf-8", "replace").strip().splitlines()[-1:]
        return last[0] if last else ""


def _import_path(paths: Sequence[str], more: Sequence[str]) -> list[str]:
    found = [os.path.realpath(path) for path in [*sys.path, *more] if path]
    return [path for path in found if any(_within(path, parent) for parent in paths)]


def _environment(home: str) -> dict[str, str]:
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return {
        "HOME": home,
        "TMPDIR": home,
        "PATH": "/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "USER": "sandbox",
        "PYTHONHASHSEED": "0",  # a call should not depend on chance
        # The C library reserves address space per thread, which would count as memory.
        "MALLOC_ARENA_MAX": "1",
        **dict.fromkeys(threads, "1"),
    }


def _python(settings: dict[str, Any]) -> list[str]:
    root = str(Path(__file__).parents[2])
    flags = ["-s", "-S", "-P", "-B", "-X", "utf8"]
    return [os.path.realpath(sys.executable), *flags, "-c", _BOOT, root, json.dumps(settings)]


def _walls(isolation: str, paths: Sequence[str]) -> list[str]:
    """Return the command that a worker is started under: bubblewrap's, or none."""
    if isolation != "bubblewrap":
        return []
    program = shutil.which("bwrap")
    if program is None:
        raise SandboxError("the program bwrap is not there")
    command = [program, "--unshare-all", "--die-with-parent", "--new-session", "--cap-add", "ALL"]
    # The inner half is read by the worker alone: cells are forked after it has been loaded.
    inner = str(Path(__file__).parent / "inside")
    for path in [*paths, inner]:
        command += ["--ro-bind", path, path]
    for path in DEVICES:
        command += ["--dev-bind-try", path, path]
    for path in ("/lib", "/lib64", "/bin"):
        if os.path.islink(path):
            command += ["--symlink", os.readlink(path), path]
    if not any(path.startswith("/tmp/") for path in paths):
        command += ["--symlink", FOLDER, "/tmp"]
    command += ["--dir", FOLDER, "--remount-ro", "/", "--chdir", "/", "--hostname", "sandbox"]
    return command
