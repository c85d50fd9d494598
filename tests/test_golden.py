"""The observations of every environment are those of its release."""

import pytest

from llm_gym.registry.suite import ENVS
from tests.golden import path, transcript


@pytest.mark.parametrize("env_id", [row.id for row in ENVS])
def test_the_transcript_is_unchanged(env_id):
    assert transcript(env_id) == path(env_id).read_text(encoding="utf-8")
