"""Scores of given sequences."""

import random

import pytest

from llm_gym.errors import ConfigError
from llm_gym_agents.engines.base import Request, Sampling
from llm_gym_agents.engines.transformers import causal as scoring
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from llm_gym_agents.model import head
from tests.agents.engines.truth import log_probs
from tests.agents.tiny import FAMILIES, VOCABULARY, tiny_model


def sequences(lengths, seed=0):
    rng = random.Random(seed)
    return [[rng.randrange(VOCABULARY) for _ in range(length)] for length in lengths]


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_are_those_of_a_plain_forward(family):
    model = tiny_model(family)
    given = sequences([5, 40, 2, 1, 17, 40, 90])
    scores = TransformersEngine(model).score(given, temperature=0.7)
    for ids, found in zip(given, scores, strict=True):
        wanted = log_probs(model, ids[:1], ids[1:], 0.7)
        assert found == pytest.approx(wanted, abs=1e-5)


def test_scores_agree_with_what_was_recorded_while_sampling():
    engine = TransformersEngine(tiny_model(), end_ids=[])
    requests = [Request(ids, Sampling(max_tokens=20), seed=at)
                for at, ids in enumerate(sequences(range(1, 30)))]  # fmt: skip
    done = engine.generate(requests)
    scores = engine.score([[*r.prompt, *d.ids] for r, d in zip(requests, done, strict=True)])
    for request, one, score in zip(requests, done, scores, strict=True):
        assert score[len(request.prompt) - 1 :] == pytest.approx(one.log_probs, abs=1e-5)


def test_the_head_never_sees_more_than_a_chunk(monkeypatch):
    model = tiny_model()
    engine = TransformersEngine(model)
    given = sequences([100, 30, 100])
    wanted = engine.score(given)
    rows = []
    logits = head.Head.logits
    monkeypatch.setattr(head.Head, "logits", lambda self, x: rows.append(len(x)) or logits(self, x))
    monkeypatch.setitem(head.CHUNK_BYTES, "cpu", 40 * VOCABULARY)
    monkeypatch.setattr(scoring, "GROUP_TOKENS", 128)
    for found, expected in zip(engine.score(given), wanted, strict=True):
        assert found == pytest.approx(expected, abs=1e-5)
    assert max(rows) == 10
    assert sum(rows) == 99 + 29 + 99


def test_what_cannot_be_scored_is_refused():
    engine = TransformersEngine(tiny_model(), context_length=20)
    assert engine.score([]) == []
    assert engine.score([[], [1]]) == [[], []]
    with pytest.raises(ConfigError, match="at most 20 tokens, got 21"):
        engine.score([[1] * 21])
    with pytest.raises(ConfigError, match="token ids"):
        engine.score([[1, VOCABULARY]])
    with pytest.raises(ConfigError, match="temperature must be above 0"):
        engine.score([[1, 2]], temperature=0)
