"""Runs that are killed, and runs whose disk is full: each in a fork, so imports are paid once."""

from __future__ import annotations

import contextlib
import io
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ITERATIONS = 4
_SETTINGS = {
    "inference": {"num_envs": 4, "max_tokens": 3, "max_turns": 2},
    "training": {"num_epochs": ITERATIONS, "num_iters_per_epoch": 1, "batch_size": 4,
                 "mini_batch_size": 4, "ppo_epochs": 1, "learning_rate": 0.01},
    "environment": {"env_id": "llm_gym/Echo-v0", "eval_interval": 2, "eval_episodes": 2},
}  # fmt: skip


def train(folder: Path) -> None:
    """Train a little in ``folder``, from its newest checkpoint on."""
    from llm_gym_agents import ConfigStore, PPOTrainer

    config = ConfigStore.from_dict(_SETTINGS)
    config.checkpoint.output_dir, config.checkpoint.resume = str(folder), True
    trainer = PPOTrainer(config)
    try:
        trainer.fit()
    finally:
        trainer.cleanup()


def outcome(folder: Path) -> tuple[dict[str, bytes], list[dict[str, float]]]:
    """Return the weights and the metrics of a run, without what only a clock knows."""
    from llm_gym_agents.run.checkpoints import Checkpoints
    from llm_gym_agents.run.metrics import read_metrics

    latest = Checkpoints(folder / "checkpoints").latest()
    assert latest is not None
    weights = {path.name: path.read_bytes() for path in latest.rglob("*.safetensors")}
    rows = [
        {name: value for name, value in row.items() if not name.startswith("time/")}
        for row in read_metrics(folder)
    ]
    return weights, rows


def in_fork(work: Callable[[], int], kill_after: float | None = None) -> tuple[int, float]:
    """Run ``work`` in a fork; return how it ended and after how long."""
    start = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        status = 70
        try:
            status = work()
        finally:
            os._exit(status)
    if kill_after is not None:
        time.sleep(kill_after)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code, time.perf_counter() - start


def _quietly(folder: Path) -> int:
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - a fork that ends soon
    train(folder)
    return 0


def kills(folder: Path, count: int) -> dict[str, Any]:
    """Kill ``count`` runs at random moments, let them go on, and compare with one left alone."""
    import llm_gym_agents.trainer  # noqa: F401 - once, and not in every fork

    code, whole_s = in_fork(lambda: _quietly(folder / "alone"))
    assert code == 0, code
    wanted = outcome(folder / "alone")
    rng = random.Random(0)
    equal, killed, slowest = 0, 0, 0.0
    for at in range(count):
        place = folder / f"run-{at}"
        code, _ = in_fork(lambda place=place: _quietly(place), rng.uniform(0.1, whole_s))
        killed += code == -signal.SIGKILL
        code, took = in_fork(lambda place=place: _quietly(place))
        slowest = max(slowest, took)
        equal += code == 0 and outcome(place) == wanted
    return {"runs": count, "killed": killed, "equal": equal, "slowest_resume_s": round(slowest, 2)}


def _on_small_disk(place: Path, kilobytes: int, report: int) -> int:
    from llm_gym.cli import main
    from llm_gym.tools.sandbox.inside import kernel

    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("tmpfs", str(place), "tmpfs", 0, f"size={kilobytes}k")
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        where = ("--checkpoint.output-dir", str(place / "run"))
        code = main(["train", "llm_gym/Echo-v0", "--smoke", "--inference.max-tokens", "3", *where])
    from llm_gym_agents.run.checkpoints import Checkpoints, load_checkpoint

    latest = Checkpoints(place / "run/checkpoints").latest()
    if latest is not None:
        load_checkpoint(latest)  # what is there is whole
    lines = [line for line in said.getvalue().splitlines() if line.startswith("llm-gym:")]
    os.write(report, f"{code} {len(lines)} {'Traceback' in said.getvalue()}\n".encode())
    return 0


def full_disks(folder: Path, count: int) -> dict[str, Any]:
    """Train on ``count`` disks, each with a little more room than the one before."""
    import llm_gym_agents.commands.train  # noqa: F401 - once, and not in every fork

    good, filled, slowest, odd = 0, 0, 0.0, []
    for at in range(count):
        place = folder / f"disk-{at}"
        place.mkdir(parents=True)
        kilobytes = 8 + 48 * at
        read, write = os.pipe()
        code, seconds = in_fork(
            lambda place=place, size=kilobytes, end=write: _on_small_disk(place, size, end)
        )
        os.close(write)
        told = os.read(read, 1000).decode().split()
        os.close(read)
        slowest = max(slowest, seconds)
        full = told[:1] == ["2"]
        filled += full
        # A full disk: exit code 2, one sentence, no traceback, whole checkpoints.
        fine = code == 0 and (told == ["2", "1", "False"] or told[:1] == ["0"])
        good += fine
        if not fine:
            odd.append(f"{kilobytes} KiB: fork {code}, {told}")
    return {
        "runs": count,
        "full": filled,
        "as_promised": good,
        "slowest_s": round(slowest, 2),
        "odd": odd,
    }
