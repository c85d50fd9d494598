"""The worker: a warm interpreter behind walls that forks a cell for each call.

It never runs a line of a model's code. It waits for orders at the *door* (a socket from the
sandbox); an order comes with four descriptors: the control channel, the leash, output and errors.
The *leash* is how the outside holds a cell: a byte in (``k`` kill, ``s`` stop, ``c`` continue),
the exit status out. When the door closes, the worker ends, and with it everything inside.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import importlib
import json
import os
import resource
import select
import shutil
import signal
import socket
import tempfile
from typing import Any

from llm_gym.sandbox.inside import (
    cell,
    cgroup,
    keeper,
    kernel,
    landlock,
    namespaces,
    runner,
    seccomp,
)

_SIGNALS = {b"k": signal.SIGKILL, b"s": signal.SIGSTOP, b"c": signal.SIGCONT}
_ORDER_BYTES = 65536
_HIGH = 32  # above every descriptor that is to be replaced
_LEAST_LANDLOCK = 3  # earlier versions let a file be emptied


class _Held:
    """A cell as the worker sees it."""

    def __init__(
        self,
        pid: int,
        leash: socket.socket,
        folder: str | None = None,
        keeper: socket.socket | None = None,
        group: str | None = None,
    ) -> None:
        self.pid, self.leash, self.folder, self.buried = pid, leash, folder, False
        self.group = group
        self.keeper = keeper
        """Leads to the first process of a cell that may have many: see ``keeper``."""
        self.pidfd = os.pidfd_open(pid)

    def send(self, number: int, group: bool) -> None:
        if self.buried:
            return
        if self.keeper is not None and number in keeper.LETTERS:
            with contextlib.suppress(OSError):
                self.keeper.send(keeper.LETTERS[number])
            return
        with contextlib.suppress(ProcessLookupError):
            if group:  # without walls its children can be reached only as a group
                os.killpg(self.pid, number)
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def bury(self) -> None:
        """Take leave of a cell that has ended, and tell the outside how."""
        self.buried = True
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        if self.keeper is not None:
            status = keeper.heard(self.keeper, status)
            self.keeper.close()
        with contextlib.suppress(OSError):
            self.leash.send(str(status).encode())
        os.close(self.pidfd)
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)


class Zygote:
    """Serves the orders of one sandbox."""

    def __init__(
        self, door: socket.socket, site: cell.Site, groups: cgroup.Cells | None = None
    ) -> None:
        self.door, self.site, self.groups = door, site, groups
        self.walled = site.isolation in cell.WALLED
        self.poll = select.poll()
        self.poll.register(door, select.POLLIN)
        self.by_leash: dict[int, _Held] = {}
        self.by_pidfd: dict[int, _Held] = {}
        self.myself = os.pidfd_open(os.getpid())

    def serve(self) -> None:
        """Fork, signal and bury cells until the door closes."""
        while True:
            for descriptor, _ in self.poll.poll():
                if descriptor == self.door.fileno():
                    if not self._take_order():
                        return self._end()
                elif held := self.by_pidfd.get(descriptor):
                    self._bury(held)
                elif held := self.by_leash.get(descriptor):
                    self._pull(held)

    def _take_order(self) -> bool:
        message, descriptors, _, _ = socket.recv_fds(self.door, _ORDER_BYTES, 4)
        if not message:
            return False
        if len(descriptors) < 4:  # there were not enough left: who asked sees its ends close
            for descriptor in descriptors:
                os.close(descriptor)
            return True
        order = json.loads(message)
        control, leash, out, err = descriptors
        held_leash = socket.socket(fileno=leash)
        try:
            self._fork(order, held_leash, (control, out, err))
        except OSError as error:
            held_leash.send(f"no cell: {error}".encode())
            held_leash.close()
        for descriptor in (control, out, err):
            os.close(descriptor)
        return True

    def _fork(
        self, order: dict[str, Any], leash: socket.socket, streams: tuple[int, int, int]
    ) -> None:
        if self.walled:
            # Only a process whose children go to its own namespace may make one for them.
            kernel.setns(self.myself, kernel.CLONE_NEWPID)
            kernel.unshare(kernel.CLONE_NEWPID)
        site, folder = self.site, None
        if site.isolation == "none":
            folder = tempfile.mkdtemp(dir=site.folder)
            site = site._replace(folder=folder)
        group = self._new_group(order["limits"])
        # Where there may be more processes than one, the first is ours and keeps the others.
        kept = self.walled and order["limits"]["subprocesses"]
        ours, inner = socket.socketpair() if kept else (None, None)
        pid = os.fork()
        if pid == 0:
            self._enter(group)
            if inner is not None:
                keeper.keep(inner, lambda: _become_cell(site, order, streams))
            _become_cell(site, order, streams)
        if inner is not None:
            inner.close()
        try:
            held = _Held(pid, leash, folder, ours, group)
        except OSError:  # no descriptor is left to hold it with
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise
        self.by_leash[leash.fileno()] = self.by_pidfd[held.pidfd] = held
        self.poll.register(leash, select.POLLIN)
        self.poll.register(held.pidfd, select.POLLIN)

    def _new_group(self, limits: dict[str, Any]) -> str | None:
        """Make a group for a cell: all of it together, its folder included; one task is ours."""
        if self.groups is None:
            return None
        memory = limits["memory_bytes"] + limits["disk_bytes"]
        return self.groups.make(memory, limits["tasks"] + 1)

    def _enter(self, group: str | None) -> None:
        if self.groups is None or group is None:
            return
        try:
            self.groups.enter(group)
        except OSError:  # unbound it must not be
            os._exit(1)

    def _pull(self, held: _Held) -> None:
        try:
            word = held.leash.recv(16)
        except OSError:
            word = b""
        held.send(_SIGNALS.get(word, signal.SIGKILL), group=not self.walled)
        if not word:  # the outside has let go; closing first could lose it the exit status
            self.poll.unregister(held.leash)
            del self.by_leash[held.leash.fileno()]
            held.leash.close()

    def _bury(self, held: _Held) -> None:
        del self.by_pidfd[held.pidfd]
        self.poll.unregister(held.pidfd)
        if self.site.isolation == "none":  # what its leader has left behind
            held.send(signal.SIGKILL, group=True)
        held.bury()
        if self.groups is not None and held.group is not None:
            self.groups.drop(held.group)

    def _end(self) -> None:
        for held in list(self.by_pidfd.values()):
            held.send(signal.SIGKILL, group=not self.walled)
            held.bury()
        if self.site.isolation == "none":  # whoever made the folder may have been killed
            shutil.rmtree(self.site.folder, ignore_errors=True)


def _become_cell(site: cell.Site, order: dict[str, Any], streams: tuple[int, int, int]) -> None:
    """Turn the forked process into a cell. Never returns."""
    status = 1
    try:
        control, out, err = (fcntl.fcntl(end, fcntl.F_DUPFD, _HIGH) for end in streams)
        os.dup2(out, 1)
        os.dup2(err, 2)
        channel = socket.socket(fileno=control)
        try:
            cell.enter(site, cell.Limits(**order["limits"]), control)
        except Exception as error:  # noqa: BLE001 - half a cell is no cell, whatever the reason
            runner.send(channel, {"failed": str(error)})
            os._exit(1)
        status = runner.serve(channel, once=order["once"])
    finally:
        os._exit(status)


def main(settings: dict[str, Any]) -> None:
    """Build the walls, say so, and serve."""
    door = socket.socket(fileno=settings["door"])
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a session holds two of them
    door.send(b"here")
    door.recv(16)  # we are bound now, where there is a group for us
    groups = cgroup.Cells(*settings["group"]) if settings["group"] else None
    try:
        site = _build(settings)
        runner.prepare([site.folder, *settings["path"]])
        for name in settings["preload"]:
            importlib.import_module(name)
    except (OSError, ImportError) as error:
        door.send(json.dumps({"refused": str(error)}).encode())
        return
    # Done once here, so that no cell has to.
    seccomp.program(
        site.machine,
        2 if settings["subprocesses"] else 1,
        metadata=site.isolation in cell.WALLED,
        subprocesses=settings["subprocesses"],
    )
    gc.collect()
    gc.freeze()  # the collector of a cell need not touch, and so copy, what it shares
    door.send(json.dumps({"landlock": site.landlock}).encode())
    Zygote(door, site, groups).serve()


def _build(settings: dict[str, Any]) -> cell.Site:
    isolation, folder = settings["isolation"], settings["folder"]
    abi = landlock.version()
    if isolation == "namespaces":
        namespaces.enter(folder, settings["read"], settings["proc"])
        _continue_as_child()
    elif isolation == "landlock" and abi < _LEAST_LANDLOCK:
        raise OSError(f"Landlock {_LEAST_LANDLOCK} is needed and the kernel has {abi or 'none'}")
    if isolation in cell.WALLED:
        folder = namespaces.FOLDER
    machine = os.uname().machine
    rules: list[landlock.Rule] = []
    if isolation != "none" and abi:
        execute = settings["subprocesses"]
        rules = landlock.rules(settings["read"], (), namespaces.DEVICES, execute)
    threads = settings["threads"]
    return cell.Site(isolation, folder, settings["proc"], machine, abi, rules, threads)


def _continue_as_child() -> None:
    """Go on as the first process of the new PID namespace; the old one waits for its end."""
    pid = os.fork()
    if pid:
        os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 255)
    kernel.die_with_parent(signal.SIGKILL)
