"""One side of ``trl_gpu.py``: SmolLM2 learns GuessTheNumber on one GPU, with vLLM.

    python -m benchmarks.peers.gpu_side start MODEL FOLDER     # a warm start, for both
    python -m benchmarks.peers.gpu_side ours FOLDER ROWS.jsonl --seconds 100
    python -m benchmarks.peers.gpu_side trl FOLDER ROWS.jsonl --seconds 100

Both play 64 episodes, 8 from each start with GRPO, and report the success of every batch as it was
sampled, with the seconds since the first batch began. Rows are appended as they come.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
import torch

from benchmarks.peers.episodes import BATCH, ENV_ID, ENV_KWARGS, Clock
from llm_gym_agents import ConfigStore, PPOTrainer
from llm_gym_agents.commands.plan import profile_task
from llm_gym_agents.config.defaults import apply_defaults
from llm_gym_agents.run.checkpoint_weights import save_lm

REPLY = 8
"""Most tokens of a reply, on both sides."""
MODEL_LENGTH = 1024


def settings(args: argparse.Namespace) -> ConfigStore:
    """Return what ``llm-gym train --model.model-name`` would choose, with the shared batch."""
    made = ConfigStore()
    made.environment.env_id, made.environment.env_kwargs = ENV_ID, ENV_KWARGS
    made.model.model_name, made.training.seed = str(args.folder), args.seed
    made.training.batch_size, made.inference.max_tokens = BATCH, REPLY
    made.training.mini_batch_size = BATCH // args.steps
    made.training.learning_rate = args.rate
    chosen = {
        "environment.env_kwargs.shaping", "training.batch_size", "training.mini_batch_size",
        "training.learning_rate", "inference.max_tokens",
    }  # fmt: skip
    apply_defaults(made, profile_task(made), chosen)
    made.training.lr_schedule, made.warm_start.player = "constant", "none"
    made.training.num_epochs, made.training.num_iters_per_epoch = 1, 10_000
    made.environment.eval_interval = made.checkpoint.save_interval = 0
    made.checkpoint.record_every = 0
    return made


def start(args: argparse.Namespace) -> None:
    """Teach the model to answer with a number; leave it in bfloat16, as both will load it."""
    made = settings(args)
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
    """Train until the clock ends the process."""
    made = settings(args)
    made.inference.backend = args.backend
    if args.backend == "vllm":
        made.inference.engine = {"cache_gb": args.cache_gb, "max_model_len": args.length}
        made.inference.engine["sleeps"] = False
    with tempfile.TemporaryDirectory() as place:
        made.checkpoint.output_dir = place
        trainer = PPOTrainer(made)
        clock = Clock(args.rows, args.seconds, BATCH)
        trainer.callbacks.append(
            lambda trainer, row: clock.note(
                row["episode/success"],
                **{
                    name: row[name] for name in row if name.startswith(("time/", "gpu/", "engine/"))
                },
            )
        )
        trainer.fit()


def trl(args: argparse.Namespace) -> None:
    """The same with TRL, which is imported by this side alone."""
    from benchmarks.peers.trl_gpu_side import train

    train(args)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("start", "ours", "trl"))
    parser.add_argument("folder", type=Path, help="of the model")
    parser.add_argument("rows", type=Path, help="where rows go; of a start, the new folder")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=100.0, help="of training")
    parser.add_argument("--rate", type=float, default=2e-5)
    parser.add_argument("--steps", type=int, default=2, help="optimizer steps of a batch")
    parser.add_argument("--warm-steps", type=int, default=60)
    parser.add_argument("--cache-gb", type=int, default=8, help="of vLLM")
    parser.add_argument("--backend", choices=("vllm", "transformers"), default="vllm")
    args = parser.parse_args()
    args.reply, args.length = REPLY, MODEL_LENGTH
    {"start": start, "ours": ours, "trl": trl}[args.what](args)


if __name__ == "__main__":
    main()
