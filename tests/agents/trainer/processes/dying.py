"""A run for ``torchrun`` in which one process is killed once, in the middle of an update.

``python dying.py FOLDER MODE RANK ITERATION [FLAGS]``. The kill is a real SIGKILL, sent when that
rank is about to take the optimizer step of that iteration; the file ``killed`` in FOLDER keeps it
to one.
"""

import os
import signal
import sys
from pathlib import Path

from llm_gym.cli import main
from llm_gym_agents.learn.ppo import PPO

SETTINGS = {
    "training.num-epochs": 4,
    "training.num-iters-per-epoch": 1,
    "training.batch-size": 4,
    "training.mini-batch-size": 4,
    "training.ppo-epochs": 1,
    "checkpoint.save-interval": 1,
    "inference.max-tokens": 3,
    "inference.num-envs": 2,
    "environment.eval-episodes": 2,
    "environment.eval-interval": 0,
    "warm-start.player": "none",
}


def die_once(folder, rank, iteration):
    """Let the process of ``rank`` die in the update of ``iteration``, counted from 1."""
    step, seen = PPO._gradients, []
    mark = Path(folder) / "killed"

    def deadly(self, *args, **how):
        seen.append(None)
        own = int(os.environ.get("RANK", "0")) == rank
        if own and len(seen) == iteration and not mark.exists():
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return step(self, *args, **how)

    PPO._gradients = deadly


def arguments(folder, mode):
    flags = [text for name, value in SETTINGS.items() for text in (f"--{name}", str(value))]
    where = ["--checkpoint.output-dir", f"{folder}/run", "--parallel.mode", mode]
    return ["train", "llm_gym/Echo-v0", *flags, *where]


if __name__ == "__main__":
    place, how, who, when, *more = sys.argv[1:]
    die_once(place, int(who), int(when))
    sys.exit(main([*arguments(place, how), *more]))
