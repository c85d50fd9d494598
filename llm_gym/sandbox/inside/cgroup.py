"""Control groups, version 2: bounds that hold for all processes of a cell, and the kernel's memory.

Where the system has delegated a group to us (systemd does to users; root has it), a worker gets one
of its own, and each cell one below it. Nothing here is needed for the walls: where no group is to
be had, the limits of each process stay (see ``cell``).

    base            llm-gym-...: ours to the ground
    ├── worker      the worker, so that the base has no process of its own, as the kernel wants
    └── cell-N      one call or session: memory.max, pids.max
"""

from __future__ import annotations

import contextlib
import os

CONTROLLERS = ("memory", "pids")
WORKER = "worker"


def write(group: int, name: str, text: str) -> None:
    """Write to a file of the group behind the descriptor of a folder."""
    file = os.open(name, os.O_WRONLY | os.O_CLOEXEC, dir_fd=group)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


class Cells:
    """The groups of a worker's cells.

    Args:
        base: Descriptor of the base's folder.
        controllers: Those that it has.
    """

    def __init__(self, base: int, controllers: list[str]) -> None:
        self.base, self.controllers = base, controllers
        self._made = 0

    def make(self, memory_bytes: int, tasks: int) -> str:
        """Make a group that has so much memory in all, and so many tasks; return its name."""
        self._made += 1
        name = f"cell-{self._made}"
        os.mkdir(name, dir_fd=self.base)
        group = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.base)
        try:
            if "memory" in self.controllers:
                write(group, "memory.max", str(memory_bytes))
                with contextlib.suppress(FileNotFoundError):  # a kernel without swap
                    write(group, "memory.swap.max", "0")
            if "pids" in self.controllers:
                write(group, "pids.max", str(tasks))
        finally:
            os.close(group)
        return name

    def enter(self, name: str) -> None:
        """Move this process, and so its children to come, into the group."""
        write(self.base, f"{name}/cgroup.procs", "0")

    def drop(self, name: str) -> None:
        """Remove the group of a cell that has ended; the last ones go with the base."""
        with contextlib.suppress(OSError):
            os.rmdir(name, dir_fd=self.base)
