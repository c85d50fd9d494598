"""Answers that no SGLang server gives: one error of ours, in time, and nothing of them is used."""

import json
import math

import pytest

from llm_gym_agents.engines.base import EngineError, Request, Sampling
from llm_gym_agents.engines.sglang import server as http_calls
from llm_gym_agents.learn.publish import Publisher
from tests.agents.tiny import tiny_model


def request():
    return Request([9, 5, 6], Sampling(max_tokens=4))


def answer(**changed):
    """Return a good answer of two tokens, with parts of it changed."""
    meta = {
        "finish_reason": {"type": "length", "length": 2},
        "output_token_logprobs": [[-0.5, 1, None], [-0.25, 2, None]],
        "prompt_tokens": 3,
        "completion_tokens": 2,
        **changed.pop("meta", {}),
    }
    return {"text": "", "output_ids": [1, 2], "meta_info": meta, **changed}


def test_the_answer_that_is_changed_below_is_a_good_one(fixed, connect):
    engine = connect(fixed)
    fixed.says["/generate"] = json.dumps(answer()).encode()
    [done] = engine.generate([request()])
    assert (list(done.ids), list(done.log_probs)) == ([1, 2], [-0.5, -0.25])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'"text"',
        b"not json",
        b"\xff\xfe",
        b"[" * 100_000,
        json.dumps(answer(meta_info=None)).encode(),
        json.dumps(answer(meta_info=[])).encode(),
        json.dumps(answer(meta={"output_token_logprobs": None})).encode(),
        json.dumps(answer(meta={"output_token_logprobs": "12"})).encode(),
        json.dumps(answer(meta={"output_token_logprobs": [[-0.5, "1"]]})).encode(),
        json.dumps(answer(meta={"output_token_logprobs": [[-0.5, 1.5]]})).encode(),
        json.dumps(answer(meta={"output_token_logprobs": [[-0.5, -2]]})).encode(),
        json.dumps(answer(meta={"output_token_logprobs": [[-0.5, 10**12]]})).encode(),
        json.dumps(answer(meta={"output_token_logprobs": [[-0.5, True]]})).encode(),
        json.dumps(answer(meta={"output_token_logprobs": [[-0.5]]})).encode(),
        json.dumps(answer(meta={"output_token_logprobs": [[-0.5, 1]] * 100})).encode(),
        json.dumps(answer(meta={"output_token_logprobs": [[10**400, 1]]})).encode(),
        json.dumps(answer(meta={"output_token_logprobs": [["x", 1], [-1.0, 2]]})).encode(),
        json.dumps(answer(meta={"output_token_logprobs": [[math.nan, 1], [-1.0, 2]]})).encode(),
        json.dumps(answer(meta={"output_token_logprobs": [[3.0, 1], [-1.0, 2]]})).encode(),
        json.dumps(answer(meta={"output_token_logprobs": [1, 2]})).encode(),
        json.dumps(answer(meta={"finish_reason": None})).encode(),
        json.dumps(answer(meta={"finish_reason": "stop"})).encode(),
        json.dumps(answer(meta={"finish_reason": {"type": ["stop"]}})).encode(),
        json.dumps(answer(meta={"finish_reason": {}})).encode(),
    ],
)
def test_an_answer_of_any_other_shape_is_one_error(fixed, connect, body):
    engine = connect(fixed)
    fixed.says["/generate"] = body
    with pytest.raises(EngineError) as found:
        engine.generate([request()])
    assert "\n" not in str(found.value)
    assert len(str(found.value)) < 1000


@pytest.mark.parametrize("rows", [None, [], [[None, 1, None]], [[None, 9], ["a", 5], [-1, 6]]])
def test_scores_of_any_other_shape_are_one_error(server, connect, rows):
    engine = connect(server)
    server.says["/generate"] = json.dumps(answer(meta={"input_token_logprobs": rows})).encode()
    with pytest.raises(EngineError, match="SGLang gives no scores"):
        engine.score([[9, 5, 6]])


def test_an_answer_that_trickles_in_has_a_deadline_as_a_whole(fixed, connect, monkeypatch):
    monkeypatch.setattr(http_calls, "CALL_S", 0.3)
    engine = connect(fixed)
    fixed.trickles.add("/generate")
    with pytest.raises(EngineError, match="timed out"):
        engine.generate([request()])
    fixed.dead = True


@pytest.mark.parametrize("path", ["/weights_checker", "/update_weights_from_disk", "/flush_cache"])
@pytest.mark.parametrize("body", [b"null", b"[1]", b'{"ranks": 7}', b'"x"', b"[" * 100_000])
def test_an_odd_answer_to_a_push_never_passes_for_new_weights(server, connect, path, body):
    server.deaf = True
    server.says[path] = body
    with pytest.raises(EngineError) as found:
        Publisher(connect(server), tiny_model(seed=3)).publish(1)
    assert "\n" not in str(found.value)
