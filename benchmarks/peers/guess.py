"""What both sides of ``trl_train.py`` share: the game, the first weights and the clock; our side.

GuessTheNumber from 1 to 10 in four turns, reward 1 for the number and -0.1 for a reply that cannot
be used, the whole conversation as context. The model is a Llama of 0.4M random weights that has
learned to write numbers; who imitated what is a function of the seed, and both sides load the same
folder. Success is measured alike on both sides, with the clock stopped. ``result`` is one run of
our side.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import process_time
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from benchmarks.peers.episodes import BATCH, ENV_ID, ENV_KWARGS, GROUP, MAX_TOKENS
from llm_gym_agents import ConfigStore, LLMPolicy, PPOTrainer, rollout
from llm_gym_agents.config.defaults import apply_defaults
from llm_gym_agents.config.profile import TaskProfile
from llm_gym_agents.engines.base import Sampling
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from llm_gym_agents.model.load import load_model, load_tokenizer, tiny_llama
from llm_gym_agents.run.checkpoint_weights import save_lm
from llm_gym_agents.text.chat import ChatFormat
from llm_gym_agents.trainer.build import tiny_tokenizer

WIDTH = 128
HELD_OUT = 5_000_000
"""Seed of the first episode that success is measured on; training stays below."""


def config(seed: int) -> ConfigStore:
    """Return what our side needs to play this game with this model."""
    made = ConfigStore()
    made.environment.env_id, made.environment.env_kwargs = ENV_ID, ENV_KWARGS
    made.environment.eval_interval = 0
    made.inference.max_tokens, made.inference.num_envs = MAX_TOKENS, BATCH
    made.inference.system_prompt = ""
    made.training.seed, made.training.batch_size = seed, BATCH
    made.checkpoint.record_every = made.checkpoint.save_interval = 0
    return made


def start(folder: Path, seed: int) -> dict[str, Any]:
    """Leave the model that both sides begin with in ``folder``."""
    tokenizer = tiny_tokenizer({ENV_ID: ENV_KWARGS})
    lm = tiny_llama(tokenizer, hidden_size=WIDTH, spread=WIDTH**-0.5, seed=seed, context_length=256)
    made = config(seed)
    made.warm_start.player, made.warm_start.steps = "random", 250
    with tempfile.TemporaryDirectory() as place:
        made.checkpoint.output_dir = place
        trainer = PPOTrainer(made, model=lm, tokenizer=tokenizer)
        trainer.warm_up()
        trainer.cleanup()
    save_lm(folder, lm, tokenizer)
    return {"weights": lm.num_parameters(), "success": held_out(lm, tokenizer, 400)}


def held_out(lm: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, episodes: int) -> float:
    """Return the success of ``lm`` over ``episodes``, sampled as in training."""
    was_training = lm.training
    policy = LLMPolicy(
        TransformersEngine(lm, tokenizer=tokenizer),
        ChatFormat.from_tokenizer(tokenizer),
        sampling=Sampling(max_tokens=MAX_TOKENS),
        system_prompt="",
    )
    done = rollout(ENV_ID, policy, episodes, num_envs=128, seed=HELD_OUT, env_kwargs=ENV_KWARGS)
    lm.train(was_training)
    return done.success


class Curve:
    """Success against updates, episodes and CPU seconds."""

    def __init__(
        self, lm: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, every: int, episodes: int
    ) -> None:
        self.rows: list[dict[str, float]] = []
        self._lm, self._tokenizer, self._every, self._size = lm, tokenizer, every, episodes
        self._begun, self._stopped_s = process_time(), 0.0
        self.note(0)

    def note(self, updates: int) -> None:
        """Measure after as many updates, if it is time to."""
        if updates % self._every:
            return
        now = process_time()
        took = now - self._begun - self._stopped_s
        success = held_out(self._lm, self._tokenizer, self._size)
        self._stopped_s += process_time() - now
        row = {"updates": updates, "episodes": updates * BATCH, "cpu_s": round(took, 2)}
        self.rows.append(row | {"success": success})


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
    """Make the first weights, or train from them; return the row of it."""
    torch.set_num_threads(1)
    what, *arguments = arguments
    if what == "start":
        return start(Path(arguments[0]), int(arguments[1]))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="of the model to begin with")
    parser.add_argument("seed", type=int)
    parser.add_argument("setting", choices=SETTINGS)
    parser.add_argument("--updates", type=int, default=300)
    parser.add_argument("--every", type=int, default=20, help="updates between two measurements")
    parser.add_argument("--episodes", type=int, default=400, help="of a measurement")
    args = parser.parse_args(arguments)
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
