"""A run that is killed with ``kill -9`` ends, once resumed, as one that was not."""

import os

import pytest

from tests.agents.checkpoint import checkpoint_run
from tests.agents.checkpoint.apart import run_apart

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What ``checkpoint_run`` found in a process of its own, by mode."""
    modes = ("kill_everywhere=11", "kill_replacing=3", "kill_any_time=12", "fill_disk=5")
    return run_apart(checkpoint_run, tmp_path_factory.mktemp("runs"), *modes)


def test_killed_at_any_touch_of_the_disk_during_a_save(found):
    # Every touch: ``python tests/agents/checkpoint/checkpoint_run.py FOLDER kill_everywhere=1``.
    assert isinstance(found["kill_everywhere"], dict), found["kill_everywhere"]
    assert found["kill_everywhere"]["kills"] >= 9


def test_killed_while_one_checkpoint_replaces_another(found):
    assert isinstance(found["kill_replacing"], dict), found["kill_replacing"]
    assert found["kill_replacing"]["kills"] >= 9
    assert found["kill_replacing"]["seen"] == [1, 2]


def test_killed_at_any_time_again_and_again(found):
    assert isinstance(found["kill_any_time"], dict), found["kill_any_time"]
    assert found["kill_any_time"]["kills"] >= 5


def test_a_full_disk_is_one_sentence_and_loses_nothing(found):
    said = found["fill_disk"]
    assert isinstance(said, list), said
    assert len(said) == 5
    for sentence in said:
        assert sentence.startswith("cannot write ")
        assert "File too large" in sentence
        assert sentence.endswith("earlier checkpoints are as they were")
