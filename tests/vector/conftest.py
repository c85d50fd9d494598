"""Vectors of environments in processes, of which none may be left."""

import multiprocessing

import pytest

from llm_gym.vector import make_vec


@pytest.fixture
def start():
    """make_vec, closed at the end of the test, after which no process may be left."""
    started = []

    def make(*args, **kwargs):
        started.append(make_vec(*args, **kwargs))
        return started[-1]

    yield make
    for envs in started:
        envs.close()
    assert multiprocessing.active_children() == []
