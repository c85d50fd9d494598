"""Weights are shared, or copied in place, all or none."""

import pytest
import torch

from llm_gym.errors import ConfigError
from llm_gym_agents.engines.base import EngineError, Request, Sampling
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from tests.agents.engines.truth import worst_error
from tests.agents.tiny import tiny_model

REQUESTS = [Request([at, 7, 9], Sampling(max_tokens=6), seed=at) for at in range(6)]


@pytest.fixture
def model():
    return tiny_model()


@pytest.fixture
def engine(model):
    return TransformersEngine(model, end_ids=[])


def writes(model):
    return [parameter._version for parameter in model.parameters()]


def test_the_engine_holds_the_very_model(model, engine):
    before = writes(model)
    engine.update_weights(model.named_parameters(), version=3)
    engine.update_weights(model.state_dict().items(), version=4)
    assert engine.version == 4
    assert engine.model is model
    assert writes(model) == before  # nothing was copied
    assert {done.version for done in engine.generate(REQUESTS)} == {4}


def test_a_training_step_is_sampled_from_at_once(model, engine):
    before = engine.generate(REQUESTS)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    engine.update_weights(model.named_parameters(), version=1)
    after = engine.generate(REQUESTS)
    assert worst_error(model, REQUESTS, after) <= 1e-5
    assert [done.log_probs for done in after] != [done.log_probs for done in before]


def test_other_tensors_are_copied_in_place(model, engine):
    places = [parameter.data_ptr() for parameter in model.parameters()]
    other = tiny_model(seed=5)
    engine.update_weights(other.to(torch.float64).state_dict().items(), version=2)
    assert [parameter.data_ptr() for parameter in model.parameters()] == places
    assert worst_error(other.to(torch.float32), REQUESTS, engine.generate(REQUESTS)) <= 1e-5


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda named: named.pop("model.norm.weight"), "weights are missing: model.norm.weight;"),
        (lambda named: named.update(oops=torch.zeros(1)), "no weights called oops;"),
        (
            lambda named: named.update({"model.norm.weight": torch.zeros(3)}),
            r"model.norm.weight must have shape \(32,\), got \(3,\);",
        ),
        (lambda named: named.clear(), "missing: .* and 18 more;"),
    ],
)
def test_weights_that_do_not_fit_change_nothing(model, engine, change, sentence):
    named = dict(tiny_model(seed=5).state_dict())
    change(named)
    before = writes(model)
    with pytest.raises(ConfigError, match=sentence + " nothing was changed"):
        engine.update_weights(named.items(), version=2)
    assert writes(model) == before
    assert engine.version == 0


def test_of_tied_weights_one_name_is_enough():
    model = tiny_model("gpt2")
    engine = TransformersEngine(model, end_ids=[])
    other = tiny_model("gpt2", seed=5)
    assert "lm_head.weight" not in dict(other.named_parameters())
    engine.update_weights(other.named_parameters(), version=1)
    assert worst_error(other, REQUESTS, engine.generate(REQUESTS)) <= 1e-5


def test_weights_do_not_change_under_a_running_reply(model, engine):
    engine.submit(REQUESTS)
    with pytest.raises(EngineError, match="6 replies are running"):
        engine.update_weights(model.named_parameters(), version=1)
    assert len(engine.cancel()) == 6
    engine.update_weights(model.named_parameters(), version=1)


def test_a_model_that_changes_its_type_is_followed(model, engine):
    engine.generate(REQUESTS)
    model.to(torch.float64)
    assert worst_error(model, REQUESTS, engine.generate(REQUESTS)) <= 1e-5
    model.to(torch.float32)
    assert worst_error(model, REQUESTS, engine.generate(REQUESTS)) <= 1e-5
