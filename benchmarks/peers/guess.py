"""What both sides of a training comparison share: the game, the first weights and the clock.

GuessTheNumber from 1 to 10 in four turns, reward 1 for the number and -0.1 for a reply that cannot
be used, the whole conversation as context. The model is a Llama of 0.4M random weights that has
learned to write numbers; who imitated what is a function of the seed, and both sides load the same
folder. Success is measured alike on both sides, with the clock stopped.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from time import process_time
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from benchmarks.peers.episodes import BATCH, ENV_ID, ENV_KWARGS, MAX_TOKENS
from llm_gym_agents import ConfigStore, LLMPolicy, PPOTrainer, rollout
from llm_gym_agents.engines.base import Sampling
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from llm_gym_agents.model.load import tiny_llama
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
