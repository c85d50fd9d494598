"""Whole iterations of training with vLLM on one GPU, by phase, compared with their limits.

A run trains for a few iterations. Two limits are measured in the same process while nothing else
runs: *bare* is vLLM alone on the same prompts with the same reply lengths, each turn sent as soon
as the last one is answered; *update alone* is ``PPO.update`` on the same batch. ``ratio`` is the
sum of both over the whole iteration, a median over iterations.

    python -m benchmarks.learn.iteration_gpu --models FOLDER 1.5B
    python -m benchmarks.learn.iteration_gpu --models tiny --engine transformers --episodes 8

A size such as 1.5B builds a model with random weights; it loses all episodes, so every second one
is rewarded. The learning rate is small, so that iterations stay alike and no update ends early.
Adds a row per model to ``benchmarks/results/iteration_gpu.json`` (or ``--out``).
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from transformers import AutoTokenizer

from benchmarks.learn.train_gpu import DEVICE, SIZES, load
from benchmarks.lib.counted import served_config
from benchmarks.lib.machine import RESULTS, provenance
from benchmarks.play.throughput import Recorder, bare, forget
from llm_gym_agents import ConfigStore, PPOTrainer
from llm_gym_agents.text.tokenizers import byte_tokenizer

RESULT = RESULTS / "iteration_gpu.json"
PHASES = ("collect", "score", "advantage", "train", "publish")
AIM = 0.85
WARM = 2
"""Iterations to skip: the first batches of a shape are compiled or captured."""


def settings(args: argparse.Namespace, folder: str) -> ConfigStore:
    config = served_config(args, folder)
    config.model.dtype = "bfloat16" if DEVICE == "cuda" else "float32"
    if args.engine == "vllm":
        config.inference.engine["max_rows"] = args.episodes
    config.training.micro_batch_tokens = args.micro
    config.training.num_iters_per_epoch += WARM
    return config


def trainer_of(name: str, args: argparse.Namespace, config: ConfigStore) -> PPOTrainer:
    if name not in SIZES:
        config.model.model_name = name
        return PPOTrainer(config)
    if args.tokenizer:
        tokenizer = AutoTokenizer.from_pretrained(args.tokenizer)
    else:
        tokenizer = byte_tokenizer()
    every_second = {"reward_fn": lambda trajectory: float(trajectory.episode_id % 2)}
    return PPOTrainer(config, tokenizer=tokenizer, model=load(name), **every_second)


class Watch:
    """Times the iterations of a trainer and, with the clock stopped, the limits after each."""

    def __init__(self, trainer: PPOTrainer) -> None:
        self.rows: list[dict[str, float]] = []
        self._ppo, self._engine = trainer.learner.ppo, trainer.sampler.policy.engine
        self._update = self._ppo.update
        self._ppo.update = self._note  # type: ignore[method-assign]
        trainer.callbacks.append(lambda _, row: self._end(row))
        self._recorder, self._began = Recorder(self._engine), perf_counter()

    def _note(self, data: Any, **how: Any) -> Any:
        self._learned = data, how
        return self._update(data, **how)

    def _end(self, row: dict[str, float]) -> None:
        data, how = self._learned
        found = {"whole": _now() - self._began, "steps": row["train/steps"]}
        found |= {"tokens": float(data.tokens), "read_tokens": float(data.ids_S.numel())}
        found |= {name: row.get(f"time/{name}_s", 0.0) for name in PHASES}
        found["rest"] = found["whole"] - sum(found[name] for name in PHASES)
        chains = self._recorder.stop()
        forget(self._engine)
        start = _now()
        bare(self._engine, chains)
        found["bare"] = _now() - start
        forget(self._engine)
        start = _now()
        found["steps_alone"] = self._update(data, **how)["train/steps"]
        found["update_alone"] = _now() - start
        found["ratio"] = (found["bare"] + found["update_alone"]) / found["whole"]
        self.rows.append(found)
        self._recorder, self._began = Recorder(self._engine), _now()


def _now() -> float:
    if DEVICE == "cuda":
        torch.cuda.synchronize()
    return perf_counter()


def measure(name: str, args: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        began = perf_counter()
        trainer = trainer_of(name, args, settings(args, f"{folder}/run"))
        start_s = perf_counter() - began
        print(f"{name}: ready after {start_s:.0f} s", flush=True)
        trainer.on_warning = lambda sentence: None
        trainer.checkpoints.save = lambda *_, **__: None  # type: ignore[method-assign]
        try:
            watch = Watch(trainer)
            trainer.fit()
        finally:
            trainer.cleanup()
    found = {
        "model": Path(name).name,
        "parameters": sum(each.numel() for each in trainer.learner.lm.parameters()),
        "start_s": round(start_s, 1),
        "iterations": watch.rows,
        "peak_gib": torch.cuda.max_memory_allocated() / 2**30 if DEVICE == "cuda" else None,
    }
    if later := watch.rows[WARM:]:  # else SIGTERM came first
        found["median"] = {key: statistics.median(row[key] for row in later) for key in later[0]}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--models", nargs="+", required=True, help="folders, or sizes")
    parser.add_argument("--tokenizer", help="a folder, for sizes; by default one of bytes")
    parser.add_argument("--engine", default="vllm", choices=("vllm", "transformers"))
    parser.add_argument("--env", default="llm_gym/GuessTheNumberEasy-v0")
    parser.add_argument("--episodes", type=int, default=256)
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--iterations", type=int, default=4, help=f"after {WARM} to warm up")
    parser.add_argument("--context", type=int, default=2048, help="tokens of a conversation")
    parser.add_argument("--cache-gb", type=int, default=8)
    parser.add_argument("--micro", type=int, default=16384, help="tokens of a forward pass")
    parser.add_argument("--out", type=Path, default=RESULT)
    args = parser.parse_args()
    packages = ("torch", "transformers", "torchrl", *(["vllm"] if args.engine == "vllm" else []))
    asked = ("env", "engine", "episodes", "turns", "max_tokens", "iterations", "micro")
    for name in args.models:
        made = provenance(__file__, packages)
        made["settings"] = {each: getattr(args, each) for each in asked}
        row = made | measure(name, args)
        known = json.loads(args.out.read_text("utf-8"))["rows"] if args.out.exists() else {}
        known[row["model"]] = row
        args.out.write_text(json.dumps(made | {"rows": known}, indent=1) + "\n", "utf-8")
        print(row["model"], json.dumps(row.get("median", "stopped too early")), f"aim {AIM}")


if __name__ == "__main__":
    main()
