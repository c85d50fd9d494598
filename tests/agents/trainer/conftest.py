"""Trainers and groups of processes that are cleaned up in the end."""

import contextlib

import pytest

from llm_gym_agents import PPOTrainer
from tests.agents.trainer.processes.group import Group


@pytest.fixture
def cleaned():
    """Return a function that hands a trainer back, and cleans it up in the end."""
    with contextlib.ExitStack() as stack:
        yield lambda trainer: stack.callback(trainer.cleanup) and trainer


@pytest.fixture
def train(cleaned):
    """Return a function that makes a trainer; it is cleaned up in the end."""
    return lambda *args, **kwargs: cleaned(PPOTrainer(*args, **kwargs))


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
