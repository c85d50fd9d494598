"""A stand-in for BALROG, which is not on PyPI: its interface, around two games of our own.

``make_env`` gives what BALROG's gives: observations with ``text`` of a long and a short term,
actions by their names, ``check_action_validity``, ``get_instruction_prompt`` and ``get_stats``.
Both games draw from the generators of the whole process, as several of BALROG's do.
"""

import random

import gymnasium as gym
import numpy as np


class Hall(gym.Env):
    """Walk to a flag, in a wind that blows one step back now and then."""

    language_action_space = ["walk left", "walk right", "take flag"]
    default_action = "walk left"

    def __init__(self, length, max_steps):
        self.length, self.max_steps = length, max_steps
        self.flag = random.randrange(1, length)  # BALROG chooses some games when it makes them

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.turn, self.progression = 0, 0, 0.0
        return self._seen(), {}

    def step(self, action):
        move = self.language_action_space.index(action)
        self.turn += 1
        taken = move == 2 and self.at == self.flag
        if move < 2:
            wind = 1 if np.random.rand() < 0.2 else 0  # noqa: NPY002 - as others do
            self.at = min(max(self.at + (-1, 1)[move] - wind, 0), self.length)
        self.progression = 1.0 if taken else min(self.at, self.flag) / (self.flag + 1)
        return self._seen(), float(taken), taken, self.turn == self.max_steps, {}

    def get_stats(self):
        return {"progression": self.progression, "turn": self.turn}

    def _seen(self):
        long = f"The flag is {self.flag - self.at} steps to the right."
        short = f"Clock: {self.turn}. A bird says {random.randint(0, 99)}."
        text = {"long_term_context": long, "short_term_context": short}
        return {"text": text, "image": None, "mission": "take the flag"}


class Anything:
    """BALROG's action space of TextWorld: everything is in it, and it cannot be counted."""

    def __contains__(self, _):
        return True


class Words(Hall):
    """Any word is a move; the word of the day wins."""

    language_action_space = Anything()
    default_action = "help"

    def step(self, action):
        self.turn += 1
        won = action == "flag"
        self.progression = float(won)
        return self._seen(), float(won), won, False, {}


class EnvWrapper(gym.Wrapper):
    """What BALROG's evaluator plays."""

    def __init__(self, env, env_name, task_name):
        super().__init__(env)
        self.env_name, self.task_name, self.failed_candidates = env_name, task_name, []

    @property
    def max_steps(self):
        return self.env.max_steps

    def get_instruction_prompt(self, instructions=None):
        return f"You are in a hall. Your mission: {instructions}."

    def check_action_validity(self, candidate_action):
        if candidate_action in self.env.get_wrapper_attr("language_action_space"):
            return candidate_action
        self.failed_candidates.append(candidate_action)
        return self.env.get_wrapper_attr("default_action")

    def get_stats(self):
        return self.env.get_stats()


def make_env(env_name, task, config, render_mode=None):
    """Return a game, as BALROG's function of the same name does."""
    if env_name not in ("hall", "words"):
        raise ValueError(f"Unknown environment: {env_name}")
    game = {"hall": Hall, "words": Words}[env_name]
    return EnvWrapper(game(**dict(config.envs.hall_kwargs)), env_name, task)
