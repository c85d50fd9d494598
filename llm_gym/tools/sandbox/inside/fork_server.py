"""The worker: a warm interpreter, isolated, that forks a child for each call.

The worker itself never runs code of a model. A request arrives on a socket with four descriptors:
the channel for the code, the signal socket, output and errors. The outside controls a child through
the signal socket: it sends one byte (``k`` kill, ``s`` stop, ``c`` continue) and gets the exit
status. When the request socket closes, the worker and all its children end.
"""

import contextlib
import gc
import importlib
import json
import os
import select
import shutil
import signal
import socket
import tempfile
from typing import Any

from llm_gym.tools.sandbox.inside import DEVICES, FOLDER, child, kernel, namespaces, seccomp

_SIGNAL_NAMES = {b"k": "SIGKILL", b"s": "SIGSTOP", b"c": "SIGCONT"}
_REQUEST_BYTES = 65536
_HIGH = 32  # above every descriptor that is to be replaced
_LEAST_LANDLOCK = 3  # earlier versions do not prevent truncating a file


def _signal(letter: bytes) -> int:
    # By name when it is needed: not every platform that imports this has them.
    return int(getattr(signal, _SIGNAL_NAMES.get(letter, "SIGKILL")))


class _Child:
    """A forked child as the worker sees it."""

    def __init__(self, pid: int, signals: socket.socket, folder: str | None = None) -> None:
        self.pid, self.signals, self.folder, self.reaped = pid, signals, folder, False
        self.pidfd = os.pidfd_open(pid)

    def send(self, letter: bytes, group: bool) -> None:
        """Send a signal; to the process ``group`` too if nothing else reaches children."""
        if self.reaped:
            return
        for kill in (os.killpg, os.kill) if group else (os.kill,):
            with contextlib.suppress(ProcessLookupError):
                kill(self.pid, _signal(letter))

    def reap(self) -> None:
        """Reap a child that has ended, and tell the outside its exit status."""
        self.reaped = True
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        with contextlib.suppress(OSError):
            self.signals.send(str(status).encode())
        os.close(self.pidfd)
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)


class ForkServer:
    """Serves the requests of one sandbox."""

    def __init__(self, requests: socket.socket, context: child.WorkerContext) -> None:
        self.requests, self.context = requests, context
        self.namespaced = context.isolation == "namespaces"
        self.poll = select.poll()
        self.poll.register(requests, select.POLLIN)
        self.by_signals: dict[int, _Child] = {}
        self.by_pidfd: dict[int, _Child] = {}
        self.myself = os.pidfd_open(os.getpid())

    def serve(self) -> None:
        """Fork, signal and reap children until the request socket closes."""
        while True:
            for descriptor, _ in self.poll.poll():
                if descriptor == self.requests.fileno():
                    if not self._take_request():
                        return self._end()
                elif found := self.by_pidfd.get(descriptor):
                    self._reap(found)
                elif found := self.by_signals.get(descriptor):
                    self._pass_signal(found)

    def _take_request(self) -> bool:
        message, descriptors, _, _ = socket.recv_fds(self.requests, _REQUEST_BYTES, 4)
        if not message:
            return False
        if len(descriptors) < 4:  # out of descriptors: the caller sees its ends close
            for descriptor in descriptors:
                os.close(descriptor)
            return True
        channel, signals, out, err = descriptors
        held = socket.socket(fileno=signals)
        try:
            self._fork(json.loads(message), held, (channel, out, err))
        except OSError as error:
            held.send(f"no process: {error}".encode())
            held.close()
        for descriptor in (channel, out, err):
            os.close(descriptor)
        return True

    def _fork(
        self, request: dict[str, Any], signals: socket.socket, streams: tuple[int, int, int]
    ) -> None:
        if self.namespaced:
            # The kernel lets a process make a PID namespace only from its own.
            kernel.setns(self.myself, kernel.CLONE_NEWPID)
            kernel.unshare(kernel.CLONE_NEWPID)
        context, folder = self.context, None
        if context.isolation == "none":
            folder = tempfile.mkdtemp(dir=context.folder)
            context = context._replace(folder=folder)
        pid = os.fork()
        if pid == 0:
            _become_child(context, request, streams)
        try:
            made = _Child(pid, signals, folder)
        except OSError:  # no descriptor is left for the child
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        self.by_signals[signals.fileno()] = self.by_pidfd[made.pidfd] = made
        self.poll.register(signals, select.POLLIN)
        self.poll.register(made.pidfd, select.POLLIN)

    def _pass_signal(self, target: _Child) -> None:
        try:
            letter = target.signals.recv(16)
        except OSError:
            letter = b""
        target.send(letter, group=not self.namespaced)
        if not letter:  # the outside closed its end; closing earlier could lose the exit status
            self.poll.unregister(target.signals)
            del self.by_signals[target.signals.fileno()]
            target.signals.close()

    def _reap(self, ended: _Child) -> None:
        del self.by_pidfd[ended.pidfd]
        self.poll.unregister(ended.pidfd)
        if self.context.isolation == "none":  # kill processes that its leader has left
            ended.send(b"k", group=True)
        ended.reap()

    def _end(self) -> None:
        for each in list(self.by_pidfd.values()):
            each.send(b"k", group=not self.namespaced)
            each.reap()
        if self.context.isolation == "none":  # the process that made the folder may be dead
            shutil.rmtree(self.context.folder, ignore_errors=True)


