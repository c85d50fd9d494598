"""Run one training command for at most five minutes of CPU time, and print its row as JSON.

    python -m benchmarks.learn.train_one "llm-gym train llm_gym/Echo-v0"

A row has held-out success and return with random weights, after the warm start, after RL, and of
the solver; CPU seconds, total seconds and seconds until the engine was ready; and the printed
advice. A run is told to stop shortly before its limit. The weights that it ends with then play 200
episodes that it has not seen, whose time does not count; on a GPU, those of its report.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.lib.lanes import ONE_THREAD
from benchmarks.lib.machine import provenance
from llm_gym.core.errors import LLMGymError
from llm_gym.episodes import play_episode, read_episodes
from llm_gym.evaluate.scores import published
from llm_gym.wrappers.as_text import make_text
from llm_gym_agents import PPOTrainer
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.learn.imitation import find_player
from llm_gym_agents.run.files import NAME as LOCK
from llm_gym_agents.run.metrics import KL, read_metrics

CPU_SECONDS = 300
GRACE = 25
"""Seconds before the limit at which a run is told to stop, so that it can report."""
FRESH = 200
"""Episodes that the final weights play."""
SOLVED = 20
"""Episodes of the solver, if its score is not published."""


def train(command: str, seconds: float = float("inf"), *, free: bool = False) -> dict[str, Any]:
    """Run a command for at most ``seconds``; a ``free`` one has a GPU and no CPU limit."""
    began = time.time()
    with tempfile.TemporaryDirectory(prefix="train-all-") as place:
        run, log = Path(place) / "run", Path(place) / "log"
        program = [sys.executable, "-m", "llm_gym", *shlex.split(command)[1:]]
        with log.open("w") as out:
            child = subprocess.Popen(
                [*program, "--checkpoint.output-dir", str(run)],
                # The table is about one CPU core, so GPUs are hidden.
                env=os.environ | ({} if free else ONE_THREAD),
                preexec_fn=None if free else _limit,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        limit = float("inf") if free else CPU_SECONDS - GRACE
        status, used = _end_of(child, time.monotonic() + seconds - GRACE, limit)
        child.returncode = os.waitstatus_to_exitcode(status)
        output = log.read_text("utf-8", errors="replace")
        row = {
            "cpu_s": round(used.ru_utime + used.ru_stime, 1),
            "all_s": round(time.time() - began, 1),
            "exit": child.returncode,
            "commit": (provenance(__file__)["commit"] or "")[:7],
            "cpus": os.cpu_count(),
        }
        rows = read_metrics(run)
        if not rows:
            return row | {"error": " ".join(output.split())[-400:] or "it said nothing"}
        row["start_s"] = round((run / LOCK).stat().st_mtime - began, 1)
        row["planned"] = ConfigStore.load(run / "config.json").training.iterations
        row["stopped"] = reported(run, "after") is None
        if not free:
            finisher = [sys.executable, "-m", "benchmarks.learn.train_one", str(run), "--finish"]
            with suppress(subprocess.TimeoutExpired):  # the row then has its last evaluation
                subprocess.run(finisher, env=os.environ | ONE_THREAD, timeout=CPU_SECONDS)
        return row | summary(run, rows, output)


def finish(run: Path) -> None:
    """Load the weights that a run ended with, its best ones, and play fresh episodes."""
    config = ConfigStore.load(run / "config.json")
    config.checkpoint.resume = True
    trainer = PPOTrainer(config)
    try:
        trainer.fit(num_epochs=1, num_iters_per_epoch=1)  # already done: it only reports
        first = trainer.schedule.reported.start
        trainer.evaluate(range(first, first + FRESH), str(run / "episodes/after.jsonl"))
    finally:
        trainer.cleanup()


def _end_of(
    child: subprocess.Popen[bytes], until: float, limit: float
) -> tuple[int, resource.struct_rusage]:
    """Wait for a run and return its status and usage; it is told to stop, then ended."""
    stopping = False
    while True:
        pid, status, used = os.wait4(child.pid, os.WNOHANG)
        if pid:
            return status, used
        if not stopping and (time.monotonic() > until or _cpu_s(child.pid) > limit):
            child.terminate()
            stopping = True
        elif time.monotonic() > until + GRACE:
            child.kill()
        time.sleep(0.5)


def _cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process and its children."""
    place = Path("/proc", str(pid))
    try:
        fields = (place / "stat").read_text().rpartition(")")[2].split()
        children = (place / "task" / str(pid) / "children").read_text().split()
    except OSError:  # it has ended meanwhile
        return 0.0
    own = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return own + sum(_cpu_s(int(child)) for child in children)


