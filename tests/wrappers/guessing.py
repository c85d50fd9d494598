"""The game that most wrappers are tested around."""

import gymnasium as gym

import llm_gym  # noqa: F401 - registers the ids

GAME = "llm_gym/GuessTheNumber-v0"


def guessing(**settings):
    return gym.make(GAME, **{"low": 1, "high": 1000, "max_turns": 20, **settings})
