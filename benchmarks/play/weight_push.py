"""What new weights cost an engine, and whether a push that went wrong is noticed.

A ``PPOTrainer`` trains a few iterations through the engine. From its metrics comes the share of
an iteration that push and probe take (aim: at most 1 %). Then the weights are pushed again and
again; then the model is changed without a push, and the probe has to object.

    python -m benchmarks.play.weight_push --engine vllm
    python -m benchmarks.play.weight_push --engine vllm --model FOLDER --dtype bfloat16 --place h200

Writes ``benchmarks/results/weight_push_ENGINE[_PLACE].json``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
from time import perf_counter
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from benchmarks.lib.machine import RESULTS, provenance
from llm_gym_agents import ConfigStore, PPOTrainer
from llm_gym_agents.engines.publish import PROBE_GAP, PUBLISH_SECONDS
from llm_gym_agents.engines.weight_check import Probe, StaleWeightsError
from llm_gym_agents.model.load import tiny_llama
from llm_gym_agents.model.weights import served_weights
from llm_gym_agents.trainer.build import tiny_tokenizer

ENV = "llm_gym/TextGameEasy-v0"


def train(args: argparse.Namespace, folder: str) -> tuple[PPOTrainer, dict[str, Any]]:
    config = ConfigStore()
    config.inference.backend, config.inference.engine = args.engine, json.loads(args.settings)
    config.inference.max_tokens, config.inference.num_envs = args.max_tokens, args.batch
    config.environment.env_id, config.environment.eval_interval = ENV, 0
    config.environment.env_kwargs = {"rules": "system"}
    config.training.batch_size = config.training.mini_batch_size = args.batch
    config.training.learning_rate = 1e-6
    config.model.dtype, config.checkpoint.output_dir = args.dtype, folder
    start = perf_counter()
    if args.model is None:
        tokenizer = tiny_tokenizer({ENV: {}})
        trainer = PPOTrainer(config, model=tiny_llama(tokenizer, heads=2), tokenizer=tokenizer)
    else:
        config.model.model_name = args.model
        trainer = PPOTrainer(config)
    started = perf_counter() - start
    rows = trainer.fit(1, args.iterations)
    seconds = [row["time/collect_s"] + row["time/update_s"] for row in rows]
    shares = [row[PUBLISH_SECONDS] / took for row, took in zip(rows, seconds, strict=True)]
    return trainer, {
        "start_s": round(started, 1),
        "iteration_s": [round(took, 2) for took in seconds],
        "tokens_per_iteration": round(rows[-1]["episode/tokens"] * args.batch),
        "publish_s": [round(row[PUBLISH_SECONDS], 4) for row in rows],
        "publish_share": round(shares[-1], 4),
        "probe_gap": [round(row[PROBE_GAP], 6) for row in rows],
        "mismatch_kl": [row.get("mismatch/kl") for row in rows],
    }


def push(trainer: PPOTrainer, repeats: int) -> dict[str, Any]:
    probe, engine = Probe(trainer.learner.lm), trainer.sampler.engine
    pushes, probes = [], []
    for _ in range(repeats):
        start = perf_counter()
        engine.update_weights(served_weights(trainer.learner.lm), engine.version)
        middle = perf_counter()
        probe.check(engine)
        pushes.append(middle - start)
        probes.append(perf_counter() - middle)
    return {
        "weights": sum(p.numel() for p in trainer.learner.lm.parameters()),
        "push_ms": round(1e3 * statistics.median(pushes), 2),
        "probe_ms": round(1e3 * statistics.median(probes), 2),
    }


def plant_stale(trainer: PPOTrainer) -> dict[str, Any]:
    """Change the model, do not tell the engine, and ask the probe; then push and ask again."""
    probe, engine = Probe(trainer.learner.lm), trainer.sampler.engine
    with torch.no_grad():
        for name, weight in trainer.learner.lm.named_parameters():
            if name.endswith("down_proj.weight"):
                weight.mul_(0.5)
    stale = probe.gap(engine)
    try:
        probe.check(engine)
        noticed = False
    except StaleWeightsError:
        noticed = True
    trainer.publisher.publish(99)
    return {
        "stale_gap": round(stale, 4),
        "stale_noticed": noticed,
        "gap_after_push": round(probe.gap(engine), 6),
    }


def sleep(trainer: PPOTrainer) -> dict[str, Any]:
    """Say how much of the GPU a sleeping engine gives back, and whether it wakes unharmed."""
    if not (torch.cuda.is_available() and getattr(trainer.sampler.engine, "sleeps", False)):
        return {}
    before = torch.cuda.mem_get_info()[0]
    start = perf_counter()
    trainer.sampler.engine.sleep()
    slept = perf_counter()
    freed = torch.cuda.mem_get_info()[0] - before
    trainer.sampler.engine.wake()
    woken = perf_counter()
    return {
        "freed_gib": round(freed / 2**30, 2),
        "sleep_s": round(slept - start, 3),
        "wake_s": round(woken - slept, 3),
        "gap_after_wake": round(Probe(trainer.learner.lm).gap(trainer.sampler.engine), 6),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=("vllm", "sglang"), default="vllm")
    parser.add_argument("--model", help="a folder; by default a small model with random weights")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--settings", default="{}", help="of the engine, as JSON")
    parser.add_argument("--batch", type=int, default=64, help="episodes of an iteration")
    parser.add_argument("--max-tokens", type=int, default=16, help="of a reply")
    parser.add_argument("--iterations", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--place", help="added to the name of the result file")
    args = parser.parse_args()
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    with tempfile.TemporaryDirectory() as folder:
        trainer, training = train(args, folder)
        try:
            found = {
                "training": training,
                **push(trainer, args.repeats),
                **plant_stale(trainer),
                **sleep(trainer),
            }
        finally:
            trainer.cleanup()
    packages = ("torch", "transformers", *(["vllm"] if args.engine == "vllm" else []))
    made = {**provenance(__file__, packages), "args": vars(args), **found}
    name = "_".join(filter(None, ("weight_push", args.engine, args.place)))
    (RESULTS / f"{name}.json").write_text(json.dumps(made, indent=1) + "\n")
    print(json.dumps(made))


if __name__ == "__main__":
    main()
