"""A game that writes down what it was told."""

import gymnasium as gym

from llm_gym.core.spaces import AnyText


class Diary(gym.Env):
    """Says who it is and what it was told; ends after ``length`` turns."""

    observation_space = action_space = AnyText(10_000)
    system_prompt = "You write a diary."

    def __init__(self, length=3):
        self.length = length
        self.closed = False

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seed, self.told = seed, []
        return f"I am {seed}.", {}

    def step(self, action):
        self.told.append(action)
        turn = len(self.told)
        return f"{self.seed} was told {turn}.", float(turn), turn == self.length, False, {}

    def close(self):
        self.closed = True
