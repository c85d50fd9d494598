"""TRL's side of ``trl_gpu.py``: ``GRPOTrainer`` with its own vLLM on the same card.

The episodes are those of ``trl_side.py``, played side by side; here TRL's engine replies, all
conversations that go on in one call, and its log-probs are handed over, so that TRL corrects for
what the engine computes otherwise.
"""

from __future__ import annotations

import argparse
import functools
import tempfile
from typing import Any

import torch
from datasets import Dataset
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer
from trl.generation import vllm_generation

from benchmarks.peers.episodes import BATCH, GROUP, Clock, Row, fields
from benchmarks.peers.trl_side import Player
from llm_gym_agents.model.load import load_model, load_tokenizer


class ServedPlayer(Player):
    """The loop of the CPU, with TRL's vLLM for replies; keeps the log-probs that it returns."""

    success = 0.0
    """Of the last batch."""
    served = True

    def __call__(self, prompts: list[str], trainer: Any) -> dict[str, Any]:
        """Play an episode for every prompt, which is its seed."""
        made = (
            self.served_fields(prompts, trainer)
            if self.served
            else super().__call__(prompts, trainer)
        )
        self.success = sum(score > 0.5 for score in made["score"]) / len(made["score"])
        return made

    def served_fields(self, prompts: list[str], trainer: Any) -> dict[str, Any]:
        """Return what ``rollout_func`` is asked for, played by the engine."""
        known: dict[int, list[float]] = {}
        rows = self.play(prompts, lambda going: self.ask(trainer, going, known))
        for row in rows:  # what the environment said behind the last reply, if anything
            found = known[id(row)]
            found += [0.0] * (len(row.completion) - len(found))
        return fields(rows) | {"logprobs": [known[id(row)] for row in rows]}

    def ask(self, trainer: Any, going: list[Row], known: dict[int, Any]) -> list[list[int]]:
        """Return the reply to each conversation; note its log-probs, and 0 for what was heard."""
        asked = [row.prompt + row.completion for row in going]
        _, replies, logprobs, _ = trainer.vllm_generation.generate(asked, None, 1)
        for row, found in zip(going, logprobs, strict=True):
            own = known.setdefault(id(row), [])
            own += [0.0] * (len(row.completion) - len(own)) + [each[0] for each in found]
        return list(map(list, replies))


class Watch(TrainerCallback):
    """Notes every batch, when the last of its steps is done."""

    def __init__(self, clock: Clock, player: ServedPlayer, steps: int) -> None:
        self.clock, self.player, self.steps = clock, player, steps

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Called by the trainer."""
        if state.global_step % self.steps == 0:
            self.clock.note(self.player.success)


def settings(args: argparse.Namespace, place: str, stop_ids: list[int]) -> GRPOConfig:
    """Return what a user would set: bfloat16, no reference, two steps of a batch, vLLM beside."""
    served = args.backend == "vllm"
    return GRPOConfig(
        output_dir=place,
        use_cpu=not torch.cuda.is_available(),
        bf16=torch.cuda.is_available(),
        seed=args.seed,
        max_steps=100_000,
        learning_rate=args.rate,
        lr_scheduler_type="constant",
        per_device_train_batch_size=BATCH // args.steps,
        steps_per_generation=args.steps,
        num_generations=GROUP,
        max_completion_length=args.reply,
        beta=0.0,
        gradient_checkpointing=False,
        save_strategy="no",
        logging_steps=10_000,
        report_to=[],
        disable_tqdm=True,
        use_vllm=served,
        vllm_mode="colocate",
        # On a GPU the size of the cache is given.
        vllm_gpu_memory_utilization=0.02 if torch.cuda.is_available() else 0.2,
        vllm_max_model_length=args.length,
        generation_kwargs={"stop_token_ids": stop_ids} if served else None,
    )


def train(args: argparse.Namespace) -> None:
    """Train until the clock ends the process."""
    tokenizer = load_tokenizer(str(args.folder))
    player = ServedPlayer(tokenizer, told=True)
    player.served = args.backend == "vllm"
    if player.served and torch.cuda.is_available():
        cache = {"kv_cache_memory_bytes": args.cache_gb << 30}
        vllm_generation.LLM = functools.partial(vllm_generation.LLM, **cache)
    with tempfile.TemporaryDirectory() as place:
        trainer = GRPOTrainer(
            load_model(str(args.folder), dtype="float32"),
            reward_funcs=lambda score, **kwargs: score,
            args=settings(args, place, list(player.chat.stop_ids)),
            train_dataset=Dataset.from_dict({"prompt": [str(at) for at in range(100_000)]}),
            processing_class=tokenizer,
            rollout_func=player,
        )
        clock = Clock(args.rows, args.seconds, BATCH)
        trainer.add_callback(Watch(clock, player, args.steps))
        trainer.train()
