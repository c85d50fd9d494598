"""Jobs in lanes: many single-threaded processes in parallel, and one result file.

A job is a command whose last line of output is its result, as JSON. Rows go to the result file as
they come, under the job's key. A stopped script continues: only missing and failed jobs are run.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks.lib.machine import ROOT

Row = dict[str, Any]
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1") | {
    "TOKENIZERS_PARALLELISM": "false",
    "CUDA_VISIBLE_DEVICES": "",
}


@dataclass(frozen=True)
class Job:
    """A command and the key of its result."""

    key: str
    command: Sequence[str]
    timeout: float = 600.0
    environ: Mapping[str, str] | None = None


class Results:
    """A result file that several lanes add to. Opening it keeps existing rows.

    Args:
        path: The file.
        about: Its entries besides the rows.
        again: Keys to run again; their old rows stay until the new ones are there.
    """

    def __init__(self, path: Path, about: Row, again: Iterable[str] = ()) -> None:
        self.path, self._lock, self.again = path, threading.Lock(), set(again)
        known = json.loads(path.read_text()) if path.exists() else {}
        self.rows: dict[str, Row] = known.get("rows", {})
        self._about = about

    def lacks(self, key: str) -> bool:
        """Whether the key has no row, or only a row with an error."""
        return key in self.again or "error" in self.rows.get(key, {"error": "not run"})

    def add(self, key: str, row: Row) -> None:
        """Write the row of a job; the file is replaced atomically."""
        with self._lock:
            if "error" not in row or "error" in self.rows.get(key, row):
                self.rows[key] = row
            text = json.dumps(self._about | {"rows": self.rows}, indent=1)
            part = self.path.with_suffix(".part")
            part.parent.mkdir(parents=True, exist_ok=True)
            part.write_text(text + "\n")
            part.replace(self.path)


def work(
    jobs: Sequence[Job],
    results: Results,
    *,
    lanes: int,
    deadline: float = float("inf"),
    least: float = 1.0,
) -> None:
    """Run the jobs that ``results`` lacks, in order, ``lanes`` at a time.

    Args:
        jobs: In the order in which they start.
        results: Receives the rows.
        lanes: Processes at a time.
        deadline: Time of ``monotonic`` at which all jobs end.
        least: Seconds that must be left to start a job.
    """

    def one(job: Job) -> None:
        left = deadline - monotonic()
        if left <= least:
            return
        start = monotonic()
        row = run(job, min(job.timeout, left))
        row["wall_s"] = round(monotonic() - start, 1)
        results.add(job.key, row)
        print(f"{job.key}: {row.get('error') or 'done'} ({row['wall_s']:.0f} s)", flush=True)

    todo = [job for job in jobs if results.lacks(job.key)]
    with ThreadPoolExecutor(lanes) as pool:
        list(pool.map(one, todo))


def run(job: Job, timeout: float) -> Row:
    """Run one job; return the JSON of its last line, or an error."""
    child = subprocess.Popen(
        job.command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | ONE_THREAD | dict(job.environ or {}),
        cwd=ROOT,
        start_new_session=True,  # so that what it starts can be ended with it
    )
    try:
        out, err = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        return {"error": f"stopped after {timeout:.0f} s"}
    finally:
        _end(child)
    lines = out.strip().splitlines()
    if child.returncode or not lines:
        return {"error": f"exit code {child.returncode}: {' '.join(err.split())[-600:]}"}
    try:
        row: Row = json.loads(lines[-1])
    except ValueError:
        return {"error": f"its last line must be JSON, got {lines[-1][:200]!r}"}
    return row


def _end(child: subprocess.Popen[str]) -> None:
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


def first_gpu() -> dict[str, str]:
    """Return the environment of a job on a GPU: those that this script may use, else the first."""
    return {"CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0")}


def calling(module: str, *arguments: str) -> list[str]:
    """Return the command of a job whose row is ``module.result(arguments)``."""
    return [sys.executable, "-m", "benchmarks.lib.lanes", module, *arguments]


def main() -> None:
    parser = argparse.ArgumentParser(description="Print the row that a module returns for a job.")
    parser.add_argument("module", help="with a function result(arguments)")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    print(json.dumps(importlib.import_module(args.module).result(args.arguments)))


if __name__ == "__main__":
    main()
