"""Files of a run: atomic writes, a lock on its folder, and no links out of it.

A run's folder may come from an untrusted source. A link in it could redirect writes, and a pipe
could block for ever, so ``check_links`` refuses both before anything is read or written. Files are
replaced, not overwritten, so a hard link to a file elsewhere does not change that file.
"""

import os
import stat
import tempfile
import weakref
from pathlib import Path

from llm_gym.core.errors import ConfigError

try:
    import fcntl
except ImportError:  # Windows: runs are not locked there
    fcntl = None  # type: ignore[assignment]


def write_atomically(path: Path, content: str | bytes) -> None:
    """Replace the file at ``path`` atomically, even during a power failure."""
    data = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes private files; a run's files follow the umask.
        Path(name).chmod(0o666 & ~umask())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Sync ``folder`` to disk; does nothing if folders cannot be synced."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def umask() -> int:
    """Return the process's umask."""
    # It can only be read by setting it.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


NAME = ".lock"
WRITTEN = frozenset(
    (
        *("lock", "config", "metrics", "curve", "tensorboard", "episodes"),
        *("checkpoints", "warm-start", "warm_start", "final", "wandb", "tracker_run_id"),
    )
)
"""Names of a run's files, without a leading dot and without suffixes."""
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_HOW = "with config.checkpoint.output_dir (--checkpoint.output-dir)"


def check_links(folder: Path) -> None:
    """Refuse a folder if a run's file in it is a link out of it, or not a regular file."""
    home = os.path.realpath(folder)
    own = [each for each in os.scandir(home) if each.name.lstrip(".").split(".")[0] in WRITTEN]
    while own:
        entry = own.pop()
        target = os.path.realpath(entry.path)
        mode = entry.stat(follow_symlinks=False).st_mode
        if os.path.commonpath((home, target)) != home:
            what = f"a link to {target}"
        elif not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
            what = "neither a file nor a folder"
        else:
            own += os.scandir(entry.path) if stat.S_ISDIR(mode) else []
            continue
        raise ConfigError(
            f"a run writes only to its own folder, got {entry.path}, which is {what}; remove it "
            "(the folder of a run may itself be a link)"
        )


def checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints of a run, found by their names alone."""
    return [each for each in folder.glob("checkpoints/iteration-*") if each.name[10:].isdecimal()]


class RunLock:
    """Keeps other processes out of a folder until ``release`` or the end of this process.

    The kernel holds the lock, so ``kill -9`` leaves no stale lock.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._let_go: weakref.finalize[..., RunLock] | None = None

    def acquire(self, instead: str = f", or choose another folder {_HOW}") -> None:
        """Take the lock; raise ``ConfigError`` if it is taken or the folder is read-only."""
        if self._let_go is not None:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            check_links(self.folder)
            handle = os.open(self.folder / NAME, os.O_RDWR | os.O_CREAT | _NO_LINK, 0o666)
        except OSError as error:
            raise ConfigError(
                f"a run must be able to write to its folder, got {self.folder}: {error.strerror}; "
                f"choose another {_HOW}"
            ) from error
        if os.fstat(handle).st_nlink != 1:  # the file has a name elsewhere, too
            os.close(handle)
            raise ConfigError(f"{self.folder / NAME} must be a file of its own; remove it")
        if fcntl is None:
            os.close(handle)
            return
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            who = os.pread(handle, 20, 0).decode("ascii", "replace").strip() or "another process"
            os.close(handle)
            raise ConfigError(
                f"{self.folder} is being trained in by process {who}; wait for it{instead}"
            ) from error
        except OSError:  # a file system without locks: train without one
            os.close(handle)
            return
        # Also released on garbage collection.
        self._let_go = weakref.finalize(self, os.close, handle)
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        if self._let_go is not None:
            self._let_go()
            self._let_go = None


def is_locked(folder: Path) -> bool:
    """Whether a process is training in ``folder`` now."""
    if not (folder / NAME).exists():
        return False
    lock = RunLock(folder)
    try:
        lock.acquire()
    except ConfigError:
        return True
    lock.release()
    return False
