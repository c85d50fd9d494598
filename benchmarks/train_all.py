"""``llm-gym train ID`` with nothing else, for one id of every family and four foreign ones.

    python benchmarks/train_all.py                       # whatever is missing in the results
    python benchmarks/train_all.py llm_gym/Echo-v0       # these, again
    python benchmarks/train_all.py --table               # only write the table again

Each id is a process of its own with one thread and at most five minutes of CPU time; its row is
written as soon as it is done, so the script can be stopped and goes on where it was. A row has
held-out success and return at random weights, after the warm start and after reinforcement
learning, the solver's, the CPU seconds, and the advice that the run printed.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from llm_gym.evaluate.scores import published
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.run.advice import ADVICE
from llm_gym_agents.run.metrics import read_metrics

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results/train_all.json"
PAGE = ROOT / "docs/train_all.md"
CPU_SECONDS = 300
FAMILIES = (
    "Echo", "Count", "Memory", "TextGameEasy", "GuessTheNumberEasy", "FrozenLake",
    "MinesweeperEasy", "SudokuEasy", "TowerOfHanoiEasy", "FifteenPuzzleEasy", "CoinCollectorEasy",
    "CookingWorldEasy", "Game2048Easy", "TicTacToeEasy", "ConnectFourEasy", "MastermindEasy",
    "SokobanEasy", "WordleEasy", "MazeEasy", "HangmanEasy", "WordLadderEasy", "CountdownEasy",
    "LetterCountingEasy", "ChainSumEasy", "Blackjack", "BanditEasy", "MathPythonEasy",
    "SearchQAEasy", "TextToSQLEasy", "Dataset",
)  # fmt: skip
FOREIGN = {
    "FrozenLake-v1": ("is_slippery=false",),
    "CliffWalking-v1": (),
    "MiniGrid-Empty-5x5-v0": (),
    "CartPole-v1": (),
}
IDS = (*(f"llm_gym/{name}-v0" for name in FAMILIES), *FOREIGN)


def train(env_id: str) -> dict[str, Any]:
    """Run the command in a process of its own; return its row."""
    with tempfile.TemporaryDirectory(prefix="train-all-") as place:
        run = Path(place) / "run"
        modules = ["--import", "minigrid"] if env_id.startswith("MiniGrid") else []
        kwargs = FOREIGN.get(env_id, ())
        given = ["--environment.env-kwargs", *kwargs] if kwargs else []
        command = ["llm-gym", "train", env_id, *modules, *given]
        start = "from llm_gym.cli import main; raise SystemExit(main())"
        program = [sys.executable, "-c", start, *command[1:]]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [*program, "--checkpoint.output-dir", str(run)],
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            preexec_fn=_limit,
            capture_output=True,
            text=True,
            check=False,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        rows = read_metrics(run)
        if not rows:
            why = " ".join(done.stderr.split())[-400:]
            return {"command": " ".join(command), "error": why or f"exit code {done.returncode}"}
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return {"command": " ".join(command), "cpu_s": round(cpu, 1), **summary(run, rows)}


def _limit() -> None:
    """End the process at its limit; what it had measured by then is in its folder."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS + 30))


def summary(run: Path, rows: list[dict[str, float]]) -> dict[str, Any]:
    """Return what the metrics of a run say."""
    first, evaluated = rows[0], [row for row in rows if "eval/success" in row]
    last = evaluated[-1] if evaluated else {}
    config = ConfigStore.load(run / "config.json")
    signs = {name.removeprefix(ADVICE) for row in rows for name in row if name.startswith(ADVICE)}
    return {
        "iterations": len(rows),
        "episodes": config.environment.eval_episodes,
        "success": {
            "random_weights": first.get("warm_start/success_before"),
            "warm_start": first.get("warm_start/success"),
            "trained": last.get("eval/success"),
            "best": max((row["eval/success"] for row in evaluated), default=None),
        },
        "return": {
            "random_weights": first.get("warm_start/return_before"),
            "warm_start": first.get("warm_start/return"),
            "trained": last.get("eval/return"),
        },
        "advice": sorted(signs),
    }


def table(results: dict[str, Any]) -> str:
    """Return the page with the table."""
    head = (
        "# One command, nothing else\n\n"
        "`llm-gym train ID` and no other setting (FrozenLake-v1 with `is_slippery=false`), the\n"
        f"embedded model, one seed, at most {CPU_SECONDS // 60} CPU minutes: held-out success, "
        "and\nreturn in brackets. Written by `benchmarks/train_all.py` from\n"
        "`benchmarks/results/train_all.json`.\n\n"
        "| id | random weights | warm start | trained | solver | CPU s | advice |\n"
        "|---|---|---|---|---|---|---|\n"
    )
    return head + "".join(_line(env_id, results[env_id]) for env_id in IDS if env_id in results)


def _line(env_id: str, row: dict[str, Any]) -> str:
    if "error" in row:
        return f"| `{env_id}` | | | did not run: {row['error']} | | | |\n"
    solver = published().get(env_id, {}).get("solver")
    shown = [
        _shown(row["success"][name], row["return"][name])
        for name in ("random_weights", "warm_start", "trained")
    ]
    known = "" if solver is None else f"{solver.success:.0%}"
    advice = ", ".join(row["advice"])
    return f"| `{env_id}` | {' | '.join(shown)} | {known} | {row['cpu_s']:.0f} | {advice} |\n"


def _shown(success: float | None, mean: float | None) -> str:
    if success is None or mean is None:
        return "?"
    return f"{success:.0%} ({mean:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("ids", nargs="*", help="what to train; all that are missing by default")
    parser.add_argument("--table", action="store_true", help="only write the table")
    options = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    todo = [] if options.table else options.ids or [each for each in IDS if each not in results]
    for env_id in todo:
        print(env_id, flush=True)
        results[env_id] = train(env_id)
        print(json.dumps(results[env_id]), flush=True)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    PAGE.write_text(table(results))


if __name__ == "__main__":
    main()
