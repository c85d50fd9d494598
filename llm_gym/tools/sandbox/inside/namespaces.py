"""Namespaces: a root that holds only the interpreter, no network, no other processes.

The worker calls ``enter`` once. Each child then gets a user, mount and PID namespace of its own
from ``enter_child``, with a fresh folder that disappears with it.
"""

import os
import socket
from collections.abc import Iterable

from llm_gym.tools.sandbox.inside import DEVICES, FOLDER, NOBODY, kernel

_LINKS = ("/lib", "/lib64", "/bin")  # where /usr has been merged, these are links into it
_INSIDE_ID = 1000
_ALL = (
    kernel.CLONE_NEWUSER
    | kernel.CLONE_NEWNS
    | kernel.CLONE_NEWPID
    | kernel.CLONE_NEWNET
    | kernel.CLONE_NEWIPC
    | kernel.CLONE_NEWUTS
)


def enter(empty: str, read: Iterable[str], proc: int) -> None:
    """Isolate this process; its next child is alone in a new PID namespace.

    Args:
        empty: An empty folder to build the new root on.
        read: Real paths that may be read, and stay where they are.
        proc: Descriptor of ``/proc``, which the new root lacks.
    """
    if os.geteuid() == 0:
        # Only a root user that may mount gets here; any other has become nobody before.
        kernel.unshare(kernel.CLONE_NEWNS)
        # The limit on processes does not bind the root user, and files of the interpreter may
        # be readable by root alone: build as root, then become a user without rights.
        _build_root(empty, read)
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        kernel.be_dumpable()
        _own_namespaces(_ALL, proc)
    else:
        _own_namespaces(_ALL, proc)
        _build_root(empty, read)
    socket.sethostname("sandbox")


def enter_child(proc: int, disk_bytes: int, files: int) -> None:
    """Give this process namespaces of its own, and a fresh and bounded folder."""
    # A user namespace counts its own processes, so children do not share one limit.
    _own_namespaces(kernel.CLONE_NEWUSER | kernel.CLONE_NEWNS, proc)
    kernel.mount(
        "tmpfs",
        FOLDER,
        "tmpfs",
        kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC,
        f"size={disk_bytes},nr_inodes={files},mode=700",
    )
    os.chdir(FOLDER)


def _own_namespaces(flags: int, proc: int) -> None:
    user, group = os.geteuid(), os.getegid()
    kernel.unshare(flags)
    # Without "deny" an unprivileged process may not map its group.
    for name, text in (
        ("setgroups", "deny"),
        ("uid_map", f"{_INSIDE_ID} {user} 1"),
        ("gid_map", f"{_INSIDE_ID} {group} 1"),
    ):
        descriptor = os.open(f"self/{name}", os.O_WRONLY | os.O_CLOEXEC, dir_fd=proc)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)


def _build_root(empty: str, read: Iterable[str]) -> None:
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    flags = kernel.MS_NOSUID | kernel.MS_NODEV
    kernel.mount("tmpfs", empty, "tmpfs", flags, "size=1m,nr_inodes=4096,mode=755")
    for path in read:
        _bind(path, empty)
        kernel.make_read_only(empty + path)
    for path in DEVICES:
        if os.path.exists(path):
            _bind(path, empty)
            # A device in a read-only mount stays writable; its owner, mode and times do not.
            kernel.make_read_only(empty + path)
    for path in _LINKS:
        if os.path.islink(path) and not os.path.lexists(empty + path):
            os.symlink(os.readlink(path), empty + path)
    os.mkdir(empty + FOLDER)
    if not os.path.lexists(f"{empty}/tmp"):
        os.symlink(FOLDER, f"{empty}/tmp")
    os.chdir(empty)
    kernel.pivot_root_here()
    kernel.make_read_only("/", recursive=False)


def _bind(path: str, root: str) -> None:
    target = root + path
    if os.path.isdir(path):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_CLOEXEC, 0o644))
    kernel.mount(path, target, flags=kernel.MS_BIND | kernel.MS_REC)
