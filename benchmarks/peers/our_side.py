"""Our side of ``trl_train.py``: one run. The last line of output is its result."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.peers.episodes import BATCH, GROUP
from benchmarks.peers.guess import Curve, config
from llm_gym_agents import ConfigStore, PPOTrainer
from llm_gym_agents.config.defaults import apply_defaults
from llm_gym_agents.config.profile import TaskProfile
from llm_gym_agents.model.load import load_model, load_tokenizer

SETTINGS: dict[str, dict[str, Any]] = {
    "4 passes, rate 2e-3": {"learning_rate": 2e-3},
    "4 passes, rate 3e-3": {"learning_rate": 3e-3},
    "4 passes, rate 2e-3, entropy 0.03": {"learning_rate": 2e-3, "entropy_coef": 0.03},
    "4 passes, rate 3e-3, entropy 0.03": {"learning_rate": 3e-3, "entropy_coef": 0.03},
    "2 passes, rate 3e-3": {"learning_rate": 3e-3, "ppo_epochs": 2},
    "grpo, 4 passes, rate 2e-3": {
        "learning_rate": 2e-3, "adv_estimator": "grpo", "group_size": GROUP,
        "estimator_settings": {"credit": "turn"},
    },
}  # fmt: skip
"""What was tried: differences from the defaults of an embedded model. Rewards are shaped, as they
are by default; the shaping adds up to 0, so the peer, which scores whole episodes, cannot see it.
"""


def settings(seed: int, setting: str, updates: int) -> ConfigStore:
    """Return the config of a run."""
    made = config(seed)
    kept = {"environment.env_kwargs.shaping", "inference.max_tokens", "inference.num_envs",
            "training.batch_size", "environment.eval_interval"}  # fmt: skip
    apply_defaults(made, TaskProfile(model="embedded", env="suite", move_chars=6), kept)
    made.warm_start.player, made.environment.stop_at_success = "none", None
    made.environment.eval_interval = 0
    made.training.num_epochs, made.training.num_iters_per_epoch = 1, updates
    made.training.mini_batch_size, made.training.ppo_epochs = BATCH // 2, 4
    made.environment.env_kwargs = {**made.environment.env_kwargs, "shaping": True}
    for name, value in SETTINGS[setting].items():
        setattr(made.training, name, value)
    return made


def result(arguments: Sequence[str]) -> dict[str, Any]:
    """Train as the command line says; return the row of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="of the model to begin with")
    parser.add_argument("seed", type=int)
    parser.add_argument("setting", choices=SETTINGS)
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--every", type=int, default=20, help="updates between two measurements")
    parser.add_argument("--episodes", type=int, default=400, help="of a measurement")
    args = parser.parse_args(arguments)
    torch.set_num_threads(1)
    made = settings(args.seed, args.setting, args.updates)
    lm, tokenizer = load_model(str(args.folder)), load_tokenizer(str(args.folder))
    with tempfile.TemporaryDirectory() as place:
        made.checkpoint.output_dir = place
        trainer = PPOTrainer(made, model=lm, tokenizer=tokenizer)
        curve = Curve(lm, tokenizer, args.every, args.episodes)
        sampled: list[float] = []
        trainer.callbacks.append(lambda trainer, row: sampled.append(row["episode/success"]))
        trainer.callbacks.append(lambda trainer, row: curve.note(trainer.iteration))
        trainer.fit()
        trainer.cleanup()
    told = {"side": "ours", "setting": args.setting, "seed": args.seed, "updates": args.updates}
    return told | {"sampled": sampled, "curve": curve.rows}


if __name__ == "__main__":
    print(json.dumps(result(sys.argv[1:])))
