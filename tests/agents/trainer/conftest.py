"""Groups of processes that are closed in the end."""

import pytest

from tests.agents.trainer.processes.group import Group


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
