"""A tiny model behind the older names, and a count of its requests."""

import pytest

from llm_gym_agents.engines.inference import BaseInferenceEngine
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from tests.agents.tiny import tiny_model, tiny_tokenizer


@pytest.fixture(scope="module")
def model():
    return tiny_model(max_position_embeddings=2048)  # a byte is a token, and rules are long


@pytest.fixture(scope="module")
def engine(model):
    tokenizer = tiny_tokenizer()
    return BaseInferenceEngine(TransformersEngine(model, tokenizer=tokenizer), tokenizer)


@pytest.fixture
def calls(monkeypatch):
    """Return a list that notes how many requests are handed to the engine at a time."""
    counts = []
    submit = TransformersEngine.submit
    monkeypatch.setattr(
        TransformersEngine, "submit", lambda self, rs: counts.append(len(rs)) or submit(self, rs)
    )
    return counts
