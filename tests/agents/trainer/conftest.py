"""Trainers and groups of processes that are cleaned up in the end."""

import pytest

from llm_gym_agents import PPOTrainer
from tests.agents.trainer.processes.group import Group


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


@pytest.fixture(scope="session")
def group():
    """Return the group of so many processes, made once and kept."""
    made = {}

    def of(world):
        if world not in made:
            made[world] = Group(world)
        return made[world]

    yield of
    for each in made.values():
        each.close()
