"""Weights of a vLLM in a process of its own are read back there: a missed push is caught."""

import pytest

from llm_gym_agents.engines.base import StaleWeightsError
from llm_gym_agents.engines.vllm.engine import VLLMEngine
from llm_gym_agents.learn.publish import Publisher
from llm_gym_agents.model.load import load_model, load_tokenizer
from llm_gym_agents.model.weights import served_weights
from tests.agents.vllm.test_weights import learned


def test_one_missed_push_at_a_tiny_rate_is_caught_apart(folder, monkeypatch):
    engine = VLLMEngine(
        folder, tokenizer=load_tokenizer(folder), dtype="float32", eager=True, separate=True
    )
    try:
        lm = load_model(folder)
        publisher = Publisher(engine, lm)
        assert publisher.publish(0)["engine/weights_checked"] == len(list(served_weights(lm)))
        monkeypatch.setattr(engine, "_load", lambda bucket: list(engine._dtypes))
        learned(lm)
        with pytest.raises(StaleWeightsError, match="does not hold the weights of version 1"):
            publisher.publish(1)
    finally:
        engine.close()
