"""Runs whose disk is full: each in a fork, so imports are paid once."""

import contextlib
import io
import os
import time
from functools import partial
from pathlib import Path
from typing import Any

from tests.agents.run.checkpoint_run import in_fork


def _on_small_disk(place: Path, kilobytes: int, report: int) -> None:
    from llm_gym.cli import main
    from llm_gym.tools.sandbox.inside import kernel

    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("tmpfs", str(place), "tmpfs", 0, f"size={kilobytes}k")
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        where = ("--checkpoint.output-dir", str(place / "run"))
        code = main(["train", "llm_gym/Echo-v0", "--smoke", "--inference.max-tokens", "3", *where])
    from llm_gym_agents.run.checkpoints import Checkpoints, load_checkpoint

    latest = Checkpoints(place / "run/checkpoints").latest()
    if latest is not None:
        load_checkpoint(latest)  # what is there is whole
    lines = [line for line in errors.getvalue().splitlines() if line.startswith("llm-gym:")]
    os.write(report, f"{code} {len(lines)} {'Traceback' in errors.getvalue()}\n".encode())


def full_disks(folder: Path, count: int) -> dict[str, Any]:
    """Train on ``count`` disks, each with a little more room than the one before."""
    import llm_gym_agents.commands.train  # noqa: F401 - once, and not in every fork

    good, filled, slowest, odd = 0, 0, 0.0, []
    for at in range(count):
        place = folder / f"disk-{at}"
        place.mkdir(parents=True)
        kilobytes = 8 + 48 * at
        read, write = os.pipe()
        start = time.perf_counter()
        code = in_fork(partial(_on_small_disk, place, kilobytes, write))
        os.close(write)
        outcome = os.read(read, 1000).decode().split()
        os.close(read)
        slowest = max(slowest, time.perf_counter() - start)
        full = outcome[:1] == ["2"]
        filled += full
        # A full disk: exit code 2, one sentence, no traceback, whole checkpoints.
        fine = code == 0 and (outcome == ["2", "1", "False"] or outcome[:1] == ["0"])
        good += fine
        if not fine:
            odd.append(f"{kilobytes} KiB: fork {code}, {outcome}")
    return {
        "runs": count,
        "full": filled,
        "as_promised": good,
        "slowest_s": round(slowest, 2),
        "odd": odd,
    }
