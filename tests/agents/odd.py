"""Environments that misbehave or lack something; workers start quickly without torch."""

import os
import time

import gymnasium as gym

from llm_gym import TextEnv, reject, win
from llm_gym.core.spaces import AnyText


class Coin(TextEnv):
    """Has no solver, and examples of its moves instead of a list."""

    max_turns = 2

    def new_game(self, rng):
        pass

    def rules_text(self):
        return "Call it."

    def example_moves(self):
        return ["heads", "tails"]

    def describe(self):
        return "It spins."

    def apply(self, move):
        return win("Right.") if move in self.example_moves() else reject("No.")


class Tagged(gym.Env):
    """Observations name seed and turn; lasts ``seed % 4 + 1`` turns."""

    observation_space = action_space = AnyText(100)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seed, self.turn, self.lasts = seed, 0, seed % 4 + 1
        return f"seed {seed} turn 0", {}

    def step(self, action):
        assert action == f"reply to seed {self.seed} turn {self.turn}", action
        self.turn += 1
        done = self.turn == self.lasts
        return f"seed {self.seed} turn {self.turn}", float(self.turn), done, False, {}


class Crashing(Tagged):
    def step(self, action):
        if self.seed == 2 and self.turn == 1:
            raise RuntimeError("the database is gone")
        return super().step(action)


class CrashingAtReset(Tagged):
    def reset(self, *, seed=None, options=None):
        if seed == 2:
            raise RuntimeError("no such level")
        return super().reset(seed=seed)


class Hanging(Tagged):
    def step(self, action):
        if self.seed == 2 and self.turn == 1:
            time.sleep(60)
        return super().step(action)


class Dying(Tagged):
    def step(self, action):
        if self.seed == 2 and self.turn == 1:
            os._exit(3)
        return super().step(action)


class DyingAtReset(Tagged):
    def reset(self, *, seed=None, options=None):
        if seed == 2:
            os._exit(3)
        return super().reset(seed=seed, options=options)


class Sleeping(Tagged):
    def step(self, action):
        time.sleep(60)
