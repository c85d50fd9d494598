"""Every environment still says what it said when its version was released."""

import importlib.util
from pathlib import Path

import pytest

from llm_gym.registry.suite import ENVS

spec = importlib.util.spec_from_file_location("golden", Path(__file__).with_name("golden.py"))
golden = importlib.util.module_from_spec(spec)
spec.loader.exec_module(golden)


@pytest.mark.parametrize("env_id", [row.id for row in ENVS])
def test_transcript_is_unchanged(env_id):
    assert golden.transcript(env_id) == golden.path(env_id).read_text(encoding="utf-8")
