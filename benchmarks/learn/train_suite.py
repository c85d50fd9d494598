"""One model for many games: ``llm-gym train --suite easy``, then success in these and six others.

    python -m benchmarks.learn.train_suite --model FOLDER                        # one GPU, vLLM
    python -m benchmarks.learn.train_suite --model FOLDER --with "--warm-start-only"

The six other games are families without an easy game; the untrained model plays them too. Success
is on held-out instances if a game has splits. Rows go to ``benchmarks/results/suite_model.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks.lib.lanes import Results
from benchmarks.lib.machine import RESULTS, provenance
from llm_gym_agents.commands.plan import find_suite

OTHERS = tuple(
    f"llm_gym/{name}-v0"
    for name in ("Echo", "Count", "Memory", "FrozenLake", "Blackjack", "Dataset")
)
CACHE = "cache_gb=8"
"""Several engines share the GPU."""
PLAYERS = 3
"""Processes that evaluate side by side."""


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "llm_gym", *words]


def play(model: str, args: argparse.Namespace, ids: Sequence[str]) -> list[dict[str, Any]]:
    """Return what ``llm-gym eval`` says about a model in some games, sampled as in training."""
    how = ["--engine", args.engine, "--episodes", str(args.episodes), "--num-envs", "100"]
    how += ["--engine-set", CACHE] if args.engine == "vllm" else []
    how += ["--max-tokens", "100", "--temperature", "1", "--split", "test", "--json"]
    done = subprocess.run(
        command("eval", "--suite", *ids, "--model", model, *how),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    found: list[dict[str, Any]]
    found, _ = json.JSONDecoder().raw_decode(done.stdout, done.stdout.index("[\n"))
    return found  # vLLM prints before and after it


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="a folder, such as SmolLM2-135M-Instruct")
    parser.add_argument("--parts", nargs="+", default=["easy"], help="of the suite to train on")
    parser.add_argument("--with", dest="more", default="", help="more settings of training")
    parser.add_argument("--engine", default="vllm")
    parser.add_argument("--episodes", type=int, default=100, help="of each game")
    parser.add_argument("--out", type=Path, default=RESULTS / "suite_model.json")
    args = parser.parse_args()
    results = Results(args.out, provenance(__file__, ("torch", args.engine)))

    def note(what: str, found: Sequence[dict[str, Any]]) -> None:
        for each in found:
            results.add(f"{what}/{each['env']}", each)

    ids = list(find_suite(args.parts)[0].config.environment.mix)
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(PLAYERS + 1) as pool:
        given = pool.submit(play, args.model, args, OTHERS)
        run, began = f"{scratch}/run", monotonic()
        words = ["--suite", *args.parts, "--model", args.model, "--out", run]
        words += ["--inference.backend", args.engine, *shlex.split(args.more)]
        words += ["--inference.engine", CACHE] if args.engine == "vllm" else []
        subprocess.run(command("train", *words), check=True, stdout=sys.stderr)
        results.add("training", {"seconds": monotonic() - began, "settings": args.more})
        parts = [ids[at::PLAYERS] for at in range(PLAYERS)]
        for found in pool.map(partial(play, run, args), [*parts, OTHERS]):
            note("after", found)
        note("before", given.result())


if __name__ == "__main__":
    main()
