"""``Echo`` that kills or blocks the process that plays it: once for each of some seeds, or always.

An episode that is to break leaves a file, and breaks only if there is none yet.
"""

import os
import signal
import sys
import threading
from pathlib import Path

import gymnasium as gym

from llm_gym_agents.rollouts.tasks import episode_seed

ECHO = {"rules": "system", "words": 4, "max_turns": 2}


class Broken(gym.Wrapper):
    """Breaks in the first step of the episodes with ``groups``, once each."""

    def __init__(self, folder, groups, how, always=False):
        super().__init__(gym.make("llm_gym/Echo-v0", **ECHO))
        self._seeds = {episode_seed(0, group) for group in groups}
        self._folder, self._how, self._always, self._seed = Path(folder), how, always, None

    def reset(self, *, seed=None, options=None):
        self._seed = seed
        return super().reset(seed=seed, options=options)

    def step(self, action):
        mark = self._folder / f"broke-{self._seed}"
        if self._seed in self._seeds and (self._always or not mark.exists()):
            mark.touch()
            sys.stderr.write("the last words of the environment\n")
            sys.stderr.flush()
            if self._how == "dies":
                os.kill(os.getpid(), signal.SIGKILL)
            threading.Event().wait()
        return super().step(action)
