"""SGLangEngine against a stand-in that speaks SGLang's protocol and computes for real."""

from pathlib import Path

import numpy as np
import pytest

from llm_gym.core.errors import ConfigError
from llm_gym_agents.engines.base import EngineError, FinishReason, Request, Sampling
from tests.agents.engines.truth import TOLERANCE, log_probs, request, some_requests, worst_error
from tests.agents.tiny import tiny_model, tiny_tokenizer

# --- sampling ---------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [1.0, 0.7, 0.0])
def test_ids_and_log_probs_are_those_of_the_model(server, connect, temperature):
    engine = connect(server)
    requests = some_requests(12, longest=20, most=8, temperature=temperature)
    done = engine.generate(requests)
    assert worst_error(server.sampler.model, requests, done) < TOLERANCE
    assert [reply.key for reply in done] == [each.key for each in requests]
    assert all(len(d.ids) <= r.sampling.max_tokens for r, d in zip(requests, done, strict=True))


def test_a_reply_ends_at_its_limit_at_a_stop_id_or_where_the_context_does(fixed, connect):
    engine = connect(fixed, max_model_len=20)
    short, long = engine.generate([request(9, max_tokens=4), request(9, max_tokens=500)])
    assert (short.ids, short.finish) == ([1, 2, 3, 4], FinishReason.LENGTH)
    assert (len(long.ids), long.finish) == (17, FinishReason.LENGTH)
    [stopped] = engine.generate([request(9, max_tokens=3, stop_ids=(3,))])
    assert stopped.finish is FinishReason.STOP
    assert stopped.log_probs == [-1.0] * 3
    sent = fixed.bodies("/generate")[-1]["sampling_params"]
    assert sent["stop_token_ids"] == [3, 258], "the model's own end of text, and ours"


def test_the_request_body_holds_the_sampling_settings(fixed, connect):
    engine = connect(fixed, tokenizer=tiny_tokenizer())
    sampling = Sampling(max_tokens=7, temperature=0.5, top_p=0.9, pattern="(yes|no)")
    engine.generate([Request([np.int64(4), 5], sampling, seed=2**40 + 3), request(9)])
    first, second = sorted(fixed.bodies("/generate"), key=lambda body: body["input_ids"])
    assert first["input_ids"] == [4, 5]
    assert first["return_logprob"] is True
    assert first["sampling_params"] == {
        "max_new_tokens": 7,
        "temperature": 0.5,
        "top_p": 0.9,
        "stop_token_ids": [258],
        "ignore_eos": True,
        "sampling_seed": 3,
        "regex": "(yes|no)",
    }
    assert "regex" not in second["sampling_params"]
    assert "logprob_start_len" not in second, "prompt log-probs would turn the prefix cache off"


@pytest.mark.parametrize(
    ("prompt", "sampling", "what"),
    [
        ([], {}, "511 tokens"),
        ([1] * 512, {}, "511 tokens"),
        ([1, 264], {}, "token ids"),
        ([1], {"stop_strings": ("x",)}, "stop_strings"),
    ],
)
def test_a_request_that_cannot_be_answered_is_refused_with_all_others(
    fixed, connect, prompt, sampling, what
):
    engine = connect(fixed)
    with pytest.raises(ConfigError, match=what):
        engine.submit([request(9), Request(prompt, Sampling(**sampling))])
    assert engine.running == 0
    assert fixed.bodies("/generate") == []


def test_scores_are_those_of_the_model(server, connect):
    sequences = [[5, 6, 7, 8], [9, 10]]
    found = connect(server).score(sequences)
    for ids, scored in zip(sequences, found, strict=True):
        wanted = log_probs(server.sampler.model, ids[:1], ids[1:])
        assert scored == pytest.approx(wanted, abs=TOLERANCE)
    for refused, what in ((sequences, 0.5), "temperature"), (([[1] * 512],), "511 tokens"):
        with pytest.raises(ConfigError, match=what):
            connect(server).score(*refused)


# --- one does not wait for another ------------------------------------------------------------


def test_replies_come_as_each_is_ready_and_others_join_meanwhile(fixed, connect):
    engine = connect(fixed)
    fixed.held = {20, 21}
    engine.submit([request(20, "slow"), request(21, "slower"), request(9, "quick")])
    assert [done.key for done in engine.poll()] == ["quick"]
    assert engine.running == 2
    assert engine.poll(timeout=0.0) == []
    engine.submit([request(9, "joins")])
    assert [done.key for done in engine.poll()] == ["joins"]
    fixed.release(21)
    assert [done.key for done in engine.poll()] == ["slower"]
    fixed.release(20)
    assert [done.key for done in engine.poll()] == ["slow"]
    assert engine.running == 0
    assert engine.poll() == []


# --- weights ----------------------------------------------------------------------------------


def test_the_folder_of_a_push_is_a_model_and_is_gone_afterwards(server, connect):
    engine = connect(server)
    load, seen = server.sampler.load, []

    def look(folder):
        seen.append((folder, sorted(file.name for file in Path(folder).iterdir())))
        load(folder)

    server.sampler.load = look
    engine.update_weights(tiny_model(seed=3).named_parameters(), 1)
    [(folder, files)] = seen
    assert {"config.json", "model.safetensors"} <= set(files)
    assert not Path(folder).exists()


def test_refused_weights_are_an_error_and_the_version_stays(fixed, connect):
    engine, path = connect(fixed), "/update_weights_from_disk"
    fixed.held, fixed.refuses[path] = {20}, "shapes differ"
    with pytest.raises(EngineError, match="shapes differ"):
        engine.update_weights(tiny_model(seed=3).named_parameters(), 3)
    engine.submit([request(20)])
    with pytest.raises(EngineError, match="1 replies"):
        engine.update_weights(tiny_model(seed=3).named_parameters(), 3)
    assert engine.version == 0
    assert len(fixed.bodies(path)) == 1, "not while a reply is running"
