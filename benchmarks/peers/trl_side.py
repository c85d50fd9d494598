"""TRL's side of ``trl_train.py``: one run of ``GRPOTrainer``. The last line is its result.

``rollout_func`` plays the 64 episodes of a batch side by side: every turn is one call of the
model's ``generate`` on the conversations that go on, left-padded; what the environment says is
appended to the completion with 0 in ``env_mask``. Rewards are the environment's, summed.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
import gymnasium as gym
import torch
from datasets import Dataset
from transformers import TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from benchmarks.peers.episodes import BATCH, ENV_ID, ENV_KWARGS, GROUP, MAX_TOKENS, Row, fields
from benchmarks.peers.guess import Curve
from llm_gym_agents.model.load import load_model, load_tokenizer
from llm_gym_agents.text.chat import ChatFormat

SETTINGS = {
    "rate 1e-3": {"learning_rate": 1e-3},
    "rate 2e-3": {"learning_rate": 2e-3},
    "4 steps, rate 1e-3": {"learning_rate": 1e-3, "steps_per_generation": 4},
    "4 steps, rate 2e-3": {"learning_rate": 2e-3, "steps_per_generation": 4},
    "8 steps, rate 1e-3": {"learning_rate": 1e-3, "steps_per_generation": 8},
    "4 passes, rate 1e-3": {
        "learning_rate": 1e-3, "steps_per_generation": 2, "num_iterations": 4
    },
}  # fmt: skip
"""What was tried: the rate, optimizer steps of a batch, passes over it. Entropy 0.01 throughout.
Rates of 3e-4 and below did not move in 240 batches.
"""


class Player:
    """Plays batches of episodes for a trainer; ``told`` says whether the model reads the rules."""

    def __init__(self, tokenizer: Any, told: bool = False) -> None:
        self.chat, self.pad = ChatFormat.from_tokenizer(tokenizer), tokenizer.pad_token_id
        self.told = told
        self.envs = [gym.make(ENV_ID, **ENV_KWARGS) for _ in range(BATCH)]

    def __call__(self, prompts: list[str], trainer: Any) -> dict[str, Any]:
        """Play an episode for every prompt, which is its seed."""
        model = trainer.accelerator.unwrap_model(trainer.model)
        rows = self.play(prompts, lambda going: self.generate(model, going))
        return fields(rows) | {"logprobs": None}

    def play(self, prompts: list[str], reply: Callable[[list[Row]], list[list[int]]]) -> list[Row]:
        """Play to the end, everybody's turn at once."""
        rows = [
            Row(env, self.chat, int(seed), self.told)
            for env, seed in zip(self.envs, prompts, strict=True)
        ]
        going = rows
        while going:
            for row, said in zip(going, reply(going), strict=True):
                row.move(said)
            going = [row for row in going if not row.done]
        return rows

    @torch.no_grad()
    def generate(self, model: Any, rows: list[Row]) -> list[list[int]]:
        """Return the reply of each conversation."""
        read = [row.prompt + row.completion for row in rows]
        longest = max(map(len, read))
        ids = torch.tensor([[self.pad] * (longest - len(each)) + each for each in read])
        mask = torch.tensor([[0] * (longest - len(each)) + [1] * len(each) for each in read])
        out = model.generate(
            input_ids=ids,
            attention_mask=mask,
            do_sample=True,
            top_k=0,
            max_new_tokens=MAX_TOKENS,
            eos_token_id=list(self.chat.stop_ids),
            pad_token_id=self.pad,
        )[:, longest:].tolist()
        for reply in out:
            ends = [at for at, token in enumerate(reply) if token in self.chat.stop_ids]
            del reply[ends[0] + 1 if ends else len(reply) :]
        return out


class Watch(TrainerCallback):
    """Measures after every batch of episodes."""

    def __init__(self, curve: Curve, steps: int) -> None:
        self.curve, self.steps = curve, steps

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Note a point, when the last step of a batch is done."""
        if state.global_step % self.steps == 0:
            self.curve.note(state.global_step // self.steps)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="of the model to begin with")
    parser.add_argument("seed", type=int)
    parser.add_argument("setting", choices=SETTINGS)
    parser.add_argument("--updates", type=int, default=450, help="batches of 64 episodes")
    parser.add_argument("--every", type=int, default=30, help="updates between two measurements")
    parser.add_argument("--episodes", type=int, default=400, help="of a measurement")
    args = parser.parse_args()
    torch.set_num_threads(1)
    asked = {"steps_per_generation": 1, "num_iterations": 1} | SETTINGS[args.setting]
    steps = asked["steps_per_generation"] * asked["num_iterations"]
    lm, tokenizer = load_model(str(args.folder)), load_tokenizer(str(args.folder))
    first = args.seed * 1_000_000
    seeds = [str(first + at) for at in range(args.updates * BATCH // GROUP)]
    with tempfile.TemporaryDirectory() as place:
        config = GRPOConfig(
            output_dir=place,
            use_cpu=True,
            bf16=False,
            seed=args.seed,
            max_steps=args.updates * steps,
            per_device_train_batch_size=BATCH // asked["steps_per_generation"],
            num_generations=GROUP,
            max_completion_length=128,
            entropy_coef=0.01,
            beta=0.0,
            gradient_checkpointing=False,
            save_strategy="no",
            logging_steps=10_000,
            report_to=[],
            disable_tqdm=True,
            **asked,
        )
        trainer = GRPOTrainer(
            lm,
            reward_funcs=lambda score, **kwargs: score,
            args=config,
            train_dataset=Dataset.from_dict({"prompt": seeds}),
            processing_class=tokenizer,
            rollout_func=Player(tokenizer),
        )
        curve = Curve(lm, tokenizer, args.every, args.episodes)
        trainer.add_callback(Watch(curve, steps))
        trainer.train()
    told = {"side": "trl", "setting": args.setting, "seed": args.seed, "updates": args.updates}
    print(json.dumps(told | {"curve": curve.rows}))


if __name__ == "__main__":
    main()
