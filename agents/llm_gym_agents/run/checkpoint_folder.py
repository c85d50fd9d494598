"""Atomic folders: a folder is complete or does not exist.

A folder is written under a hidden name next to its destination, gets a manifest of sizes and
hashes, is synced to disk and only then renamed. An existing folder is first renamed to a name that
readers also try, in case the writer dies between the two renames.
"""

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from llm_gym import __version__
from llm_gym_agents.run.files import sync_folder, umask
from llm_gym_agents.run.state import CheckpointError

FORMAT = "llm-gym checkpoint"
SCHEMA = 2
MANIFEST = "manifest.json"


@contextmanager
def new_folder(place: Path) -> Iterator[Path]:
    """Yield an empty folder that becomes ``place`` when the block ends without an error."""
    is_free = not place.exists() or is_checkpoint(place)
    if not is_free and (not place.is_dir() or any(place.iterdir())):
        raise CheckpointError(
            f"cannot save to {place}: something else is there; choose another folder"
        )
    folder = None
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        sweep(place.parent, place.name)
        folder = Path(tempfile.mkdtemp(prefix=f".{place.name}.new-", dir=place.parent))
        yield folder
        folder.chmod(0o777 & ~umask())
        _seal(folder)
        _put(folder, place)
    except CheckpointError:
        raise
    except Exception as error:  # of whatever kind: tokenizers raises bare ones when a disk is full
        raise CheckpointError(
            f"cannot write {place}: {error}; earlier checkpoints are as they were"
        ) from error
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def verified(place: Path) -> Path:
    """Return the folder of the checkpoint ``place``; raise if there is no complete one."""
    aside = _aside(place)
    folder = aside if not place.exists() and aside.exists() else place
    for name, (size, digest) in _listed_files(folder, place).items():
        if damage := _damage(folder / name, name, size, digest):
            rest = [each for each in place.parent.iterdir() if each not in (place, aside)]
            then = "goes on from another" if any(map(is_checkpoint, rest)) else "begins again"
            raise CheckpointError(f"{place} {damage}; remove it, and a run {then}")
    return folder


def _damage(path: Path, name: str, size: int, digest: str) -> str:
    if not path.is_file():
        return f"is not a whole checkpoint: {name} is missing"
    if (found := path.stat().st_size) != size:
        return f"is not a whole checkpoint: {name} must have {size} bytes, got {found}"
    if _digest(path) != digest:
        return f"cannot be trusted: {name} has changed since it was written"
    return ""


def remove(place: Path) -> None:
    """Delete a folder; a reader sees all of it or nothing."""
    trash = place.with_name(f".{place.name.removeprefix('.')}.trash")
    shutil.rmtree(trash, ignore_errors=True)
    place.rename(trash)
    shutil.rmtree(trash, ignore_errors=True)


def sweep(parent: Path, name: str) -> None:
    """Remove the remains of a killed writer for folders called ``name``.

    A trailing * stands for any ending.
    """
    pattern = re.escape(name).replace(re.escape("*"), ".*")
    for path in list(parent.iterdir()) if parent.is_dir() else []:
        if re.fullmatch(rf"\.{pattern}(\.new-\w+|(\.aside)?\.trash)", path.name):
            shutil.rmtree(path, ignore_errors=True)
        elif re.fullmatch(rf"\.{pattern}\.aside", path.name):
            place = parent / path.name[1:].removesuffix(".aside")
            if place.exists():
                remove(path)
            else:
                path.rename(place)


def is_checkpoint(place: Path) -> bool:
    """Return whether ``place`` is a checkpoint of any version."""
    try:
        return bool(_manifest(place).get("format") == FORMAT)
    except (OSError, ValueError, AttributeError):
        return False


def _seal(folder: Path) -> None:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    files = {
        path.relative_to(folder).as_posix(): [path.stat().st_size, _digest(path)] for path in paths
    }
    manifest = {"format": FORMAT, "schema": SCHEMA, "llm_gym": __version__, "files": files}
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", "utf-8")
    for path in (*paths, folder / MANIFEST):
        if path.stat().st_nlink == 1:  # else it was sealed under another name, or is not ours
            path.chmod(0o666 & ~umask())  # safetensors makes files that only their owner may read
        with path.open("rb+") as file:
            os.fsync(file.fileno())
    for path in (*(path for path in folder.rglob("*") if path.is_dir()), folder):
        sync_folder(path)


def _put(folder: Path, place: Path) -> None:
    if place.exists():
        if is_checkpoint(place):
            place.rename(_aside(place))
        else:
            place.rmdir()  # empty, as was checked
    folder.rename(place)
    sync_folder(place.parent)
    if _aside(place).exists():
        remove(_aside(place))


def _aside(place: Path) -> Path:
    return place.with_name(f".{place.name}.aside")


def _manifest(folder: Path) -> Any:
    return json.loads((folder / MANIFEST).read_text("utf-8"))


def _listed_files(folder: Path, place: Path) -> dict[str, tuple[int, str]]:
    if not folder.is_dir():
        raise CheckpointError(f"there is no checkpoint at {place}")
    if not (folder / MANIFEST).is_file():
        raise CheckpointError(f"{place} is not a checkpoint of llm-gym: it has no {MANIFEST}")
    try:
        manifest = _manifest(folder)
        if manifest["format"] != FORMAT:
            raise CheckpointError(f"{place} is not a checkpoint of llm-gym")
        if (schema := manifest["schema"]) != SCHEMA:
            raise CheckpointError(f"{place} must have schema {SCHEMA}, got {schema!r:.20}")
        return {name: (size, digest) for name, (size, digest) in manifest["files"].items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise CheckpointError(f"{place} is not a whole checkpoint: {MANIFEST} is broken") from error


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
