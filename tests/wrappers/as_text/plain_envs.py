"""Small environments without text, for AsText."""

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from llm_gym.wrappers import AsText

NONSENSE = "I would rather not."


class Corridor(gym.Env):
    """Walk along a corridor.

    ## Description
    A corridor with `five` rooms. The *exit* is on the right.

    ## Action Space
    - 0: Go left
    - 1: Stay (wait)
    - 2: Go right

    ## Rewards
    One point at the exit.
    """

    def __init__(self, info=None, mask=False, raises=False):
        self.observation_space, self.action_space = spaces.Discrete(5), spaces.Discrete(3)
        self.own, self.mask, self.raises, self.steps = info or {}, mask, raises, []

    def _info(self):
        if not self.mask:
            return dict(self.own)
        return {**self.own, "action_mask": np.array([self.at > 0, 0, 1], dtype=np.int8)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.steps = (options or {}).get("at", 0), []
        return self.at, self._info()

    def step(self, action):
        if self.raises and not self._info()["action_mask"][action]:
            raise AssertionError("an action that the mask forbids")
        self.steps.append(action)
        self.at = min(max(self.at + int(action) - 1, 0), 4)
        return self.at, float(self.at == 4), self.at == 4, False, self._info()


class Echo(gym.Env):
    """Shows one value of any space, and takes actions of any space."""

    def __init__(self, observation_space=None, value=None, action_space=None):
        blank = spaces.Discrete(2)
        self.observation_space = blank if observation_space is None else observation_space
        self.value = 0 if observation_space is None else value
        self.action_space = blank if action_space is None else action_space
        self.got = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.value, {}

    def step(self, action):
        self.got.append(action)
        return self.value, 0.0, False, False, {}


def started(env=None, **settings):
    """Return a corridor, or another environment, as text, after its reset."""
    made = AsText(env or Corridor(), **settings)
    made.reset(seed=0)
    return made
