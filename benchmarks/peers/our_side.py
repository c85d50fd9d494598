"""Our side of ``trl.py``: the first weights of both, or a run of ``PPOTrainer`` from them.

    python -m benchmarks.peers.our_side start FOLDER --seed 0 [--model SMOLLM2]
    python -m benchmarks.peers.our_side ppo FOLDER --rate 2e-3 --passes 4

The last line is the result. Settings are those of ``llm-gym train`` but for the shared batch,
learning rate, passes, entropy bonus and length of replies.
"""

from __future__ import annotations

import argparse
import tempfile
from typing import Any

import torch

from benchmarks.peers.shared import BATCH, ENV_ID, ENV_KWARGS, GROUP, Curve, add_arguments, complete
from llm_gym_agents import ConfigStore, PPOTrainer
from llm_gym_agents.commands.plan import choose
from llm_gym_agents.model.load import load_model, load_tokenizer, tiny_llama
from llm_gym_agents.run.checkpoint_weights import save_lm
from llm_gym_agents.trainer.build import tiny_tokenizer

ARMS: dict[str, tuple[bool, dict[str, Any]]] = {
    "ppo": (True, {}),
    "ppo, unshaped": (False, {}),
    "grpo": (False, {"adv_estimator": "grpo", "group_size": GROUP}),
}
"""Arm → whether rewards are shaped, and settings of ``training``."""
WIDTH, WARM_STEPS, GPU_WARM_STEPS = 128, 250, 60


def settings(args: argparse.Namespace) -> ConfigStore:
    made = ConfigStore()
    shaped, own = ARMS.get(args.what, (False, {}))
    chosen = {
        "training.batch_size": BATCH,
        "training.mini_batch_size": BATCH // args.parts,
        "training.ppo_epochs": args.passes,
        "training.learning_rate": args.rate,
        "training.entropy_coef": args.entropy,
        "training.lr_schedule": "constant",
        "inference.max_tokens": args.tokens,
        "inference.num_envs": BATCH,
        "environment.eval_interval": 0,
        "checkpoint.save_interval": 0,
        "checkpoint.record_every": 0,
        "warm_start.player": "none",
    } | {f"training.{name}": value for name, value in own.items()}
    if not args.gpu:
        chosen["inference.system_prompt"] = ""
    for name, value in chosen.items():
        section, _, field = name.partition(".")
        setattr(getattr(made, section), field, value)
    made.environment.env_id = ENV_ID
    made.environment.env_kwargs = {**ENV_KWARGS, "shaping": shaped}
    made.training.seed = args.seed
    if args.gpu:  # the tiny model has the defaults of the embedded one, and is handed over
        made.model.model_name = args.model or str(args.folder)
    choose(
        made, {*chosen, *(f"environment.env_kwargs.{name}" for name in (*ENV_KWARGS, "shaping"))}
    )
    made.training.num_epochs, made.training.num_iters_per_epoch = 1, 1_000_000
    made.environment.stop_at_success = None
    if args.gpu and args.what != "start":
        made.inference.backend = "vllm"
        made.inference.engine = {**args.vllm, "sleeps": False}
    return made


def start(args: argparse.Namespace) -> None:
    """Save the model that both sides start from: it has imitated random moves."""
    lm = tokenizer = None
    if not args.model:
        tokenizer = tiny_tokenizer({ENV_ID: ENV_KWARGS})
        made = {"hidden_size": WIDTH, "spread": WIDTH**-0.5, "context_length": 256}
        lm = tiny_llama(tokenizer, seed=args.seed, **made)
    config = settings(args)
    config.warm_start.player = "random"
    config.warm_start.steps = GPU_WARM_STEPS if args.gpu else WARM_STEPS
    with tempfile.TemporaryDirectory() as place:
        config.checkpoint.output_dir = place
        trainer = PPOTrainer(config, model=lm, tokenizer=tokenizer)
        trainer.warm_up()
        lm = trainer.learner.lm.to(dtype=torch.bfloat16) if args.gpu else trainer.learner.lm
        save_lm(args.folder, lm, trainer.tokenizer)
        trainer.cleanup()
    print(f'\n{{"weights": {lm.num_parameters()}}}')


def train(args: argparse.Namespace) -> None:
    config = settings(args)
    lm, tokenizer = (None, None)
    if not args.gpu:
        lm, tokenizer = load_model(str(args.folder)), load_tokenizer(str(args.folder))
    with tempfile.TemporaryDirectory() as place:
        config.checkpoint.output_dir = place
        trainer = PPOTrainer(config, model=lm, tokenizer=tokenizer)
        curve = Curve(trainer.learner.lm, trainer.tokenizer, args)

        def note(trainer: PPOTrainer, row: dict[str, float]) -> None:
            if curve.note(row["episode/success"]):
                curve.finish()

        trainer.callbacks.append(note)
        trainer.fit()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("start", *ARMS))
    parser.add_argument("--model", default="", help="to start with; an own tiny one unless given")
    add_arguments(parser)
    args = complete(parser.parse_args())
    torch.set_num_threads(1)
    (start if args.what == "start" else train)(args)


if __name__ == "__main__":
    main()
