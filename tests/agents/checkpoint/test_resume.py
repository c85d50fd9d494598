"""A training run that is killed with ``kill -9`` and resumed ends as one that was not killed."""

import os

import pytest

from tests.agents.checkpoint import resume_run
from tests.agents.checkpoint.apart import run_apart

KILLS = {
    "gae": ("step later", "later in a save"),
    "grpo": ("step later",),
    "lora": ("row",),
    "guards": ("step later",),
    "curriculum": ("step later",),
}
"""All: ``python tests/agents/checkpoint/resume_run.py FOLDER gae grpo lora separate ...``."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What ``resume_run`` found in a process of its own, by variant."""
    variants = [f"{variant}:{','.join(moments)}" for variant, moments in KILLS.items()]
    return run_apart(resume_run, tmp_path_factory.mktemp("runs"), *variants)


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
