"""``llm-gym train ID`` with nothing else, for one id of every family and some foreign ones.

    python -m benchmarks.learn.train_all --lanes 12            # whatever is missing in the results
    python -m benchmarks.learn.train_all llm_gym/Echo-v0       # these, again
    python -m benchmarks.learn.train_all --seeds 1 2           # the families, with other seeds
    python -m benchmarks.learn.train_all --model FOLDER --lanes 4 --with "--inference.backend vllm"
    python -m benchmarks.pages                                 # write the page again

Every training command in README.md and docs/ that needs no model of your own is run too, at full
length, to show that all examples learn. Each command is a process with one thread and at most five
minutes of CPU time (``train_one.py``). Rows are written as they come; a stopped script continues,
and a command that fails becomes a row with its error.

With ``--model`` that model trains on each id, or on the given ids, on a GPU for at most
``--seconds``; ids with a row are not run again.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.learn.tables import GAIN, SEED, gain, runs_by_id, taught
from benchmarks.learn.train_one import CPU_SECONDS
from benchmarks.lib.lanes import Job, Results, first_gpu, work
from benchmarks.lib.machine import RESULTS, ROOT, provenance

RESULT, MODEL_RESULT = RESULTS / "train_all.json", RESULTS / "train_model.json"
ONE = ("-m", "benchmarks.learn.train_one")
SUMMED_UP = 20
"""Seconds before the end for writing the row."""
SLOWEST = 8
"""A lane gives up after this many times the CPU limit in wall-clock time."""
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
    "Taxi-v4",
    "Blackjack-v1",
    "Acrobot-v1",
    "CartPole-v1",
    "MiniGrid-Empty-5x5-v0 --import minigrid",
    "MiniGrid-DoorKey-5x5-v0 --import minigrid",
)
_ELSEWHERE = re.compile(
    r"--model\b|--inference\.backend|--ray\.|--help|--dry-run|--smoke|\.yaml|\b[A-Z]{2,}\b|\w:\w"
)
"""Parts of commands that are not run: they need a model, module, GPU or Ray, or are patterns."""


def commands() -> list[str]:
    """Return every command once, the longest first."""
    return list(dict.fromkeys([*by_default(), *examples()]))


def by_default() -> list[str]:
    """Return the command of each family, and of each foreign id."""
    ours = [f"llm-gym train llm_gym/{name}-v0" for name in FAMILIES]
    return [*(f"llm-gym train {rest}" for rest in FOREIGN), *reversed(ours)]


def examples() -> list[str]:
    """Return the training commands of README and docs that run with what is here."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [each for page in pages for each in examples_in(page.read_text("utf-8"))]


def examples_in(page: str) -> Iterator[str]:
    r"""Yield the training commands in the code blocks of a page that need no model of your own.

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


def with_seeds(seeds: Sequence[int]) -> list[str]:
    ours = [each for each in by_default() if "llm_gym/" in each]
    return [f"{each} {SEED} {seed}" for seed in seeds for each in ours]


def jobs(todo: Iterable[str], seconds: float, on_gpu: float | None = None) -> Iterator[Job]:
    """Yield what runs each command in a process of its own, ``seconds`` from now at most.

    With ``on_gpu`` a command has the GPU for so many seconds, and no limit of CPU time.
    """
    until = time.time() + seconds - SUMMED_UP
    for command in todo:
        program = [sys.executable, *ONE, command, str(until)]
        if on_gpu is None:
            yield Job(command, program, timeout=SLOWEST * CPU_SECONDS)
        else:
            program += ["--free", str(on_gpu)]
            yield Job(command, program, on_gpu + 3 * SUMMED_UP, first_gpu())


def missing(known: Sequence[str], rows: Mapping[str, Any]) -> list[str]:
    """Return what has no row yet, and then what ended at its limit without a word about it."""
    unexplained = [c for c in known if "planned" in rows.get(c, {}) and not explained(rows[c])]
    return [*(c for c in known if "success" not in rows.get(c, {})), *unexplained]


def explained(row: Mapping[str, Any]) -> bool:
    """Whether a row gained enough, or says why not."""
    return (gain(row) or 0.0) >= GAIN or bool(row["advice"])


def load(place: Path) -> dict[str, Any]:
    empty: dict[str, Any] = {"provenance": None, "rows": {}}
    return json.loads(place.read_text()) if place.exists() else empty


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ids", nargs="*", help="ids to train again; what is missing by default")
    parser.add_argument("--model", help="a model folder, on a GPU; the embedded one by default")
    parser.add_argument("--with", dest="more", default="", help="further flags, with --model")
    parser.add_argument("--seconds", type=float, default=300.0, help="of a run with --model")
    parser.add_argument("--seeds", type=int, nargs="*", help="train with these; 0 by default")
    parser.add_argument("--lanes", type=int, default=1, help="commands that run side by side")
    parser.add_argument("--minutes", type=float, default=1e6, help="after which it stops")
    parser.add_argument("--results", type=Path, help="where rows are kept")
    options = parser.parse_args()
    known, on_gpu = commands(), None
    place = options.results or (MODEL_RESULT if options.model else RESULT)
    if options.model:
        own = asked(known, options.ids) if options.ids else by_default()
        flags = " ".join(["--model", options.model, *filter(None, [options.more])])
        numbered = [f"{flags} {SEED} {seed}" if seed else flags for seed in options.seeds or [0]]
        todo = [f"{command} {each}" for each in numbered for command in own]
        again, on_gpu = [], options.seconds
    else:
        known = with_seeds(options.seeds) if options.seeds else known
        todo = asked(known, options.ids) if options.ids else missing(known, load(place)["rows"])
        again = todo
    packages = ("torch", "torchrl", "transformers", "gymnasium")
    about = provenance(__file__, packages, seeds=options.seeds or (0,))
    results = Results(place, {"provenance": about}, again=again)
    seconds = 60 * options.minutes
    deadline = time.monotonic() + seconds
    work(
        list(jobs(todo, seconds, on_gpu)),
        results,
        lanes=options.lanes,
        deadline=deadline,
        least=(on_gpu or 2.0) / 2,  # half of its time says something
    )
    if options.model:
        done = {each: results.rows[each] for each in todo if each in results.rows}
        print(taught(runs_by_id(done)))


def asked(known: Iterable[str], ids: Sequence[str]) -> list[str]:
    """Return the commands that train these ids, with every seed; an unknown id stands alone.

    >>> asked(["llm-gym train a", "llm-gym train b --x y", "llm-gym train b"], ["b", "c"])
    ['llm-gym train b --x y', 'llm-gym train b', 'llm-gym train c']
    """
    own: dict[str, list[str]] = {}
    for command in known:
        own.setdefault(command.split()[2], []).append(command)
    return [command for each in ids for command in own.get(each, [f"llm-gym train {each}"])]


if __name__ == "__main__":
    main()
