"""The queue of the transformers engine: joining, leaving, and what is refused."""

import pytest
import torch

from llm_gym.core.errors import ConfigError
from llm_gym_agents.engines.base import EngineError, FinishReason, Request, Sampling
from llm_gym_agents.engines.transformers import decode
from llm_gym_agents.engines.transformers import slot_cache as slots
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from tests.agents.engines.truth import TOLERANCE, drain, some_requests, worst_error
from tests.agents.tiny import VOCABULARY, tiny_model

# --- joining and leaving ------------------------------------------------------------------


def test_replies_are_returned_as_each_one_finishes(engine):
    lengths = [9, 2, 5, 2, 30]
    engine.submit(
        Request([7], Sampling(max_tokens=length), seed=at, key=length)
        for at, length in enumerate(lengths)
    )
    seen = []
    while engine.running:
        seen.append([done.key for done in engine.poll()])
    assert seen == [[2, 2], [5], [9], [30]]
    assert engine.poll() == engine.generate([]) == []


def test_poll_returns_after_its_timeout_with_work_done(engine):
    engine.submit([Request([1], Sampling(max_tokens=40))])
    assert engine.poll(timeout=0) == []
    for _ in range(39):
        finished = engine.poll(timeout=0)
    assert len(finished) == 1


def test_cancel_drops_all_requests_and_returns_partial_replies(model):
    engine = TransformersEngine(model, end_ids=[], max_rows=2)
    engine.submit(Request([at], Sampling(max_tokens=50), seed=at, key=at) for at in range(4))
    for _ in range(5):
        engine.poll(timeout=0)
    dropped = engine.cancel()
    assert {done.key: len(done.ids) for done in dropped} == {0: 5, 1: 5, 2: 0, 3: 0}
    assert {done.finish for done in dropped} == {FinishReason.CANCELLED}
    assert engine.running == 0
    assert engine.poll() == []
    requests = some_requests(5)
    assert worst_error(model, requests, engine.generate(requests)) <= TOLERANCE


def test_an_interrupt_leaves_an_engine_that_works(engine, monkeypatch):
    requests, usual = some_requests(6, most=20), decode.sample
    wanted, calls = engine.generate(requests), iter(range(4))
    with monkeypatch.context() as patch:
        patch.setattr(decode, "sample", lambda *args: usual(*args) if next(calls) < 3 else stop())
        with pytest.raises(KeyboardInterrupt):
            engine.generate(requests)
    assert engine.running == 0
    assert [done.ids for done in engine.generate(requests)] == [done.ids for done in wanted]


def stop():
    raise KeyboardInterrupt


def test_requests_of_a_failed_step_are_kept(engine, monkeypatch):
    requests = some_requests(5)
    wanted = engine.generate(requests)
    engine.submit(requests)
    with monkeypatch.context() as patch:
        patch.setattr(decode, "sample", lambda *args: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            engine.poll()
    assert engine.running == 5
    done = drain(engine)
    found = {one.key: one.ids for one in done}
    assert [found[request.key] for request in requests] == [one.ids for one in wanted]


def test_running_out_of_memory_loses_no_reply(model, engine, monkeypatch):
    requests = {
        "first": Request([1, 2, 3], Sampling(max_tokens=30), seed=1, key="first"),
        "long": Request(list(range(200)), Sampling(max_tokens=3), seed=2, key="long"),
    }
    engine.submit([requests["first"]])
    engine.poll(timeout=0)
    engine.submit([requests["long"]])
    usual, calls = slots._SlotLayer.make_room, iter(range(100))

    def make_room(layer, *new):
        if next(calls) == 1:
            raise torch.OutOfMemoryError("no room for the second layer")
        usual(layer, *new)

    with monkeypatch.context() as patch:
        patch.setattr(slots._SlotLayer, "make_room", make_room)
        with pytest.raises(torch.OutOfMemoryError):
            engine.poll()
    done = drain(engine)
    assert worst_error(model, [requests[one.key] for one in done], done) <= TOLERANCE
    assert sorted(len(one.ids) for one in done) == [3, 30]


# --- refusals -----------------------------------------------------------------------------


@pytest.mark.parametrize("prompt", [[], list(range(512 // 2)) * 2, [0, VOCABULARY], [-1]])
def test_a_prompt_that_cannot_be_answered_is_refused_with_all_others(engine, prompt):
    with pytest.raises(ConfigError, match="must"):
        engine.submit([Request([1]), Request(prompt)])
    assert engine.running == 0


def test_a_closed_engine_refuses_requests(model):
    engine = TransformersEngine(model)
    engine.submit([Request([1])])
    engine.close()
    engine.close()
    for call in (lambda: engine.generate([Request([1])]), lambda: engine.score([[1, 2]])):
        with pytest.raises(EngineError, match="closed"):
            call()


def test_settings_are_checked(model):
    for name, value in (("max_rows", 0), ("context_length", 1000)):
        with pytest.raises(ConfigError, match=name):
            TransformersEngine(model, **{name: value})
    engine = TransformersEngine(model, context_length=10)
    assert len(engine.generate([Request([1, 2], seed=1)])[0].ids) <= 8
    engine.submit([Request([1])])
    with pytest.raises(ConfigError, match="idle"):
        engine.generate([Request([1])])


def test_logits_that_are_no_numbers_are_an_error():
    model = tiny_model()
    engine = TransformersEngine(model)
    with torch.no_grad():
        model.get_output_embeddings().weight[3, 3] = float("nan")
    with pytest.raises(EngineError, match="not finite"):
        engine.generate([Request([1, 2, 3])])
    with pytest.raises(ConfigError, match="not finite"):
        TransformersEngine(model)
