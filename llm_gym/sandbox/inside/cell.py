"""A cell: the process of one call or one session, and what it gives up before it reads the code."""

from __future__ import annotations

import os
import resource
import signal
from typing import NamedTuple

from llm_gym.sandbox.inside import kernel, landlock, namespaces, seccomp

WALLED = ("bubblewrap", "namespaces")
"""Ways of isolation in which a cell has namespaces of its own."""


_OTHERS = 8  # cells at once that a limit for all of them leaves room for
_SIGNALS = 256  # queued signals and timers, which are memory of the kernel


class Site(NamedTuple):
    """Where cells are built: the same for all of one worker."""

    isolation: str
    folder: str
    proc: int
    machine: str
    landlock: int
    rules: list[landlock.Rule]
    """What Landlock lets every cell do, its own folder excepted."""
    threads: int = 0
    """Threads that the user had when the worker started."""


class Limits(NamedTuple):
    """What a cell may use."""

    memory_bytes: int
    disk_bytes: int
    files: int
    tasks: int
    cpu_seconds: int
    subprocesses: bool


def enter(site: Site, limits: Limits, control: int) -> None:
    """Give up, for good, everything that the code must not have.

    Of the descriptors, input, output, errors and ``control`` are kept.
    """
    os.setsid()
    walled = site.isolation in WALLED
    if walled:
        namespaces.enter_cell(site.proc, limits.disk_bytes, limits.files)
    # Under Landlock alone nothing can be written: there is no folder to be in.
    os.chdir("/" if site.isolation == "landlock" else site.folder)
    if site.isolation != "none":
        kernel.drop_capabilities()
        kernel.die_with_parent(signal.SIGKILL)
        kernel.no_new_privileges()
        if site.landlock:
            own = landlock.rules((), [site.folder] if walled else ())
            landlock.restrict(site.landlock, [*site.rules, *own])
    os.closerange(3, control)
    os.closerange(control + 1, 1 << 20)
    _limit(site, limits)
    if site.isolation != "none":
        kernel.install_filter(
            seccomp.program(
                site.machine, os.getpid(), metadata=walled, subprocesses=limits.subprocesses
            )
        )


def _limit(site: Site, limits: Limits) -> None:
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
    if site.isolation in WALLED:  # a user namespace counts its own
        values[resource.RLIMIT_NPROC] = limits.tasks
    elif site.isolation == "landlock":  # here all threads of the user count, ours among them
        values[resource.RLIMIT_NPROC] = site.threads + _OTHERS * limits.tasks
    for name, value in values.items():
        hard = resource.getrlimit(name)[1]
        bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(name, (bound, bound))
