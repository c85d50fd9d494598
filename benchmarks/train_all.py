"""``llm-gym train ID`` with nothing else, for one id of every family and four foreign ones.

    python benchmarks/train_all.py --lanes 12            # whatever is missing in the results
    python benchmarks/train_all.py llm_gym/Echo-v0       # these, again
    python benchmarks/train_all.py --page                # only write docs/train_all.md again

Every training command in README.md and docs/ that needs no model of somebody's is run as well, at
full length: no example can be one that does not learn. Each command is a process of its own with
one thread and at most five minutes of CPU time, as many side by side as there are lanes. A row is
written as soon as it is known, so the script can be stopped and goes on where it was, and a command
that fails is a row that says so. A row has held-out success and return at random weights, after
the warm start and after reinforcement learning, the solver's, CPU seconds, and the advice printed.
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
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from machine import ROOT, provenance
from train_all_page import GAIN, gain, write_page

from llm_gym.as_text import make_text
from llm_gym.episodes import play_episode, read_episodes
from llm_gym.errors import LLMGymError
from llm_gym.evaluate.scores import published
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.learn.demonstrations import find_player
from llm_gym_agents.run.metrics import read_metrics

RESULTS = ROOT / "benchmarks/results/train_all.json"
CPU_SECONDS = 300
GRACE = 25
"""CPU seconds before the limit at which a run is told to stop, so that it can say how it went."""
SLOWEST = 8
"""A lane gives up after this many times the CPU limit: something sleeps there."""
SOLVED = 20
"""Episodes of the solver, where nobody has published its score."""
FAMILIES = (
    "Echo", "Count", "Memory", "TextGameEasy", "GuessTheNumberEasy", "FrozenLake",
    "MinesweeperEasy", "SudokuEasy", "TowerOfHanoiEasy", "FifteenPuzzleEasy", "CoinCollectorEasy",
    "CookingWorldEasy", "Game2048Easy", "TicTacToeEasy", "ConnectFourEasy", "MastermindEasy",
    "SokobanEasy", "WordleEasy", "MazeEasy", "HangmanEasy", "WordLadderEasy", "CountdownEasy",
    "LetterCountingEasy", "ChainSumEasy", "Blackjack", "BanditEasy", "MathPythonEasy",
    "SearchQAEasy", "TextToSQLEasy", "Dataset",
)  # fmt: skip
FOREIGN = (
    "FrozenLake-v1 --environment.env-kwargs is_slippery=false",
    "CliffWalking-v1",
    "MiniGrid-Empty-5x5-v0 --import minigrid",
    "CartPole-v1",
)
START = """
import os, signal
from llm_gym.cli import main
def stop(*_):
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)  # it comes again every second
    os.kill(os.getpid(), signal.SIGTERM)
signal.signal(signal.SIGXCPU, stop)
raise SystemExit(main())
"""
_ELSEWHERE = re.compile(
    r"--model\.|--inference\.backend|--ray\.|--help|--dry-run|--smoke|\.yaml|\b[A-Z]{2,}\b"
)
"""In a command that trains somebody's model, needs a GPU or Ray, or is a pattern and no example."""


def commands() -> list[str]:
    """Return every command that is run, each once, what takes longest first."""
    ours = [f"llm-gym train llm_gym/{name}-v0" for name in FAMILIES]
    foreign = [f"llm-gym train {rest}" for rest in FOREIGN]
    return list(dict.fromkeys([*foreign, *reversed(ours), *examples()]))


