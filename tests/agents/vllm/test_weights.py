"""New weights reach vLLM, and a push that does not is an error."""

import pytest
import torch

from llm_gym.core.errors import ConfigError
from llm_gym_agents.engines.base import EngineError
from llm_gym_agents.engines.publish import Publisher
from llm_gym_agents.engines.weight_check import Probe, StaleWeightsError
from llm_gym_agents.engines.weight_push import buckets
from llm_gym_agents.model.weights import served_weights
from tests.agents.engines.truth import worst_error
from tests.agents.vllm.test_sampling import make_requests


@torch.no_grad()
def shaken(lm, by=0.1):
    for weight in lm.parameters():
        weight.add_(by * torch.randn(weight.shape, generator=torch.manual_seed(1)))
    return lm


@pytest.fixture
def as_before(engine, folder):
    """Give the engine back the weights that it began with."""
    yield
    from llm_gym_agents.model.load import load_model

    engine.update_weights(served_weights(load_model(folder)), 0)


@pytest.mark.usefixtures("as_before")
def test_after_a_push_log_probs_are_those_of_the_new_weights(engine, lm):
    requests = make_requests()
    before = engine.generate(requests)
    engine.update_weights(served_weights(shaken(lm)), 7)
    after = engine.generate(requests)
    assert {reply.version for reply in after} == {7}
    assert worst_error(lm, requests, after) <= 1e-4
    assert worst_error(lm, requests, before) > 0.1


@pytest.mark.usefixtures("as_before")
def test_lora_adapters_are_pushed_merged(engine, lm):
    from peft import LoraConfig, inject_adapter_in_model

    adapted = inject_adapter_in_model(LoraConfig(r=4, target_modules="all-linear"), lm)
    with torch.no_grad():
        for name, weight in adapted.named_parameters():
            if "lora_B" in name:
                weight.normal_(std=0.3)
    Publisher(engine, adapted).publish(1)
    requests = make_requests()
    assert worst_error(adapted, requests, engine.generate(requests)) <= 1e-4


def test_weights_that_are_missing_are_named(engine, lm):
    named = [(name, weight) for name, weight in served_weights(lm) if "layers.1.mlp" not in name]
    with pytest.raises(ConfigError, match=r"layers\.1\.mlp"):
        engine.update_weights(named, 1)


def test_weights_do_not_change_under_a_running_reply(engine, lm):
    engine.submit(make_requests(1, max_tokens=100))
    with pytest.raises(EngineError, match="1 replies"):
        engine.update_weights(served_weights(lm), 1)
    engine.cancel()


def learned(lm, rate=1e-7):
    """Take one step of Adam at a tiny rate."""
    optimizer = torch.optim.AdamW(lm.parameters(), lr=rate, weight_decay=0.0)
    lm(torch.arange(1, 40)[None]).logits.square().mean().backward()
    optimizer.step()
    return lm


@pytest.mark.usefixtures("as_before")
@pytest.mark.parametrize("part", ["k_proj", "up_proj", "o_proj", "embed_tokens", "model.norm"])
def test_one_layer_that_missed_one_push_at_a_tiny_rate_is_caught(engine, lm, monkeypatch, part):
    publisher = Publisher(engine, lm)
    assert publisher.publish(0)["engine/weights_checked"] == len(list(served_weights(lm)))
    before = {name: weight.clone() for name, weight in served_weights(lm)}
    load = engine._load

    def load_the_rest(bucket):
        rest = [(n, before[n] if part in n else weight) for n, weight in bucket.named()]
        return load(next(buckets(rest)))

    monkeypatch.setattr(engine, "_load", load_the_rest)
    learned(lm)
    assert Probe(lm).check(engine) < 1e-3, "no probe of log-probs could see that"
    with pytest.raises(StaleWeightsError, match="version 1"):
        publisher.publish(1)
