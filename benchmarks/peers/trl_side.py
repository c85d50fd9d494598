"""TRL's side of ``trl.py``: one run of ``GRPOTrainer``. The last line is its result.

``rollout_func`` plays the 64 episodes of a batch together: every turn is one call of the model's
``generate``, or of TRL's vLLM, for all unfinished episodes. Observations are appended to the
completion with 0 in ``env_mask``. Rewards are the environment's, summed. TRL gets vLLM's log-probs
for its importance correction.
"""

from __future__ import annotations

import argparse
import functools
import os
import tempfile
from typing import Any

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
os.environ["MASTER_PORT"] = str(20_000 + os.getpid() % 20_000)  # runs in parallel need their own
import gymnasium as gym
import torch
from datasets import Dataset
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from benchmarks.peers.shared import (
    BATCH,
    ENV_ID,
    ENV_KWARGS,
    GROUP,
    Curve,
    Row,
    add_arguments,
    complete,
    padded,
    replies_in,
)
from llm_gym_agents.model.load import load_model, load_tokenizer
from llm_gym_agents.text.chat import ChatFormat

ARMS: dict[str, dict[str, Any]] = {
    "trl": {},
    "trl, compile": {"torch_compile": True},
    "trl, liger": {"use_liger_kernel": True},
}


class Player:
    """Plays batches of episodes for a trainer; on a GPU the model reads the rules."""

    success = 0.0
    """Success of the last batch."""

    def __init__(self, tokenizer: Any, args: argparse.Namespace) -> None:
        self.chat, self.pad = ChatFormat.from_tokenizer(tokenizer), tokenizer.pad_token_id
        self.args = args
        self.envs = [gym.make(ENV_ID, **ENV_KWARGS) for _ in range(BATCH)]

    def __call__(self, prompts: list[str], trainer: Any) -> dict[str, Any]:
        """Play an episode for every prompt, which is its seed."""
        rows = [
            Row(env, self.chat, int(seed), self.args.gpu)
            for env, seed in zip(self.envs, prompts, strict=True)
        ]
        while going := [row for row in rows if not row.done]:
            read = [row.prompt + row.completion for row in going]
            for row, reply, logprobs in zip(going, *self.reply(read, trainer), strict=True):
                row.move(reply, logprobs)
        self.success = sum(row.success for row in rows) / len(rows)
        return {
            "prompt_ids": [row.prompt for row in rows],
            "completion_ids": [row.completion for row in rows],
            "env_mask": [[int(turn >= 0) for turn in row.turns] for row in rows],
            "score": [sum(row.rewards) for row in rows],
            "logprobs": [row.logprobs for row in rows] if self.args.gpu else None,
        }

    def reply(self, read: list[list[int]], trainer: Any) -> tuple[Any, Any]:
        """Return a reply to each conversation and its log-probs, if they are known."""
        if not self.args.gpu:
            model = trainer.accelerator.unwrap_model(trainer.model)
            return self.generate(model, read), [[]] * len(read)
        _, replies, logprobs, _ = trainer.vllm_generation.generate(read, None, 1)
        return map(list, replies), ([each[0] for each in found] for found in logprobs)

    @torch.no_grad()
    def generate(self, model: Any, read: list[list[int]]) -> list[list[int]]:
        """Return the model's own reply to each conversation, left-padded."""
        asked = padded(read, self.pad)
        out = model.generate(
            **asked,
            do_sample=True,
            top_k=0,
            max_new_tokens=self.args.tokens,
            eos_token_id=list(self.chat.stop_ids),
            pad_token_id=self.pad,
        )
        return replies_in(out[:, asked["input_ids"].shape[1] :], self.chat)


class Watch(TrainerCallback):
    """Records every batch after its last step; ends the run when the time is over."""

    def __init__(self, curve: Curve, player: Player, steps: int) -> None:
        self.curve, self.player, self.steps = curve, player, steps

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step % self.steps == 0 and self.curve.note(self.player.success):
            self.curve.finish()


def settings(args: argparse.Namespace, place: str, stop_ids: list[int]) -> GRPOConfig:
    """Return the settings of a typical user: no reference model; on a GPU bfloat16 and vLLM."""
    vllm: dict[str, Any] = {
        "use_vllm": True,
        "vllm_mode": "colocate",
        "vllm_gpu_memory_utilization": 0.02,  # the size of the cache is given
        "vllm_max_model_length": args.vllm["max_model_len"],
        "generation_kwargs": {"stop_token_ids": stop_ids},
    }
    return GRPOConfig(
        output_dir=place,
        use_cpu=not args.gpu,
        bf16=args.gpu,
        seed=args.seed,
        max_steps=1_000_000,
        learning_rate=args.rate,
        lr_scheduler_type="constant",
        per_device_train_batch_size=BATCH // args.parts,
        steps_per_generation=args.parts,
        num_iterations=args.passes,
        num_generations=GROUP,
        max_completion_length=args.tokens if args.gpu else 128,
        entropy_coef=args.entropy,
        beta=0.0,
        gradient_checkpointing=False,
        save_strategy="no",
        logging_steps=1_000_000,
        report_to=[],
        disable_tqdm=True,
        **(vllm if args.gpu else {}),
        **ARMS[args.what],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=ARMS)
    add_arguments(parser)
    args = complete(parser.parse_args())
    torch.set_num_threads(1)
    lm, tokenizer = load_model(str(args.folder), dtype="float32"), load_tokenizer(str(args.folder))
    player = Player(tokenizer, args)
    if args.gpu:
        from trl.generation import vllm_generation

        cache = {"kv_cache_memory_bytes": args.vllm["cache_gb"] << 30}
        vllm_generation.LLM = functools.partial(vllm_generation.LLM, **cache)
    first = args.seed * 1_000_000 + 10_000_000
    with tempfile.TemporaryDirectory() as place:
        trainer = GRPOTrainer(
            lm,
            reward_funcs=lambda score, **kwargs: score,
            args=settings(args, place, list(player.chat.stop_ids)),
            train_dataset=Dataset.from_dict({"prompt": [str(first + at) for at in range(100_000)]}),
            processing_class=tokenizer,
            rollout_func=player,
        )
        curve = Curve(lm, tokenizer, args)
        trainer.add_callback(Watch(curve, player, args.parts * args.passes))
        trainer.train()


if __name__ == "__main__":
    main()
