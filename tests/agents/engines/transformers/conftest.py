"""A tiny model, and the engine that samples with it."""

import pytest

from llm_gym_agents.engines.transformers.engine import TransformersEngine
from tests.agents.tiny import tiny_model


@pytest.fixture(scope="module")
def model():
    return tiny_model()


@pytest.fixture
def engine(model):
    return TransformersEngine(model, end_ids=[])
