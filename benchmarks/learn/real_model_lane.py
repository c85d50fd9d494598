"""One lane of ``real_model.py``: runs that come as lines of JSON, on one engine, one after another.

An engine is kept from run to run, because starting vLLM takes as long as learning an easy game; a
new run pushes its own weights into it, and they are checked. The same engine plays the whole suite
with the model that learned in the suite's own form.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import shutil
import sys
import traceback
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from benchmarks.envs.suite_scores import plain_first, play_together, suite_mean
from llm_gym.registry.suite import ENVS
from llm_gym_agents import ConfigStore, PPOTrainer
from llm_gym_agents.engines.base import Engine, Sampling
from llm_gym_agents.recipes import PREFIX, smollm2
from llm_gym_agents.rollouts.policy import LLMPolicy
from llm_gym_agents.run.metrics import TRAIN_SUCCESS
from llm_gym_agents.trainer import build

ENOUGH, LOOKED_AT = 0.985, 6
"""Training success, in so many iterations one after another, at which a run has nothing to gain."""
SPARE_S = {False: 5.0, True: 125.0}
"""Before a lane is ended, without the suite and with it: a run that is cut has no row."""
PHASES = ("collect", "score", "advantage", "train", "publish")
SUITE = {"episodes": 20, "together": 30, "num_envs": 240, "max_tokens": 32}
"""How the suite is played: greedily, with the rules, each game for itself."""


class EnoughError(Exception):
    """Ends a run from inside."""


class KeptEngine:
    """Makes an engine once, and gives the same one to every run from then on."""

    def __init__(self) -> None:
        self._engine: Engine | None = None
        self._make, build.build_engine = build.build_engine, self.get

    def get(self, config: ConfigStore, lm: Any, tokenizer: Any) -> Engine:
        """Return the engine, under the name of the function that makes one."""
        if config.inference.backend == "transformers":  # it is the trainer's own model
            return self._make(config, lm, tokenizer)
        if self._engine is None:
            self._engine = self._make(config, lm, tokenizer)
            self._engine.close = lambda: None  # type: ignore[method-assign]
        return self._engine


def settings(job: dict[str, Any], args: argparse.Namespace) -> ConfigStore:
    """Return the config of a run: a recipe, its seed and its place."""
    config = smollm2(job["game"]).config
    config.model.model_name, config.training.seed = args.model, job["seed"]
    config.inference.backend = args.backend
    config.inference.engine = {}
    if args.backend == "vllm":
        own = {"cache_gb": args.cache_gb, "sleeps": False, "max_rows": 256}
        config.inference.engine = {"max_model_len": 4096} | own
    config.environment.eval_interval = config.checkpoint.save_interval = 0
    config.environment.stop_at_success = None
    config.environment.eval_episodes = 16  # of a look that the warm start takes; ours are longer
    if args.tiny:
        config.training.batch_size, config.training.mini_batch_size = 4, 2
        config.training.critic_warmup_iters = 0
        config.inference.num_envs, config.inference.max_turns = 4, 2
        config.warm_start.turns, config.warm_start.steps = 20, 2
        config.environment.eval_episodes = 4
    place = args.work / f"{PREFIX}{job['game']}-{job['seed']}"
    shutil.rmtree(place, ignore_errors=True)
    config.checkpoint.output_dir = str(place)
    return config


def learn(job: dict[str, Any], args: argparse.Namespace) -> dict[str, Any]:
    """Warm up, learn and evaluate; return the row of it."""
    began = perf_counter()
    trainer = PPOTrainer(settings(job, args))
    ready = perf_counter()
    try:
        row: dict[str, Any] = {"start": trainer.evaluate(min(100, args.episodes)).summary()}
        before = perf_counter()
        trainer.warm_up(lambda said: print(said, file=sys.stderr, flush=True))
        warm = perf_counter()
        row["warm_s"] = warm - before
        row["warm"] = trainer.evaluate(args.episodes).summary()
        now = perf_counter()
        spare = SPARE_S[job["suite"]]
        left = min(args.run_seconds - (now - ready), job["left"] - (now - began) - spare)
        left -= 1.2 * (now - warm)  # the last look is like this
        row |= reinforced(trainer, min(job["seconds"], left), 2 if args.tiny else None)
        row["trained"] = trainer.evaluate(args.episodes).summary()
        row |= {"start_up_s": ready - began, "all_s": perf_counter() - began}
        if job["suite"]:
            row["suite"] = play_suite(trainer, args)
    finally:
        trainer.cleanup()
    return row


def play_suite(trainer: PPOTrainer, args: argparse.Namespace) -> dict[str, Any]:
    """Let the trained model play every environment of the suite; return the means."""
    policy = LLMPolicy(
        trainer.sampler.policy.engine,
        trainer.sampler.policy.chat,
        sampling=Sampling(max_tokens=SUITE["max_tokens"], temperature=0.0),
        sync_replies=args.backend == "transformers",
    )
    ids = plain_first([row.id for row in ENVS])[: 3 if args.tiny else None]
    rows: list[dict[str, Any]] = []
    episodes = 2 if args.tiny else SUITE["episodes"]
    for first in range(0, len(ids), SUITE["together"]):
        some, began = ids[first : first + SUITE["together"]], perf_counter()
        played = play_together(some, policy, episodes, num_envs=SUITE["num_envs"], seed=0)
        rows += [result.summary() for result in played]
        found = {"asked": SUITE, "rows": rows, "mean": suite_mean(rows)}
        (trainer.folder / "suite.json").write_text(json.dumps(found, indent=1) + "\n")
        spent = perf_counter() - began
        print(f"suite: {len(rows)} of {len(ids)}, {spent:.0f} s", file=sys.stderr, flush=True)
    return suite_mean(rows)


def reinforced(trainer: PPOTrainer, seconds: float, most: int | None) -> dict[str, Any]:
    """Train until the recipe or the time ends, or nothing is left to learn; say how it went."""
    if trainer.learner.model.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    began = perf_counter()
    curve: list[list[float]] = []

    def look(trainer: PPOTrainer, row: dict[str, float]) -> None:
        spent = perf_counter() - began
        curve.append([round(spent, 2), row[TRAIN_SUCCESS], row["policy/entropy"]])
        last = [success for _, success, _ in curve[-LOOKED_AT:]]
        done = len(last) == LOOKED_AT and min(last) >= ENOUGH
        another = spent - (curve[-2][0] if len(curve) > 1 else 0.0)  # as long as this one
        if spent + another > seconds or done or len(curve) == most:
            raise EnoughError

    trainer.callbacks.append(look)
    with contextlib.suppress(EnoughError):
        trainer.fit()
    rows = trainer.metrics_history
    spent = {name: sum(row.get(f"time/{name}_s", 0.0) for row in rows) for name in PHASES}
    speeds = ("time/tokens_per_s", "time/collect_tokens_per_s", "time/update_tokens_per_s")
    phases = {f"{name}_share": spent[name] / sum(spent.values()) for name in PHASES}
    phases |= {name: sum(row[name] for row in rows) / len(rows) for name in speeds}
    reached = [at for at, success, _ in curve if success >= 0.9]
    return {
        "rl_s": perf_counter() - began,
        "iterations": len(rows),
        "episodes_played": len(rows) * trainer.config.training.batch_size,
        "s_to_90_in_training": reached[0] if reached else None,
        "phases": phases,
        "memory_peak_gib": max((row.get("gpu/memory_peak_gib", 0.0) for row in rows), default=0.0),
        "probe_gap": max((row.get("engine/probe_gap", 0.0) for row in rows), default=0.0),
        "weights_checked": rows[-1].get("engine/weights_checked"),
        "curve": curve,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--backend", required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--episodes", type=int, required=True)
    parser.add_argument("--cache-gb", type=int, required=True)
    parser.add_argument("--run-seconds", type=float, required=True)
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(2)
    # Results go where nobody else writes: engines and their children print to stdout.
    answers, sys.stdout = sys.stdout, sys.stderr
    KeptEngine()
    for line in sys.stdin:
        job = json.loads(line)
        try:
            row = learn(job, args)
        except Exception as error:  # noqa: BLE001 - the next run may well work
            traceback.print_exc()
            row = {"error": f"{type(error).__name__}: {error}"[:500]}
        answers.write(json.dumps(row) + "\n")
        answers.flush()
        gc.collect()  # the last trainer's memory is the next one's
        if torch.cuda.is_available():
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
