"""A run that is killed with ``kill -9`` ends, once resumed, as one that was not."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agents.run import checkpoint_run, resume_run

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What ``checkpoint_run`` found in a process of its own, by mode."""
    modes = ("kill_everywhere=9", "kill_replacing=3", "fill_disk=5")
    return run_apart(checkpoint_run, tmp_path_factory.mktemp("runs"), *modes)


def test_a_run_killed_during_a_save_keeps_a_loadable_checkpoint(found):
    # Every touch: ``python tests/agents/run/checkpoint_run.py FOLDER kill_everywhere=1``.
    assert isinstance(found["kill_everywhere"], dict), found["kill_everywhere"]
    assert found["kill_everywhere"]["kills"] >= 9
    assert isinstance(found["kill_replacing"], dict), found["kill_replacing"]
    assert found["kill_replacing"]["kills"] >= 9
    assert found["kill_replacing"]["seen"] == [1, 2]


def test_a_full_disk_gives_a_one_sentence_error_and_loses_nothing(found):
    errors = found["fill_disk"]
    assert isinstance(errors, list), errors
    assert len(errors) == 5
    for sentence in errors:
        assert "File too large" in sentence


ROOT = Path(__file__).parents[3]


def run_apart(script, folder, *arguments):
    """Return what ``script`` wrote as JSON in its last line."""
    path = os.pathsep.join(map(str, (ROOT / "agents", ROOT)))
    done = subprocess.run(
        [sys.executable, script.__file__, folder, *arguments],
        env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


KILLS = {
    "gae": ("step later", "later in a save"),
    "grpo": ("step",),
    "lora": ("row",),
    "guards": ("next step",),
}
"""All: ``python tests/agents/run/resume_run.py FOLDER gae grpo lora separate ...``."""


@pytest.fixture(scope="module")
def resumed(tmp_path_factory):
    """What ``resume_run`` found in a process of its own, by variant."""
    variants = [f"{variant}:{','.join(moments)}" for variant, moments in KILLS.items()]
    return run_apart(resume_run, tmp_path_factory.mktemp("runs"), *variants)


@pytest.mark.parametrize("variant", KILLS)
def test_a_killed_and_resumed_run_equals_an_uninterrupted_one(resumed, variant):
    assert isinstance(resumed[variant], dict), resumed[variant]
    for moment in KILLS[variant]:
        assert resumed[variant][moment]["killed"], moment
        assert resumed[variant][moment]["resumed"], moment
        assert resumed[variant][moment]["different"] == [], moment


def test_the_command_resumes_too(resumed):
    assert resumed["gae"]["step later"]["command"]
    assert resumed["lora"]["row"]["command"]


def test_schedules_and_the_value_scale_changed_before_the_kill(resumed):
    """Otherwise equal numbers would prove nothing."""
    assert len(set(resumed["gae"]["train/lr"])) > 1
    assert len(set(resumed["guards"]["value/scale_mean"])) > 1