def _become_child(
    context: child.WorkerContext, request: dict[str, Any], streams: tuple[int, int, int]
) -> None:
    import fcntl

    status = 1
    try:
        channel, out, err = (fcntl.fcntl(end, fcntl.F_DUPFD, _HIGH) for end in streams)
        os.dup2(out, 1)
        os.dup2(err, 2)
        connection = socket.socket(fileno=channel)
        try:
            child.enter(context, child.ChildLimits(**request["limits"]), channel)
        except Exception as error:  # noqa: BLE001 - half isolated is not isolated, whatever the reason
            child.send(connection, {"failed": str(error)})
            os._exit(1)
        status = child.serve(connection, once=request["once"])
    finally:
        os._exit(status)


def main(settings: dict[str, Any]) -> None:
    """Isolate the worker, report that it is ready, and serve."""
    import fcntl  # noqa: F401 - before the forks, which then need not
    import resource

    requests = socket.socket(fileno=settings["requests"])
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a session uses two descriptors
    try:
        context = _isolate(settings)
        child.prepare([context.folder, *settings["path"]])
        for name in settings["preload"]:
            importlib.import_module(name)
    except (OSError, ImportError) as error:
        requests.send(json.dumps({"refused": str(error)}).encode())
        return
    # Done once here, so that no child has to.
    seccomp.program(context.machine, 1, metadata=context.isolation == "namespaces")
    gc.collect()
    gc.freeze()  # so that the collector of a child does not touch, and copy, shared memory
    requests.send(json.dumps({"landlock": context.landlock}).encode())
    ForkServer(requests, context).serve()


def _isolate(settings: dict[str, Any]) -> child.WorkerContext:
    isolation, folder = settings["isolation"], settings["folder"]
    abi = kernel.landlock_version()
    if isolation == "namespaces":
        namespaces.enter(folder, settings["read"], settings["proc"])
        _continue_as_child()
        folder = FOLDER
    elif isolation == "landlock" and abi < _LEAST_LANDLOCK:
        raise OSError(f"Landlock {_LEAST_LANDLOCK} is needed and the kernel has {abi or 'none'}")
    rules: list[kernel.LandlockRule] = []
    if isolation != "none" and abi:
        rules = kernel.landlock_rules(settings["read"], (), DEVICES)
    return child.WorkerContext(
        isolation, folder, settings["proc"], os.uname().machine, abi, rules, settings["threads"]
    )


def _continue_as_child() -> None:
    """Go on as the first process of the new PID namespace; the old one waits for its end."""
    pid = os.fork()
    if pid:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 255)
    kernel.die_with_parent()