def _limit() -> None:
    """End the process at its limit; what it had measured by then is in its folder."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))


def summary(run: Path, rows: list[dict[str, float]], output: str) -> dict[str, Any]:
    first, evaluated = rows[0], [row for row in rows if "eval/success" in row]
    before = reported(run, "before") or {}
    last = reported(run, "after") or kept(before, first, evaluated)
    config = ConfigStore.load(run / "config.json")
    measured = {
        name: {
            "random_weights": first.get(f"warm_start/{name}_before"),
            "warm_start": before.get(f"eval/{name}"),
            "trained": last.get(f"eval/{name}"),
            "best": max((row[f"eval/{name}"] for row in evaluated), default=None),
        }
        for name in ("success", "return")
    }
    return {
        "env_id": config.environment.env_id,
        "imitated": imitated(output),
        "iterations": len(rows),
        "episodes": len(rows) * config.training.batch_size,
        "max_turns": config.inference.max_turns,
        "unusable": {
            "random_weights": first.get("warm_start/invalid_before"),
            "warm_start": first.get("warm_start/invalid"),
            "trained": rows[-1].get("episode/invalid"),
        },
        "solver": solver(config),
        **measured,
        "curve": [round(row["eval/success"], 4) for row in evaluated],
        "curve_start": first.get("warm_start/success"),
        "curve_start_low": first.get("warm_start/success_low"),
        "kl_most": max(row.get(KL, 0.0) for row in rows),
        "falls": evaluated[-1].get("eval/falls") if evaluated else None,
        "curve_return": [round(row["eval/return"], 4) for row in evaluated],
        "fresh": True,
        "advice": advice(output),
    }


def kept(
    before: dict[str, float], first: dict[str, float], evaluated: list[dict[str, float]]
) -> dict[str, float]:
    """Return the evaluation of the best weights, with which a run ends that was cut.

    Like the run, it compares the lower ends of the intervals, also with that of the warm start.
    """
    best = max(evaluated, key=lambda row: row["eval/success_low"], default=before)
    start = first.get("warm_start/success_low", 0.0)
    return best if best.get("eval/success_low", 0.0) >= start else before


def reported(run: Path, when: str) -> dict[str, float] | None:
    """Return how a run played ``before`` or ``after`` training; a run that was cut has no after.

    These episodes are others than those of the evaluations, by which its weights were chosen.
    """
    records = run / f"episodes/{when}.jsonl"
    if not records.exists():
        return None
    played = list(read_episodes(records))
    return {
        "eval/success": sum(episode.success for episode in played) / len(played),
        "eval/return": sum(episode.total_reward for episode in played) / len(played),
    }


def imitated(output: str) -> str | None:
    """Return whose moves the warm start imitated, as a run printed it.

    >>> imitated("warm start: imitating the solver's moves, because ...")
    'solver'
    """
    found = re.search(r"^warm start: imitating (?:the )?(\w+)", output, re.MULTILINE)
    return found and found[1]


def advice(output: str) -> list[str]:
    """Return the sentences of advice in what a run printed, each once."""
    found = (
        line.removeprefix("advice: ") for line in output.splitlines() if "advice: " in line[:8]
    )
    return list(dict.fromkeys(found))


def solver(config: ConfigStore) -> dict[str, float] | None:
    """Return what a solver reaches: published, or played here; None where there is none."""
    env_id, kwargs = config.environment.env_id or "", config.environment.env_kwargs
    known = published().get(env_id, {}).get("solver")
    if known is not None:
        return {"success": known.success}
    try:
        env = make_text(env_id, **kwargs)
        act = find_player(env, "solver")
        played = [play_episode(env, act, seed) for seed in range(SOLVED)]
    except (LLMGymError, NotImplementedError):
        return None
    wins, total = (sum(getattr(e, n) for e in played) for n in ("success", "total_reward"))
    return {"success": wins / SOLVED, "return": total / SOLVED}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", help='such as "llm-gym train llm_gym/Echo-v0"')
    parser.add_argument("--finish", action="store_true", help="the command is a run to end well")
    parser.add_argument("until", nargs="?", type=float, help="seconds since 1970 to end by")
    parser.add_argument(
        "--free", type=float, help="on a GPU, for so many seconds, instead of that CPU time"
    )
    args = parser.parse_args()
    if args.finish:
        finish(Path(args.command))
        return
    left = (args.until or float("inf")) - time.time()
    free = args.free is not None
    print(json.dumps(train(args.command, min(left, args.free or left), free=free)))


if __name__ == "__main__":
    main()
