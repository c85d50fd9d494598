"""Random kills: does every episode still count once, and does every number stay the same?

A run of a small model is played by Ray actors, twice: undisturbed in one process, and on a cluster
whose actors are killed with ``kill -9`` at random moments, mostly while they play. Ids of episodes
are counted where they reach the learner. ``equal`` is whether the rows of metrics, all that do
not depend on time, are those of the undisturbed run to the bit.

    python -m tests.robustness.chaos
    python -m tests.robustness.chaos --kills 3 --seed 7

Writes ``benchmarks/results/chaos.json`` (``--out`` for another place). ``make chaos`` runs it.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import tempfile
import threading
from collections import Counter
from pathlib import Path
from time import perf_counter
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from benchmarks.lib.counted import CountedRun, untimed
from benchmarks.lib.machine import RESULTS, provenance
from llm_gym_agents import ConfigStore, PPOTrainer

RESULT = RESULTS / "chaos.json"


def settings(folder: str, iterations: int, batch: int, actors: int | None) -> ConfigStore:
    config = ConfigStore()
    config.environment.env_id = "llm_gym/TextGameEasy-v0"
    config.environment.env_kwargs = {"shaping": True}
    config.environment.eval_interval = 0
    config.inference.num_envs = config.inference.isolated_batch_size = batch // 2
    config.inference.max_tokens, config.inference.max_turns = 6, 6
    config.training.num_epochs, config.training.num_iters_per_epoch = 1, iterations
    config.training.batch_size = config.training.mini_batch_size = batch
    config.training.learning_rate = 1e-3
    config.checkpoint.output_dir, config.checkpoint.save_interval = folder, 0
    if actors:
        config.ray.use_ray, config.ray.num_actors = True, actors
    return config


class Killer(threading.Thread):
    """Kills actors of a group at random moments, until there were enough kills or ``stop``."""

    def __init__(self, trainer: PPOTrainer, kills: int, seed: int) -> None:
        super().__init__(daemon=True)
        self._trainer, self._left = trainer, kills
        self._random, self._over = random.Random(seed), threading.Event()
        self.killed: list[dict[str, Any]] = []

    def run(self) -> None:
        """Wait a while, kill somebody, wait until the place is taken again."""
        while len(self.killed) < self._left and not self._over.is_set():
            self._over.wait(self._random.expovariate(1.0))
            actors = [each for each in self._trainer.sampler.pool.actors if each.info is not None]
            busy = [each for each in actors if each.shards] or actors
            if not busy:
                continue
            actor = self._random.choice(busy)
            pid = actor.info.pid
            # Only who can be replaced: somebody who is just being started is not killed.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                kill = {"iteration": self._trainer.iteration, "actor": actor.index}
                self.killed.append(kill | {"playing": bool(actor.shards)})
            while actor.info is None or actor.info.pid == pid:
                if self._over.wait(0.05):
                    return

    def stop(self) -> None:
        """End it."""
        self._over.set()
        self.join()


def train(config: ConfigStore, kills: int, seed: int) -> dict[str, Any]:
    """Train; return rows, ids of episodes, and kills."""
    run = CountedRun(config)
    trainer = run.trainer
    killer = Killer(trainer, kills, seed)
    if kills:
        killer.start()
        # A run goes on until there were as many kills as were asked for.
        trainer.callbacks.append(lambda *_: _go_on(trainer, killer, kills))
    start = perf_counter()
    try:
        rows = trainer.fit()
    finally:
        if kills:
            killer.stop()
        trainer.cleanup()
    return {
        "rows": untimed(rows),
        "ids": run.ids,
        "killed": killer.killed,
        "restarts": rows[-1].get("ray/restarts", 0),
        "seconds": round(perf_counter() - start, 1),
    }


def _go_on(trainer: PPOTrainer, killer: Killer, kills: int) -> None:
    settings = trainer.config.training
    last = trainer.iteration >= settings.num_iters_per_epoch
    if last and len(killer.killed) < kills:
        settings.num_iters_per_epoch += 1


def compared(disturbed: dict[str, Any], alone: dict[str, Any], episodes: int) -> dict[str, Any]:
    """Return whether every episode counted once, and every number is the same."""
    count = Counter(disturbed["ids"])
    return {
        "kills": len(disturbed["killed"]),
        "kills_while_playing": sum(each["playing"] for each in disturbed["killed"]),
        "restarts": disturbed["restarts"],
        "iterations": len(disturbed["rows"]),
        "episodes": len(disturbed["ids"]),
        "lost": sum(count[id] == 0 for id in range(episodes)),
        "doubled": sum(count[id] > 1 for id in count),
        "equal": disturbed["rows"] == alone["rows"],
        "seconds": disturbed["seconds"],
        "seconds_alone": alone["seconds"],
        "killed": disturbed["killed"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--actors", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RESULT)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        shape = (arguments.iterations, arguments.batch)
        disturbed = train(
            settings(f"{folder}/killed", *shape, arguments.actors), arguments.kills, arguments.seed
        )
        ran = len(disturbed["rows"])
        alone = train(settings(f"{folder}/alone", ran, arguments.batch, None), 0, 0)
    result = {
        "made_by": provenance(__file__, ("torch", "ray", "torchrl"), seeds=[arguments.seed]),
        **compared(disturbed, alone, ran * arguments.batch),
    }
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps({name: value for name, value in result.items() if name != "killed"}))
    if result["lost"] or result["doubled"] or not result["equal"]:
        raise SystemExit("an episode was lost or counted twice, or a number changed")


if __name__ == "__main__":
    main()
