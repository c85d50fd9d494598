"""Starts a worker: sets the paths that it may read, and the user that it runs as."""

import contextlib
import errno
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

from llm_gym.tools.sandbox.inside import FOLDER, NOBODY
from llm_gym.tools.sandbox.process import SandboxError

_CAP_SYS_ADMIN = 21
_START = 30.0  # seconds for a worker to start, preloaded packages included
_SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/share/zoneinfo", "/etc/ld.so.cache")
# Loads the inner half without llm_gym itself, which would import numpy and Gymnasium.
_BOOT = """
import json, os, sys, types
package = ["llm_gym", "tools", "sandbox"]
for count in range(1, 4):
    module = types.ModuleType(".".join(package[:count]))
    module.__path__ = [os.path.join(sys.argv[1], *package[:count])]
    sys.modules[module.__name__] = module
from llm_gym.tools.sandbox.inside.fork_server import main
main(json.loads(sys.argv[2]))
"""
PRELOAD = (
    "bisect", "collections", "dataclasses", "datetime", "decimal", "fractions", "functools",
    "heapq", "itertools", "json", "math", "operator", "re", "statistics", "string", "textwrap",
    "typing",
)  # fmt: skip
"""Modules that code often imports: loaded once, before the first call."""


def readable_paths(more: Iterable[str] = ()) -> list[str]:
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


class SandboxWorker:
    """A running worker process and the request socket to it."""

    def __init__(self, isolation: str, read: Sequence[str], preload: Sequence[str]) -> None:
        self.isolation = isolation
        self.owner, self.closed = os.getpid(), False
        paths = readable_paths(read)
        user = _worker_user(isolation)
        self.folder = tempfile.mkdtemp(prefix="llm-gym-")
        os.chmod(self.folder, 0o711)  # the worker may be another user; it builds its root here
        home = FOLDER if isolation == "namespaces" else self.folder
        self.requests, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
        settings = {
            "isolation": isolation,
            "requests": inner.fileno(),
            "proc": proc,
            "folder": self.folder,
            "read": paths,
            "path": _import_path(paths, read),
            "preload": [*PRELOAD, *preload],
            "threads": _threads_of(NOBODY if user else os.geteuid()),
        }
        try:
            self.process = self._start(_python(settings), home, user, (inner.fileno(), proc))
        finally:
            inner.close()
            os.close(proc)
        self.landlock = self._wait_until_ready()
        if isolation != "none":
            # It stays empty and is not needed; a killed program could not remove it later.
            shutil.rmtree(self.folder, ignore_errors=True)

    def _start(
        self, command: list[str], home: str, user: dict[str, Any], passed: tuple[int, ...]
    ) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                command,
                env=_environment(home),
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=passed,
                start_new_session=True,  # an interrupt at the terminal is not for the worker
                **user,
            )
        except OSError as error:
            self.requests.close()
            shutil.rmtree(self.folder, ignore_errors=True)
            raise SandboxError(_cannot_start(error, user)) from error

    def _wait_until_ready(self) -> int:
        """Wait until the worker is ready; return its version of Landlock."""
        self.requests.settimeout(_START)
        try:
            answer: dict[str, Any] = json.loads(self.requests.recv(65536) or b"{}")
        except TimeoutError:
            answer = {"refused": f"no answer within {_START:g} s"}
        except OSError as error:
            answer = {"refused": f"the worker does not answer: {error}"}
        self.requests.settimeout(None)
        if "landlock" in answer:
            return int(answer["landlock"])
        complaint = self.close()
        raise SandboxError(answer.get("refused") or complaint or "the worker did not start")

    def close(self) -> str:
        """End the worker with everything in it; return its error output."""
        if self.closed or self.owner != os.getpid():
            return ""  # a forked process does not own the worker
        self.closed = True
        self.requests.close()
        try:
            _, complaint = self.process.communicate(timeout=2)
        except subprocess.TimeoutExpired:
            self.process.kill()
            _, complaint = self.process.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)
        last = complaint.decode("utf-8", "replace").strip().splitlines()[-1:]
        return last[0] if last else ""


def _worker_user(isolation: str) -> dict[str, Any]:
    """Return the user of a worker: never root, unless root must build its namespaces first."""
    if os.geteuid() != 0 or isolation == "none":
        return {}
    if isolation == "namespaces" and _may_mount():
        return {}  # the worker becomes nobody after it has built its namespaces
    return {"user": NOBODY, "group": NOBODY, "extra_groups": []}


def _may_mount() -> bool:
    """Return whether this process has CAP_SYS_ADMIN, which a root in a container often lacks."""
    with open("/proc/self/status") as file:
        found = next((line for line in file if line.startswith("CapEff:")), "CapEff: 0")
    return bool(int(found.split()[1], 16) >> _CAP_SYS_ADMIN & 1)


def _cannot_start(error: OSError, user: dict[str, Any]) -> str:
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return "no descriptors are left; raise the limit (ulimit -n)"
    if not user or not isinstance(error, PermissionError):
        return f"the worker cannot be started: {error}"
    return (
        f"root without CAP_SYS_ADMIN runs code as nobody, and cannot become nobody here ({error}); "
        f"give it CAP_SETUID and a Python that everybody may read, not {sys.executable}, or run "
        "as an ordinary user"
    )


def _threads_of(user: int) -> int:
    """Return the number of threads of a user: the limit on tasks counts them all."""
    count = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{name}").st_uid == user:
                count += len(os.listdir(f"/proc/{name}/task"))
    return count


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
        "PYTHONHASHSEED": "0",  # the same code gives the same result
        # The C library reserves address space per thread, which would count as memory.
        "MALLOC_ARENA_MAX": "1",
        **dict.fromkeys(threads, "1"),
    }


def _python(settings: dict[str, Any]) -> list[str]:
    root = str(Path(__file__).parents[3])
    flags = ["-s", "-S", "-P", "-B", "-X", "utf8"]
    return [os.path.realpath(sys.executable), *flags, "-c", _BOOT, root, json.dumps(settings)]
