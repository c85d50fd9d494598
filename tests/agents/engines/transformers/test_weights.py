"""Weights are shared, or copied in place, all or none; scores of given sequences."""

import random

import pytest
import torch

from llm_gym.core.errors import ConfigError
from llm_gym_agents.engines.base import EngineError, Request, Sampling
from llm_gym_agents.engines.transformers import causal as scoring
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from llm_gym_agents.engines.weight_push import buckets
from llm_gym_agents.model import head
from tests.agents.engines.truth import log_probs, worst_error
from tests.agents.tiny import FAMILIES, VOCABULARY, tiny_model
from tests.matrix import one_in

REQUESTS = [Request([at, 7, 9], Sampling(max_tokens=6), seed=at) for at in range(6)]


@pytest.fixture
def model():
    return tiny_model()


def writes(model):
    return [parameter._version for parameter in model.parameters()]


def test_the_engine_shares_the_model(model, engine):
    before = writes(model)
    engine.update_weights(model.named_parameters(), version=3)
    engine.update_weights(model.state_dict().items(), version=4)
    assert engine.version == 4
    assert engine.model is model
    assert writes(model) == before  # nothing was copied
    assert {done.version for done in engine.generate(REQUESTS)} == {4}


def test_other_tensors_are_copied_in_place(model, engine):
    places = [parameter.data_ptr() for parameter in model.parameters()]
    other = tiny_model(seed=5)
    engine.update_weights(other.to(torch.float64).state_dict().items(), version=2)
    assert [parameter.data_ptr() for parameter in model.parameters()] == places
    assert worst_error(other.to(torch.float32), REQUESTS, engine.generate(REQUESTS)) <= 1e-5


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda named: named.update(oops=torch.zeros(1)), "oops"),
        (lambda named: named.update({"model.norm.weight": torch.zeros(3)}), "norm.*shape"),
        (lambda named: named.pop("model.norm.weight"), "missing.*norm"),
        (lambda named: named.clear(), "18 more"),
    ],
)
def test_weights_that_do_not_fit_change_nothing(model, engine, change, what):
    named = dict(tiny_model(seed=5).state_dict())
    change(named)
    writes_before, replies = writes(model), engine.generate(REQUESTS)
    with pytest.raises(ConfigError, match=what):
        engine.update_weights(iter(named.items()), version=2)
    assert writes(model) == writes_before
    assert engine.version == 0
    assert engine.generate(REQUESTS) == replies


def test_a_transfer_that_broke_off_completes_no_other_push(model, engine):
    engine.load_bucket(next(buckets(model.named_parameters())))
    with pytest.raises(ConfigError, match="missing"):
        engine.update_weights([], version=2)
    assert engine.version == 0


def test_one_name_is_enough_for_tied_weights():
    model = tiny_model("gpt2")
    engine = TransformersEngine(model, end_ids=[])
    other = tiny_model("gpt2", seed=5)
    assert "lm_head.weight" not in dict(other.named_parameters())
    engine.update_weights(other.named_parameters(), version=1)
    assert worst_error(other, REQUESTS, engine.generate(REQUESTS)) <= 1e-5


def test_weights_do_not_change_under_a_running_reply(model, engine):
    engine.submit(REQUESTS)
    with pytest.raises(EngineError, match="6 replies"):
        engine.update_weights(model.named_parameters(), version=1)
    assert len(engine.cancel()) == 6
    engine.update_weights(model.named_parameters(), version=1)


def test_a_model_may_change_its_dtype(model, engine):
    engine.generate(REQUESTS)
    for dtype in (torch.float64, torch.float32):
        model.to(dtype)
        assert worst_error(model, REQUESTS, engine.generate(REQUESTS)) <= 1e-5


def sequences(lengths, seed=0):
    rng = random.Random(seed)
    return [[rng.randrange(VOCABULARY) for _ in range(length)] for length in lengths]


@pytest.mark.parametrize("family", one_in(3, FAMILIES))
def test_scores_are_those_of_a_plain_forward(family):
    model = tiny_model(family)
    given = sequences([5, 40, 2, 1, 17, 40, 90])
    scores = TransformersEngine(model).score(given, temperature=0.7)
    for ids, found in zip(given, scores, strict=True):
        wanted = log_probs(model, ids[:1], ids[1:], 0.7)
        assert found == pytest.approx(wanted, abs=1e-5)


def test_long_and_short_sequences_are_scored_in_groups(model, monkeypatch):
    engine, given, rows = TransformersEngine(model), sequences([100, 30, 100]), []
    wanted, usual = engine.score(given), head.Head.logits
    monkeypatch.setattr(head.Head, "logits", lambda self, x: rows.append(len(x)) or usual(self, x))
    monkeypatch.setitem(head.CHUNK_BYTES, "cpu", 40 * VOCABULARY)
    monkeypatch.setattr(scoring, "GROUP_TOKENS", 128)
    for found, expected in zip(engine.score(given), wanted, strict=True):
        assert found == pytest.approx(expected, abs=1e-5)
    assert (max(rows), sum(rows)) == (10, 99 + 29 + 99), "no more than a chunk at once"


@pytest.mark.parametrize(
    ("ids", "temperature", "what"),
    [([1] * 21, 1.0, "20 tokens"), ([1, VOCABULARY], 1.0, "token ids"), ([1, 2], 0.0, "temperat")],
)
def test_invalid_sequences_to_score_are_refused(model, ids, temperature, what):
    engine = TransformersEngine(model, context_length=20)
    assert engine.score([[], [1]]) == [[], []]
    with pytest.raises(ConfigError, match=what):
        engine.score([ids], temperature)
