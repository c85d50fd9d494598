"""One training run of ``benchmarks/learn/referee.py``: a warm start, or an arm of a claim from it.

An arm ends after a fixed number of sampled tokens; held-out success is measured at equal intervals.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import Any

import torch

from benchmarks.learn.learning_run import FRESH, play_held_out, settings, warm
from llm_gym_agents import ConfigStore, PPOTrainer
from llm_gym_agents.algo import Advantages, TokenStream, get_advantage, register_advantage
from llm_gym_agents.run.metrics import SAMPLED_TOKENS

POINTS, EPISODES = 6, 100
"""Evaluations of a run, and held-out episodes of each."""
PLAIN = (
    "--environment.env-kwargs", "shaping=false",
    "--training.lr-schedule", "constant",
    "--warm-start.player", "random",
)  # fmt: skip
"""Flags of every run. Imitating a solver would already win most of these games."""


@register_advantage("grpo_filtered", needs_groups=True)
def grpo_filtered(stream: TokenStream, *, keep: float = 0.5) -> Advantages:
    """``grpo`` of the starts whose scores differ most; the others get the advantage 0."""
    assert stream.group_E is not None
    _, group_E = torch.unique(stream.group_E, return_inverse=True)
    spread_G = torch.stack(
        [stream.scores_E[group_E == one].std(correction=0) for one in range(int(group_E.max()) + 1)]
    )
    kept_G = spread_G >= torch.quantile(spread_G, 1.0 - keep)
    made = get_advantage("grpo")(stream)
    kept_T = stream.on_tokens(kept_G[group_E].to(made.advantages_T))
    return made._replace(advantages_T=made.advantages_T * kept_T)


ALONE = {"group_size": 1, "gamma": 1.0}
ARMS: Mapping[str, tuple[str, dict[str, Any]]] = {
    "grpo": ("grpo", {}),
    "gigpo": ("gigpo", {"gamma": 0.95}),
    "ppo_token": ("gae", {"estimator_settings": {"discount": "token"}}),
    "ppo_turn": ("gae_turn", {}),
    "ppo": ("gae", {}),
    "no_critic": ("gae", {"value_coef": 0.0}),  # its values stay at 0, where they begin
    "vine": ("vine", {"estimator_settings": {"branches": 2}}),
    "filter": ("grpo_filtered", {}),
    "dapo": (
        "grpo",
        {"loss_settings": {"clip_ratio": [0.2, 0.28]}, "resample_zero_variance_groups": 3},
    ),
    "dr_grpo": ("dr_grpo", {}),
    "gspo": ("grpo", {"policy_loss": "gspo"}),
    "reinforce": ("reinforce_plus_plus", ALONE),
    "no_norm": ("reinforce_plus_plus", {**ALONE, "estimator_settings": {"whiten": False}}),
    "discounted": ("reinforce_plus_plus", {**ALONE, "gamma": 0.9}),
}
"""Arm → estimator and settings of ``training``; all others are what ``llm-gym train`` chooses for
``grpo``."""


class Enough(Exception):
    """Raised within ``fit`` when the budget is spent."""


def arm_settings(game: str, seed: int, arm: str, model: str = "") -> ConfigStore:
    """Return the settings of an arm: those for ``grpo``, and what its claim changes."""
    config = settings(game, seed, "grpo", flags_for(model))
    estimator, changed = ARMS[arm]
    own = {"adv_estimator": estimator, "estimator_settings": {}, **changed}
    for name, value in own.items():
        setattr(config.training, name, value)
    config.environment.eval_interval = 0
    return config


def flags_for(model: str) -> tuple[str, ...]:
    """Return the flags of a run of this model; "" is the embedded one."""
    return (*PLAIN, "--model.model-name", model) if model else PLAIN


def learn(game: str, seed: int, folder: Path, model: str, arm: str, tokens: int) -> dict[str, Any]:
    """Train until ``tokens`` are sampled; return held-out success along the way."""
    config = arm_settings(game, seed, arm, model)
    config.warm_start.player, config.model.model_name = "none", str(folder)
    config.training.num_epochs, config.training.num_iters_per_epoch = 1, 1_000_000
    start, spent, curve = process_time(), 0.0, list[dict[str, float]]()

    def note(trainer: PPOTrainer, row: dict[str, float]) -> None:
        nonlocal spent
        spent += row[SAMPLED_TOKENS]
        while len(curve) < POINTS and spent >= tokens * (len(curve) + 1) / POINTS:
            played = play_held_out(trainer, 0, EPISODES)
            curve.append({"tokens": spent, "success": played.success})
        if len(curve) == POINTS:
            raise Enough

    with tempfile.TemporaryDirectory() as place:
        config.checkpoint.output_dir = place
        trainer = PPOTrainer(config)
        trainer.callbacks.append(note)
        try:
            before = play_held_out(trainer, 0, EPISODES).success
            trainer.fit()
            raise RuntimeError(f"it was stopped after {spent:.0f} of {tokens} tokens")
        except Enough:
            last = play_held_out(trainer, EPISODES, FRESH)
        finally:
            trainer.cleanup()
    won = [episode.num_turns for episode in last.episodes if episode.success]
    return {
        "game": game,
        "seed": seed,
        "arm": arm,
        "before": before,
        "curve": curve,
        "mean": fmean(point["success"] for point in curve),
        "final": last.success,
        "turns_won": fmean(won) if won else None,
        "iterations": trainer.iteration,
        "cpu_s": round(process_time() - start, 1),
    }


def result(arguments: Sequence[str]) -> dict[str, Any]:
    what, game, seed, folder, model, *rest = arguments
    torch.set_num_threads(1)
    if what == "warm":
        return warm(game, int(seed), Path(folder), flags_for(model))
    return learn(game, int(seed), Path(folder), model, rest[0], int(rest[1]))
