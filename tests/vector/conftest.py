"""``make_vec`` with worker processes, of which none may be left."""

import multiprocessing

import pytest

from llm_gym.vector import make_vec
from tests.vector.odd import no_process_is_left


@pytest.fixture
def start():
    """make_vec and a reset; it is closed after the test, and no process may be left."""
    started, before = [], multiprocessing.active_children()

    def make(*args, **kwargs):
        started.append(make_vec(*args, **kwargs))
        started[-1].reset(seed=0)
        return started[-1]

    yield make
    for envs in started:
        envs.close()
    no_process_is_left(before)
