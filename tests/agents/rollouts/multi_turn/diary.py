"""A game that records its actions."""

import gymnasium as gym

from llm_gym.core.spaces import AnyText


class Diary(gym.Env):
    """Observations show the seed and the turn; ends after ``length`` turns."""

    observation_space = action_space = AnyText(10_000)
    system_prompt = "You write a diary."

    def __init__(self, length=3):
        self.length = length
        self.closed = False

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seed, self.actions = seed, []
        return f"I am {seed}.", {}

    def step(self, action):
        self.actions.append(action)
        turn = len(self.actions)
        return f"{self.seed} received {turn}.", float(turn), turn == self.length, False, {}

    def close(self):
        self.closed = True
