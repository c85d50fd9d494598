"""Finding a control group that we may divide, and making one for a worker in it."""

from __future__ import annotations

import contextlib
import os
import secrets
import time  # noqa: TID251 - waits for the kernel; no episode depends on it
from collections.abc import Iterator
from pathlib import Path

from llm_gym.sandbox.inside.cgroup import CONTROLLERS, WORKER

_TRIES, _PAUSE_S = 50, 0.01


class Delegated:
    """A control group of our own: its descriptor goes to the worker.

    Args:
        folder: An existing group that others can be made in.
        owner: User who is to have it; None for whoever we are.
    """

    def __init__(self, folder: Path, owner: int | None = None) -> None:
        self.path = folder / f"llm-gym-{os.getpid()}-{secrets.token_hex(4)}"
        self.path.mkdir()
        try:
            self.controllers = _controllers(self.path / "cgroup.controllers")
            wanted = " ".join(f"+{name}" for name in self.controllers)
            (self.path / "cgroup.subtree_control").write_text(wanted)
            (self.path / WORKER).mkdir()
            if owner is not None:
                # The folder, to make cells in; the files, to move processes between them.
                for name in (".", "cgroup.procs", WORKER, f"{WORKER}/cgroup.procs"):
                    os.chown(self.path / name, owner, owner)
            self.descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            self.remove()
            raise

    def take(self, pid: int) -> None:
        """Move a process, the worker, into it, with those that it has started by now."""
        procs = self.path / WORKER / "cgroup.procs"
        procs.write_text(str(pid))
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            self.take(int(child))

    def remove(self) -> None:
        """Remove the group with all below it; whatever still runs in it is killed."""
        with contextlib.suppress(OSError):
            (self.path / "cgroup.kill").write_text("1")
        with contextlib.suppress(OSError):
            for each in self.path.iterdir():
                if each.is_dir():
                    _remove(each)
        _remove(self.path)


def delegate(owner: int | None = None) -> Delegated | None:
    """Return a group of our own, or None where the system gives us none."""
    for folder in _candidates():
        _sweep(folder)
        try:
            return Delegated(folder, owner)
        except OSError:
            continue
    return None


def _candidates() -> Iterator[Path]:
    """Yield groups that hand a controller down: our own's parent, since ours has processes."""
    own = _own()
    if own is None:
        return
    mount, inside = own
    place = mount / inside.lstrip("/")
    for folder in (place, *([] if place == mount else [place.parent])):
        if _controllers(folder / "cgroup.subtree_control") and os.access(folder, os.W_OK):
            yield folder


def _own() -> tuple[Path, str] | None:
    """Return where version 2 is mounted and which group below it is ours; None without."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        ours = next((line[3:] for line in lines if line.startswith("0::")), None)
        for line in Path("/proc/self/mounts").read_text().splitlines():
            _, place, kind, *_ = line.split()
            if kind == "cgroup2" and ours is not None:
                return Path(place), ours
    return None


def _controllers(file: Path) -> list[str]:
    with contextlib.suppress(OSError):
        found = file.read_text().split()
        return [name for name in CONTROLLERS if name in found]
    return []


def _sweep(folder: Path) -> None:
    """Remove what a program that was killed has left: a worker ends with it, its group does not."""
    for left in folder.glob("llm-gym-*"):
        owner = left.name.split("-")[2]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            for each in (*left.glob("*/"), left):
                with contextlib.suppress(OSError):
                    each.rmdir()


def _remove(folder: Path) -> None:
    """Remove a group, once those who were killed in it are gone."""
    for _ in range(_TRIES):
        try:
            return folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(_PAUSE_S)
