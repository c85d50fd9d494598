"""Where the seconds of vLLM's start go, and whether a short run should do without its graphs.

Three processes start the same model: with an empty cache, with the compiled files of the first one,
and eagerly (no compiling, no graphs). Each then decodes 64 replies; the last line says after how
many steps the graphs have paid off. ``all`` is the time that vLLM adds to a run after its imports
(``trainer``). Phases of vLLM's worker are ``device``, ``weights``, ``profile`` (a first pass, which
compiles or loads compiled files), ``cache`` and ``graphs`` (recording and warm-up).

    python -m benchmarks.play.vllm_start                  # 135M, about three minutes on an H200
    python -m benchmarks.play.vllm_start --size 0.5B

Writes ``benchmarks/results/vllm_start.json`` (or ``--out``).
"""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.lib.machine import RESULTS, provenance

PHASES = {
    "init_device": "device",
    "load_model": "weights",
    "determine_available_memory": "profile",
    "initialize_from_config": "cache",
    "compile_or_warm_up_model": "graphs",
}
"""Methods of vLLM's worker → what they do."""
REPLIES, TOKENS = 64, 128


def start(folder: str, eager: bool) -> dict[str, Any]:
    """Start an engine in this process; return seconds of each phase, and of a decoding step."""
    began = perf_counter()
    importlib.import_module("llm_gym_agents.trainer.ppo_trainer")  # torch, transformers, TorchRL
    begin = perf_counter()
    from vllm.v1.worker.gpu_worker import Worker

    seconds = {"trainer": begin - began, "import": perf_counter() - begin}

    def timed(method: Callable[..., Any], phase: str) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            since = perf_counter()
            try:
                return method(*args, **kwargs)
            finally:
                seconds[phase] = seconds.get(phase, 0.0) + perf_counter() - since

        return call

    for name, phase in PHASES.items():
        setattr(Worker, name, timed(getattr(Worker, name), phase))

    from llm_gym_agents.engines.base import Request, Sampling
    from llm_gym_agents.engines.vllm.engine import VLLMEngine

    since = perf_counter()
    engine = VLLMEngine(
        folder, end_ids=[0], dtype="bfloat16", gpu_memory_utilization=0.5, eager=eager
    )
    seconds["engine"] = perf_counter() - since
    seconds["all"] = perf_counter() - begin
    seconds["rest"] = seconds["engine"] - sum(seconds.get(each, 0.0) for each in PHASES.values())

    def decode() -> float:
        sampling = Sampling(max_tokens=TOKENS)
        since = perf_counter()
        engine.submit(
            Request([5 + at, 6, 7, 8], sampling, key=at, seed=at) for at in range(REPLIES)
        )
        while engine.running:
            engine.poll()
        return (perf_counter() - since) / TOKENS

    decode()
    found = {"seconds": seconds, "step_ms": 1e3 * decode()}
    engine.close()
    return found


def child(*arguments: str, cache: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.play.vllm_start", *arguments]
    env = os.environ | {"VLLM_CACHE_ROOT": cache, "TRITON_CACHE_DIR": f"{cache}/triton"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=env)
    found: dict[str, Any] = json.loads(
        next(line for line in done.stdout.splitlines() if line.startswith('{"seconds"'))
    )  # vLLM prints, too
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", default="135M", help="of benchmarks.learn.train_gpu")
    parser.add_argument("--out", type=Path, default=RESULTS / "vllm_start.json")
    parser.add_argument("--start", metavar="FOLDER", help=argparse.SUPPRESS)
    parser.add_argument("--eager", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.start:
        print(json.dumps(start(args.start, args.eager)))
        return
    from benchmarks.learn.train_gpu import load

    rows = {}
    with tempfile.TemporaryDirectory() as cache:
        for name, more in (("first", []), ("second", []), ("eager", ["--eager"])):
            with tempfile.TemporaryDirectory(prefix="llm-gym-") as folder:
                load(args.size).save_pretrained(folder)
                rows[name] = child("--start", folder, *more, cache=cache)
            print(name, json.dumps(rows[name]), flush=True)
            made = provenance(__file__, ("torch", "vllm")) | {"size": args.size, "rows": rows}
            args.out.write_text(json.dumps(made, indent=1) + "\n", "utf-8")
    later = rows["second"]["seconds"]["all"] - rows["eager"]["seconds"]["all"]
    gain = (rows["eager"]["step_ms"] - rows["second"]["step_ms"]) / 1e3
    verdict = f"pay after {later / gain:,.0f} decoding steps" if gain > 0 else "gain nothing"
    print(f"compiling and graphs, on a second start: {verdict}")


if __name__ == "__main__":
    main()
