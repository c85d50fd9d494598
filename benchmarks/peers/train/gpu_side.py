"""One side of ``trl_gpu.py``: SmolLM2 learns GuessTheNumber on one GPU, with vLLM.

    python benchmarks/peers/train/gpu_side.py start MODEL FOLDER     # a warm start, for both
    python benchmarks/peers/train/gpu_side.py ours FOLDER ROWS.jsonl --seconds 100
    python benchmarks/peers/train/gpu_side.py trl FOLDER ROWS.jsonl --seconds 100

Both play 64 episodes, 8 from each start, and report the success of every batch as it was sampled,
with the seconds since the first batch began. Rows are appended as they come.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
import torch

sys.path.insert(0, str(Path(__file__).parent))
from episodes import BATCH, ENV_ID, ENV_KWARGS, GROUP, Row, fields

from llm_gym_agents import ConfigStore, PPOTrainer
from llm_gym_agents.checkpoint import save_lm
from llm_gym_agents.config.defaults import apply_defaults
from llm_gym_agents.config.situation import look
from llm_gym_agents.lm.load import load_model, load_tokenizer

REPLY = 8
"""Most tokens of a reply, on both sides."""
MODEL_LENGTH = 1024


class Clock:
    """Writes a row for each batch; ends the process when its time is over."""

    def __init__(self, path: Path, seconds: float) -> None:
        self.path, self.seconds, self.updates = path, seconds, 0
        self.begun = perf_counter()

    def note(self, success: float, **more: float) -> None:
        """Note a batch that was played and learned from."""
        self.updates += 1
        took = perf_counter() - self.begun
        row = {"updates": self.updates, "episodes": self.updates * BATCH, "seconds": took}
        with self.path.open("a") as file:
            file.write(json.dumps(row | {"success": success} | more) + "\n")
        if took > self.seconds:
            sys.stdout.flush()
            os._exit(0)  # engines of both sides have processes that would be waited for


def settings(args: argparse.Namespace, folder: Path) -> ConfigStore:
    """Return what ``llm-gym train --model.local-path`` would choose, with the shared batch."""
    made = ConfigStore()
    made.environment.env_id, made.environment.env_kwargs = ENV_ID, ENV_KWARGS
    made.model.local_path, made.training.seed = str(folder), args.seed
    chosen = {"environment.env_kwargs.shaping", "training.batch_size", "inference.max_tokens"}
    made.training.batch_size, made.inference.max_tokens = BATCH, REPLY
    apply_defaults(made, look(made), chosen)
    made.training.lr_schedule, made.warm_start.player = "constant", "none"
    made.training.num_epochs, made.training.num_iters_per_epoch = 1, 10_000
    made.environment.eval_interval = made.checkpoint.save_interval = 0
    made.checkpoint.record_every, made.checkpoint.save_best = 0, False
    return made


def start(args: argparse.Namespace) -> None:
    """Teach the model to answer with a number; leave it in bfloat16, as both will load it."""
    made = settings(args, args.folder)
    made.warm_start.player = "random"
    made.warm_start.steps, made.environment.eval_episodes = args.warm_steps, BATCH
    with tempfile.TemporaryDirectory() as place:
        made.checkpoint.output_dir = place
        trainer = PPOTrainer(made)
        trainer.warm_up(print)
        lm = trainer.learner.lm.to(dtype=torch.bfloat16)
        save_lm(args.rows, lm, trainer.tokenizer)
        trainer.cleanup()


def ours(args: argparse.Namespace) -> None:
    made = settings(args, args.folder)
    made.inference.backend = args.backend
    if args.backend == "vllm":
        made.inference.engine = {
            "gpu_memory_utilization": args.memory, "max_model_len": MODEL_LENGTH
        }  # fmt: skip
    if args.rate:
        made.training.learning_rate = args.rate
    with tempfile.TemporaryDirectory() as place:
        made.checkpoint.output_dir = place
        trainer = PPOTrainer(made)
        clock = Clock(args.rows, args.seconds)
        trainer.callbacks.append(
            lambda trainer, row: clock.note(
                row["episode/success"],
                **{name: row[name] for name in row if name.startswith("time/")},
            )
        )
        trainer.fit()


def trl(args: argparse.Namespace) -> None:
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer
    from trl_side import Player

    tokenizer = load_tokenizer(str(args.folder))
    served = args.backend == "vllm"

    class ServedPlayer(Player):
        """The same loop with TRL's vLLM for replies; keeps the log-probs that it returns."""

        def __call__(self, prompts: list[str], trainer: Any) -> dict[str, Any]:
            if not served:
                made = super().__call__(prompts, trainer)
            else:
                logprobs: dict[int, list[float]] = {}
                rows = self.play(prompts, lambda going: self.ask(trainer, going, logprobs))
                for row in rows:  # what the environment said behind the last reply, if anything
                    found = logprobs[id(row)]
                    found += [0.0] * (len(row.completion) - len(found))
                made = fields(rows) | {"logprobs": [logprobs[id(row)] for row in rows]}
            self.success = sum(score > 0.5 for score in made["score"]) / len(made["score"])
            return made

        def ask(self, trainer: Any, going: list[Row], known: dict[int, Any]) -> list[list[int]]:
            asked = [row.prompt + row.completion for row in going]
            _, replies, logprobs, _ = trainer.vllm_generation.generate(asked, None, 1)
            for row, found in zip(going, logprobs, strict=True):
                own = known.setdefault(id(row), [])
                own += [0.0] * (len(row.completion) - len(own)) + [each[0] for each in found]
            return list(map(list, replies))

    class Watch(TrainerCallback):
        def on_step_end(self, config: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step % args.steps == 0:
                clock.note(player.success)

    player = ServedPlayer(tokenizer, told=True)
    with tempfile.TemporaryDirectory() as place:
        config = GRPOConfig(
            output_dir=place,
            use_cpu=not torch.cuda.is_available(),
            bf16=torch.cuda.is_available(),
            seed=args.seed,
            max_steps=100_000,
            learning_rate=args.rate or 2e-5,
            lr_scheduler_type="constant",
            per_device_train_batch_size=BATCH // args.steps,
            steps_per_generation=args.steps,
            num_generations=GROUP,
            max_completion_length=REPLY,
            beta=0.0,
            gradient_checkpointing=False,
            save_strategy="no",
            logging_steps=10_000,
            report_to=[],
            disable_tqdm=True,
            use_vllm=served,
            vllm_mode="colocate",
            vllm_gpu_memory_utilization=args.memory,
            vllm_max_model_length=MODEL_LENGTH,
            generation_kwargs={"stop_token_ids": list(player.chat.stop_ids)} if served else None,
        )
        trainer = GRPOTrainer(
            load_model(str(args.folder), dtype="float32"),
            reward_funcs=lambda score, **kwargs: score,
            args=config,
            train_dataset=Dataset.from_dict({"prompt": [str(at) for at in range(100_000)]}),
            processing_class=tokenizer,
            rollout_func=player,
        )
        clock = Clock(args.rows, args.seconds)
        trainer.add_callback(Watch())
        trainer.train()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("start", "ours", "trl"))
    parser.add_argument("folder", type=Path, help="of the model")
    parser.add_argument("rows", type=Path, help="where rows go; of a start, the new folder")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=100.0, help="of training")
    parser.add_argument("--rate", type=float, help="2e-5 unless given")
    parser.add_argument("--steps", type=int, default=2, help="optimizer steps of a batch, of TRL")
    parser.add_argument("--warm-steps", type=int, default=60)
    parser.add_argument("--memory", type=float, default=0.25, help="share of the card for vLLM")
    parser.add_argument("--backend", choices=("vllm", "transformers"), default="vllm")
    args = parser.parse_args()
    {"start": start, "ours": ours, "trl": trl}[args.what](args)


if __name__ == "__main__":
    main()
