"""Writing files so that nobody ever reads half of one."""

from __future__ import annotations

import os
import tempfile
import weakref
from pathlib import Path

from llm_gym.errors import ConfigError

try:
    import fcntl
except ImportError:  # Windows: runs are not locked there
    fcntl = None  # type: ignore[assignment]


def write_atomically(path: Path, text: str) -> None:
    """Replace the file at ``path``: whoever reads it, or loses power, finds all of one version."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes files private; a run's files are as open as the umask says.
        Path(name).chmod(0o666 & ~umask())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in ``folder`` survive a power cut; a no-op where folders cannot be synced."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def umask() -> int:
    """Return which permissions new files lack."""
    # There is no way to read it without setting it.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


NAME = ".lock"
_HOW = "with config.checkpoint.output_dir (--checkpoint.output-dir)"


class RunLock:
    """Holds a folder until it is released or its process ends, however it ends.

    The kernel keeps the lock, so there is none to clear away after a ``kill -9``.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._let_go: weakref.finalize[..., RunLock] | None = None

    def acquire(self) -> None:
        """Take the lock; raise ``ConfigError`` where somebody else has it, or none can be made."""
        if self._let_go is not None:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.folder / NAME, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise ConfigError(
                f"a run must be able to write to its folder, got {self.folder}: {error.strerror}; "
                f"choose another {_HOW}"
            ) from error
        if fcntl is None:
            os.close(handle)
            return
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            who = os.pread(handle, 20, 0).decode("ascii", "replace").strip() or "another process"
            os.close(handle)
            raise ConfigError(
                f"{self.folder} is being trained in by process {who}; wait for it, or choose "
                f"another folder {_HOW}"
            ) from error
        except OSError:  # a file system without locks: better a run than none
            os.close(handle)
            return
        # Also when nobody says so: whoever forgets a trainer is done with its folder.
        self._let_go = weakref.finalize(self, os.close, handle)
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let go of the folder. Safe to call twice."""
        if self._let_go is not None:
            self._let_go()
            self._let_go = None


def is_locked(folder: Path) -> bool:
    """Return whether somebody is training in ``folder`` at this moment."""
    if not (folder / NAME).exists():
        return False
    lock = RunLock(folder)
    try:
        lock.acquire()
    except ConfigError:
        return True
    lock.release()
    return False
