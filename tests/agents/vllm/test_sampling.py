"""vLLM answers like the engine that samples with the trainer's own model."""

import re
from dataclasses import replace

import pytest

from llm_gym.core.errors import ConfigError
from llm_gym_agents.engines.base import FinishReason, Request, Sampling
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from tests.agents.engines.truth import worst_error
from tests.agents.vllm.conftest import prompts


def make_requests(count=8, **sampling):
    return [
        Request(prompt, Sampling(**{"max_tokens": 16, **sampling}), seed=seed, key=f"row {seed}")
        for seed, prompt in enumerate(prompts(count))
    ]


@pytest.mark.parametrize("temperature", [1.0, 0.6, 0.0])
def test_log_probs_are_those_of_a_float32_forward(engine, lm, temperature):
    requests = make_requests(temperature=temperature)
    replies = engine.generate(requests)
    assert all(len(reply.ids) == len(reply.log_probs) >= 1 for reply in replies)
    assert worst_error(lm, requests, replies) <= 1e-4


def test_greedy_replies_are_those_of_the_transformers_engine(engine, lm):
    requests = make_requests(temperature=0.0)
    theirs = [reply.ids for reply in engine.generate(requests)]
    assert theirs == [reply.ids for reply in TransformersEngine(lm).generate(requests)]


def test_a_seed_decides_the_reply_whatever_else_runs(engine):
    requests = make_requests()
    together = [reply.ids for reply in engine.generate(requests)]
    alone = [engine.generate([request])[0].ids for request in requests]
    other = [Request(r.prompt, r.sampling, r.seed + 100) for r in requests]
    assert together == alone
    assert together != [reply.ids for reply in engine.generate(other)]


def long_reply(engine, max_tokens):
    """Return a request whose reply does not end by itself, and that reply."""
    requests = make_requests(max_tokens=max_tokens)
    replies = engine.generate(requests)
    return next(
        (request, reply)
        for request, reply in zip(requests, replies, strict=True)
        if reply.finish is FinishReason.LENGTH
    )


def test_a_stop_id_ends_the_reply_and_is_part_of_it(engine):
    request, free = long_reply(engine, 16)
    stop = free.ids[5]
    sampling = replace(request.sampling, stop_ids=(stop,))
    reply = engine.generate([Request(request.prompt, sampling, request.seed)])[0]
    assert reply.ids == free.ids[: free.ids.index(stop) + 1]
    assert reply.finish is FinishReason.STOP


def test_a_stop_string_ends_the_reply_with_its_last_token(engine):
    request, free = long_reply(engine, 32)
    string = engine.tokenizer.decode(free.ids[6:8])
    sampling = replace(request.sampling, stop_strings=(string,))
    reply = engine.generate([Request(request.prompt, sampling, request.seed)])[0]
    assert reply.finish is FinishReason.STOP
    assert reply.ids == free.ids[: len(reply.ids)]
    assert string in engine.tokenizer.decode(reply.ids)
    assert string not in engine.tokenizer.decode(reply.ids[:-1])
    assert len(reply.log_probs) == len(reply.ids)
    assert engine.running == 0


def test_a_pattern_holds_the_whole_reply(engine):
    replies = engine.generate(make_requests(pattern="(go|look) (north|south)", max_tokens=32))
    texts = [engine.tokenizer.decode(reply.ids, skip_special_tokens=True) for reply in replies]
    assert all(re.fullmatch("(go|look) (north|south)", text) for text in texts), texts
    assert len(set(texts)) > 1


def test_a_pattern_of_escaped_words_prints_no_warning(engine, capfd):
    words = re.escape("go to room #1 & look~")
    [reply] = engine.generate(make_requests(1, pattern=words, max_tokens=32))
    text = engine.tokenizer.decode(reply.ids, skip_special_tokens=True)
    assert text == "go to room #1 & look~"
    assert capfd.readouterr().err == ""


def test_a_second_turn_reads_only_what_is_new(engine, monkeypatch):
    known, take = [], engine._take

    def note(output):
        known.append(output.num_cached_tokens)
        return take(output)

    monkeypatch.setattr(engine, "_take", note)
    opening = [at * at % 200 + 1 for at in range(300)]
    [reply] = engine.generate([Request(opening, Sampling(max_tokens=8))])
    engine.generate([Request([*opening, *reply.ids, 1, 2, 3], Sampling(max_tokens=1))])
    first, second = known
    assert first == 0
    assert second >= 256, "all but the last block, of 128 tokens on a CPU"


def test_scores_are_those_of_the_transformers_engine(engine, lm):
    sequences = prompts(3, 20)
    theirs, ours = engine.score(sequences), TransformersEngine(lm).score(sequences)
    for one, other in zip(theirs, ours, strict=True):
        assert one == pytest.approx(other, abs=1e-4)
    with pytest.raises(ConfigError, match="temperature"):
        engine.score(sequences, temperature=0.5)


@pytest.mark.parametrize(
    ("prompt", "what"),
    [([], "511 tokens"), ([1] * 512, "511 tokens"), ([100_000], "token ids"), ([-1], "token ids")],
)
def test_a_prompt_that_cannot_be_answered_is_refused_and_nothing_runs(engine, prompt, what):
    good = Request([1, 2, 3], Sampling(max_tokens=4))
    with pytest.raises(ConfigError, match=what):
        engine.submit([good, Request(prompt, Sampling(max_tokens=4))])
    assert engine.running == 0
    assert len(engine.generate([good])) == 1


def test_a_reply_never_leaves_the_context(engine):
    reply = engine.generate([Request([5] * 500, Sampling(max_tokens=64))])[0]
    assert len(reply.ids) <= 12


def test_every_request_has_parameters_of_its_own(engine, monkeypatch):
    """vLLM may keep what it is given, and reads the seed later."""
    given = []
    monkeypatch.setattr(engine._vllm, "add", lambda name, prompt, own: given.append(own))
    prompt = make_requests(1)[0].prompt
    engine.submit([Request(prompt, Sampling(max_tokens=4), seed=seed) for seed in (3, 4)])
    engine._requests.clear()
    assert [own.seed for own in given] == [3, 4]
