"""Trainers that are cleaned up in the end."""

import pytest

from llm_gym_agents import PPOTrainer


@pytest.fixture
def train():
    """Return a function that makes a trainer; it is cleaned up in the end."""
    made = []

    def make(*args, **kwargs):
        made.append(PPOTrainer(*args, **kwargs))
        return made[-1]

    yield make
    for trainer in made:
        trainer.cleanup()
