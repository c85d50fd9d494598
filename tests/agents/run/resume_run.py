"""Small training runs that are killed with ``kill -9`` and resumed.

``python resume_run.py FOLDER VARIANT ...`` runs each variant whole and then killed at several
moments, in forks of one process: the imports take longer than the runs. It writes, as JSON, what
each kill did to the numbers.
"""

import json
import os
import signal
import sys
from functools import partial

from llm_gym_agents.commands import train
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.learn.ppo import PPO
from llm_gym_agents.rollouts.policy import LLMPolicy
from llm_gym_agents.run.checkpoints import Checkpoints
from llm_gym_agents.run.metrics import MetricsLog, read_metrics
from llm_gym_agents.trainer.ppo_trainer import PPOTrainer
from tests.agents.run.checkpoint_run import die_at, in_fork, report
from tests.agents.small_run import untimed

BASE = {
    "environment": {
        "env_id": "llm_gym/Echo-v0",
        "env_kwargs": {"rules": "system"},
        "eval_interval": 2,
        "eval_episodes": 3,
    },
    "inference": {"num_envs": 3, "max_tokens": 3, "max_turns": 3},
    "training": {
        "num_epochs": 2,
        "num_iters_per_epoch": 2,
        "batch_size": 4,
        "mini_batch_size": 2,
        "learning_rate": 1e-2,
        "entropy_coef": 0.1,
    },
    "checkpoint": {"keep_last_n": 2},
}
VARIANTS = {
    "gae": {"training": {"lr_schedule": "linear", "warmup_iters": 1, "critic_warmup_iters": 1}},
    "grpo": {"training": {"adv_estimator": "grpo", "group_size": 2, "kl": "reward"}},
    "lora": {"model": {"lora_rank": 2}, "training": {"kl": "loss"}},
    "separate": {"model": {"critic": "separate"}, "training": {"adv_estimator": "gae_turn"}},
    "guards": {
        "model": {"critic": "detached"},
        "training": {
            "group_size": 2,
            "resample_zero_variance_groups": 2,
            "normalise_values": True,
            "max_learned_turns": 1,
        },
    },
}
MOMENTS = {
    "play": (LLMPolicy, "forward", 5),
    "play later": (LLMPolicy, "forward", 12),
    "step": (PPO, "_gradients", 3),
    "next step": (PPO, "_gradients", 6),
    "step later": (PPO, "_gradients", 11),
    "evaluation": (PPOTrainer, "evaluate", 2),
    "row": (MetricsLog, "log", 3),
    "before save": (Checkpoints, "save", 1),
    "save": 12,
    "later in a save": 60,
}
"""Just before which call a run dies, or before which touch of its checkpoints."""


def settings(folder, variant):
    config = ConfigStore.from_dict(BASE)
    config.update(VARIANTS[variant])
    config.checkpoint.output_dir, config.checkpoint.resume = str(folder), True
    return config


def fit(folder, variant, moment=None):
    if moment is not None:
        arm(folder, MOMENTS[moment])
    PPOTrainer(settings(folder, variant)).fit()


def arm(folder, moment):
    """Make this process kill itself at ``moment``."""
    if isinstance(moment, int):
        die_at(folder / "checkpoints", moment)
        return
    owner, name, number = moment
    called, real = 0, getattr(owner, name)

    def deadly(*args, **kwargs):
        nonlocal called
        called += 1
        if called == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **kwargs)

    setattr(owner, name, deadly)


def outcome(folder):
    """What a run came to, without the times."""
    rows = untimed(read_metrics(folder))
    latest = Checkpoints(folder / "checkpoints").latest()
    values = json.loads((latest / "trainer.json").read_text())
    for where, name in ((values["parts"]["run"], "elapsed_s"), (values["config"], "checkpoint")):
        del where[name]
    files = [latest / "model/model.safetensors", latest / "trainer.safetensors"]
    names = sorted(path.name for path in (folder / "checkpoints").iterdir())
    return [rows, latest.name, values, names, *(path.read_bytes() for path in files)]


def compare(variant, moments, folder):
    """Return how each kill ended, and whether the resumed run is the whole one's equal."""
    command = variant in ("gae", "lora")
    whole = folder / "whole"
    assert in_fork(lambda: fit(whole, variant)) == 0
    expected = outcome(whole)
    moving = ("train/lr", "value/scale_mean")
    found = {name: [row.get(name) for row in expected[0]] for name in moving}
    assert len({row["policy/entropy"] for row in expected[0]}) == 4, "nothing was learnt"
    for moment in moments:
        run = folder / moment.replace(" ", "-")
        killed = in_fork(lambda run=run, moment=moment: fit(run, variant, moment))
        by_command = command and Checkpoints(run / "checkpoints").latest() is not None
        resume = (
            (lambda run=run: train.resume([str(run)]))
            if by_command
            else (lambda run=run: fit(run, variant))
        )
        resumed = in_fork(resume)
        found[moment] = {
            "killed": killed == -signal.SIGKILL,
            "resumed": resumed == 0,
            "different": [
                at for at, (a, b) in enumerate(zip(expected, outcome(run), strict=True)) if a != b
            ],
            "command": by_command,
        }
    return found


if __name__ == "__main__":
    variants = dict(each.partition(":")[::2] for each in sys.argv[2:])
    report(
        sys.argv[1],
        {
            name: partial(compare, name, some.split(",") if some else MOMENTS)
            for name, some in variants.items()
        },
    )
