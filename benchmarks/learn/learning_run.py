"""One training run of ``benchmarks/learn/learning.py``: a warm start, or RL from it.

The warm start of a game and seed is saved in FOLDER, and every estimator starts from its weights,
so runs differ only in the estimator. Settings and stopping rule are those of ``llm-gym train ID
--training.adv-estimator NAME``. CPU seconds are of the whole process without evaluations.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import process_time
from typing import Any

import torch

from llm_gym.evaluate.result import Evaluation
from llm_gym_agents import ConfigStore, PPOTrainer
from llm_gym_agents.algo import Advantages, TokenStream, get_advantage, register_advantage
from llm_gym_agents.commands.plan import choose
from llm_gym_agents.config.cli import flags as named_by
from llm_gym_agents.config.cli import parse_args
from llm_gym_agents.model.load import load_model, load_tokenizer
from llm_gym_agents.rollouts.evaluation import evaluate
from llm_gym_agents.run.checkpoint_weights import save_lm
from llm_gym_agents.run.metrics import SAMPLED_TOKENS

CONTROL = "shuffled"
"""PPO with GAE whose advantages are shuffled over the tokens of the batch: it cannot learn."""
FRESH = 200
"""Held-out episodes for the final score; they do not decide when a run stops."""


@register_advantage(CONTROL, needs_critic=True)
def shuffled(stream: TokenStream, *, gamma: float = 1.0, lam: float = 0.95) -> Advantages:
    """GAE's advantages in random order; the critic's targets are unchanged."""
    found = get_advantage("gae")(stream, gamma=gamma, lam=lam, discount="turn")
    order_T = torch.randperm(len(found.advantages_T))
    return Advantages(found.advantages_T[order_T], found.returns_T)


def settings(
    game: str, seed: int, estimator: str = "gae", flags: Sequence[str] = ()
) -> ConfigStore:
    """Return what ``llm-gym train`` would choose, given these flags."""
    config = ConfigStore()
    config.environment.env_id = f"llm_gym/{game}-v0"
    config.training.seed, config.training.adv_estimator = seed, estimator
    config.warm_start.player = "random"  # a solver would leave little to learn
    config = parse_args(flags, config) if flags else config
    choose(config, {"warm_start.player", *named_by(flags)})
    config.checkpoint.record_every = config.checkpoint.save_interval = 0
    config.checkpoint.end_with_best = False
    return config


def warm(game: str, seed: int, folder: Path, flags: Sequence[str] = ()) -> dict[str, Any]:
    """Teach the embedded model to write moves of ``game``; leave it in ``folder``."""
    config = settings(game, seed, flags=flags)
    with tempfile.TemporaryDirectory() as place:
        config.checkpoint.output_dir = place
        trainer = PPOTrainer(config)
        start = process_time()
        trainer.warm_up()
        took = process_time() - start
        save_lm(folder, trainer.learner.lm, trainer.tokenizer)
        trainer.cleanup()
    found = {name.removeprefix("warm_start/"): v for name, v in (trainer.warm_start or {}).items()}
    return {"game": game, "seed": seed, "cpu_s": round(took, 1)} | found


class Curve:
    """Success against episodes and CPU seconds, filled while a trainer runs."""

    def __init__(self, trainer: PPOTrainer, episodes: int) -> None:
        self.rows: list[dict[str, float]] = []
        self._evaluated_s, self._episodes, self._tokens = 0.0, episodes, 0
        self._evaluate, trainer.evaluate = trainer.evaluate, self.evaluate  # type: ignore[method-assign]
        self._started = process_time()
        trainer.callbacks.append(self.note)

    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        start = process_time()
        try:
            return self._evaluate(episodes=self._episodes)
        finally:
            self._evaluated_s += process_time() - start

    def note(self, trainer: PPOTrainer, row: dict[str, float]) -> None:
        self._tokens += int(row[SAMPLED_TOKENS])
        if "eval/success" in row:
            self.add(trainer.iteration * trainer.config.training.batch_size, row["eval/success"])

    def add(self, episodes: int, success: float) -> None:
        took = process_time() - self._started - self._evaluated_s
        point = {"episodes": episodes, "tokens": self._tokens, "success": success}
        self.rows.append(point | {"cpu_s": round(took, 2)})


def play_held_out(trainer: PPOTrainer, first: int, count: int) -> Evaluation:
    """Return how ``count`` held-out episodes went, those before ``first`` left out."""
    tasks = trainer.schedule.held_out_tasks(first + count)[first:]
    version = trainer.publisher.version
    return evaluate(trainer.sampler, tasks, version=version, held_out=True)


def learn(
    game: str,
    seed: int,
    folder: Path,
    estimator: str,
    train: int,
    points: int,
    episodes: int,
    flags: Sequence[str] = (),
) -> dict[str, Any]:
    """Train on ``train`` episodes at most, from the weights in ``folder``; return the curve."""
    config = settings(game, seed, estimator, flags)
    iterations = max(1, train // config.training.batch_size)
    config.warm_start.player = "none"
    config.training.num_epochs, config.training.num_iters_per_epoch = 1, iterations
    config.environment.eval_interval = max(1, iterations // points)
    with tempfile.TemporaryDirectory() as place:
        config.checkpoint.output_dir = place
        trainer = PPOTrainer(
            config, model=load_model(str(folder)), tokenizer=load_tokenizer(str(folder))
        )
        curve = Curve(trainer, episodes)
        curve.add(0, trainer.evaluate().success)
        try:
            trainer.fit()
            final = play_held_out(trainer, episodes, FRESH).success
        finally:
            trainer.cleanup()
    rows = curve.rows
    return {
        "game": game,
        "seed": seed,
        "estimator": " ".join((estimator, *flags)),
        "iterations": trainer.iteration,
        "planned": iterations,
        "final": final,
        "best": max(row["success"] for row in rows),
        "cpu_s": rows[-1]["cpu_s"],
        "curve": rows,
    }


def result(arguments: Sequence[str]) -> dict[str, Any]:
    torch.set_num_threads(1)
    what, game, seed, folder, *rest = arguments
    if what == "warm":
        return warm(game, int(seed), Path(folder))
    estimator, train, points, episodes, *flags = rest
    counts = int(train), int(points), int(episodes)
    return learn(game, int(seed), Path(folder), estimator, *counts, flags)