def examples() -> list[str]:
    """Return the training commands of README and docs that run with what is here."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    return [each for page in pages for each in examples_in(page.read_text("utf-8"))]


def examples_in(page: str) -> Iterator[str]:
    r"""Yield the training commands in the code blocks of a page that need no model of somebody's.

    >>> list(examples_in("``llm-gym train X``\n```bash\nllm-gym train a/B-v0 --view  # so\n```"))
    ['llm-gym train a/B-v0']
    """
    for block in re.findall(r"```\w*\n(.*?)```", page, re.DOTALL):
        whole = block.replace("\\\n", " ")
        for line in re.findall(r"^(?:\$ )?(llm-gym train .*)$", whole, re.MULTILINE):
            words = shlex.split(line, comments=True)
            command = shlex.join(word for word in words if word != "--view")
            if not _ELSEWHERE.search(command):
                yield command


def train(command: str) -> dict[str, Any]:
    """Run a command in a process of its own; return its row."""
    with tempfile.TemporaryDirectory(prefix="train-all-") as place:
        run, log = Path(place) / "run", Path(place) / "log"
        program = [sys.executable, "-c", START, *shlex.split(command)[1:]]
        with log.open("w") as out:
            child = subprocess.Popen(
                [*program, "--checkpoint.output-dir", str(run)],
                # A GPU would be taken where there is one; the table is about one CPU core.
                env=os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
                preexec_fn=_limit,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        ending = threading.Timer(CPU_SECONDS * SLOWEST, child.kill)
        ending.start()
        _, status, used = os.wait4(child.pid, 0)
        ending.cancel()
        child.returncode = os.waitstatus_to_exitcode(status)
        said = log.read_text("utf-8", errors="replace")
        row = {"cpu_s": round(used.ru_utime + used.ru_stime, 1), "exit": child.returncode}
        rows = read_metrics(run)
        if not rows:
            return row | {"error": " ".join(said.split())[-400:] or "it said nothing"}
        return row | summary(run, rows) | {"advice": advice(said)}


def _limit() -> None:
    """End the process at its limit; what it had measured by then is in its folder."""
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS - GRACE, CPU_SECONDS))


def summary(run: Path, rows: list[dict[str, float]]) -> dict[str, Any]:
    """Return what the metrics of a run say."""
    first, evaluated = rows[0], [row for row in rows if "eval/success" in row]
    last = after(run) or (evaluated[-1] if evaluated else {})
    config = ConfigStore.load(run / "config.json")
    measured = {
        name: {
            "random_weights": first.get(f"warm_start/{name}_before"),
            "warm_start": first.get(f"warm_start/{name}"),
            "trained": last.get(f"eval/{name}"),
            "best": max((row[f"eval/{name}"] for row in evaluated), default=None),
        }
        for name in ("success", "return")
    }
    return {
        "env_id": config.environment.env_id,
        "stopped": after(run) is None,
        "iterations": len(rows),
        "planned": config.training.num_epochs * config.training.num_iters_per_epoch,
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
        "curve_return": [round(row["eval/return"], 4) for row in evaluated],
    }


def after(run: Path) -> dict[str, float] | None:
    """Return how the weights that a finished run leaves play; None for one that was cut."""
    records = run / "episodes/after.jsonl"
    if not records.exists():
        return None
    played = list(read_episodes(records))
    return {
        "eval/success": sum(episode.success for episode in played) / len(played),
        "eval/return": sum(episode.total_reward for episode in played) / len(played),
    }


def advice(said: str) -> list[str]:
    """Return the sentences of advice in what a run printed, each once."""
    found = (line.removeprefix("advice: ") for line in said.splitlines() if "advice: " in line[:8])
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


def run_all(todo: Iterable[str], lanes: int, place: Path) -> dict[str, Any]:
    """Run commands side by side; write each row as it comes, and return them all."""
    results = load(place)
    results["provenance"] = provenance(__file__, ("torch", "torchrl", "transformers", "gymnasium"))
    with ThreadPoolExecutor(lanes) as pool:
        running = {pool.submit(train, command): command for command in todo}
        for done in as_completed(running):
            command = running[done]
            try:
                row = done.result()
            except Exception as error:  # noqa: BLE001 - one row must not take the others along
                row = {"error": f"{type(error).__name__}: {error}"}
            results["rows"][command] = row
            place.write_text(json.dumps(results, indent=1) + "\n")
            print(time.strftime("%H:%M:%S"), command, json.dumps(row), flush=True)
    return results


def missing(known: Sequence[str], rows: Mapping[str, Any]) -> list[str]:
    """Return what has no row yet, and then what ended at its limit without a word about it."""
    mute = [c for c in known if "planned" in rows.get(c, {}) and not explained(rows[c])]
    return [*(c for c in known if "success" not in rows.get(c, {})), *mute]


def explained(row: Mapping[str, Any]) -> bool:
    """Whether a row gained enough, or says why not."""
    return (gain(row) or 0.0) >= GAIN or bool(row["advice"])


def load(place: Path) -> dict[str, Any]:
    """Return the results so far."""
    empty: dict[str, Any] = {"provenance": None, "rows": {}}
    return json.loads(place.read_text()) if place.exists() else empty


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ids", nargs="*", help="ids to train again; what is missing by default")
    parser.add_argument("--lanes", type=int, default=1, help="commands that run side by side")
    parser.add_argument("--results", type=Path, default=RESULTS, help="where rows are kept")
    parser.add_argument("--page", action="store_true", help="only write the page")
    options = parser.parse_args()
    if options.page:
        write_page(load(options.results), commands(), set(examples()))
        return
    known, asked = commands(), set(options.ids)
    have = load(options.results)["rows"]
    todo = [c for c in known if asked & set(c.split())] or [
        *(f"llm-gym train {each}" for each in options.ids),
        *([] if asked else missing(known, have)),
    ]
    results = run_all(todo, options.lanes, options.results)
    if options.results == RESULTS:
        write_page(results, known, set(examples()))


if __name__ == "__main__":
    main()
