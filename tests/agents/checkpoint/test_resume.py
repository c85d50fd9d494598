"""A training run that is killed with ``kill -9`` and resumed ends as one that was not killed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.agents.checkpoint import resume_run

ROOT = Path(__file__).parents[3]
KILLS = {
    "gae": ("step later", "later in a save"),
    "grpo": ("step later",),
    "lora": ("row",),
    "guards": ("step later",),
    "curriculum": ("step later",),
}
"""All of them: ``python tests/agents/resume_run.py FOLDER gae grpo lora separate ...``."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What ``resume_run`` found in a process of its own, by variant."""
    path = os.pathsep.join(map(str, (ROOT / "agents", ROOT)))
    variants = [f"{variant}:{','.join(moments)}" for variant, moments in KILLS.items()]
    done = subprocess.run(
        [sys.executable, resume_run.__file__, tmp_path_factory.mktemp("runs"), *variants],
        env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("variant", KILLS)
def test_killed_and_resumed_to_the_same_metrics_weights_optimizer_and_generators(found, variant):
    assert isinstance(found[variant], dict), found[variant]
    for moment in KILLS[variant]:
        assert found[variant][moment]["killed"], moment
        assert found[variant][moment]["resumed"], moment
        assert found[variant][moment]["different"] == [], moment


def test_the_command_resumes_too(found):
    assert found["gae"]["step later"]["command"]
    assert found["lora"]["row"]["command"]


def test_what_decides_the_next_step_has_moved_by_then(found):
    """Otherwise equal numbers would prove nothing."""
    assert len(set(found["grpo"]["kl/coef"])) > 1
    assert len(set(found["lora"]["kl/coef"])) > 1
    assert len(set(found["curriculum"]["env/difficulty"])) > 1
    assert len(set(found["guards"]["policy/entropy_coef"])) > 1
    assert len(set(found["guards"]["value/scale_mean"])) > 1
