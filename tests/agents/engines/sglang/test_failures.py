"""SGLangEngine and a server that hangs, dies, refuses, answers nonsense or is not there."""

import contextlib
import json
import math
import socket

import pytest
import torch
from transformers import Gemma3Config, GenerationConfig

from llm_gym.core.errors import ConfigError
from llm_gym_agents.engines.base import EngineError, FinishReason
from llm_gym_agents.engines.publish import Publisher
from llm_gym_agents.engines.sglang import engine as sglang_engine
from llm_gym_agents.engines.sglang import server as sglang_server
from llm_gym_agents.engines.sglang.engine import SGLangEngine
from tests.agents.checks import is_one_line
from tests.agents.engines.scripts import run_python
from tests.agents.engines.truth import request
from tests.agents.tiny import save_tiny, tiny_model


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """Wait only briefly for a server that does not answer."""
    monkeypatch.setattr(sglang_engine, "ABORT_S", 0.5)
    monkeypatch.setattr(sglang_server, "_PAUSE_S", 0.02)


# --- giving up --------------------------------------------------------------------------------


def test_cancelled_requests_are_dropped_here_and_on_the_server(fixed, connect):
    engine = connect(fixed, max_rows=2)
    fixed.held = {20}
    engine.submit([request(20, at) for at in range(4)])
    fixed.wait_for(2)
    dropped = engine.cancel()
    assert sorted(done.key for done in dropped) == [0, 1, 2, 3]
    assert {done.finish for done in dropped} == {FinishReason.CANCELLED}
    assert engine.running == 0
    fixed.wait_for(0)
    assert {"rid": "", "abort_all": True} in fixed.bodies("/abort_request")
    assert len(fixed.bodies("/generate")) == 2, "those that waited here were never sent"
    [done] = engine.generate([request(9, "new")])
    assert done.key == "new"
    engine.update_weights(tiny_model().named_parameters(), 1)


def test_a_server_that_does_not_abort_is_given_up(fixed, connect, monkeypatch):
    monkeypatch.setattr(sglang_engine, "ABORT_S", 0.3)
    engine = connect(fixed)
    fixed.held = {20}
    fixed.abort = lambda: None
    engine.submit([request(20)])
    fixed.wait_for(1)
    assert len(engine.cancel()) == 1
    with pytest.raises(EngineError, match="closed"):
        engine.submit([request(9)])


def test_an_interrupt_leaves_an_engine_that_can_be_used(fixed, connect, monkeypatch):
    engine = connect(fixed)
    fixed.held = {20}
    with monkeypatch.context() as patch:
        patch.setattr(engine, "_completion", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            engine.generate([request(20), request(9)])
    assert engine.running == 0
    assert len(engine.generate([request(9)])) == 1


def test_a_silent_server_is_given_up_after_a_while(fixed, connect):
    engine = connect(fixed, stall_s=0.3)
    fixed.held = {20}
    engine.submit([request(20), request(20)])
    with pytest.raises(EngineError, match=r"0\.3 s; 2 more"):
        engine.poll()
    with pytest.raises(EngineError, match="closed"):
        engine.poll()


@pytest.mark.parametrize(
    ("end", "why"),
    [
        (lambda server: server.abort(), "abort.*; 2 more"),
        (lambda server: server.die(), "; 2 more"),
    ],
)
def test_an_aborted_reply_is_an_error_and_closes_the_engine(fixed, connect, end, why):
    engine = connect(fixed)
    fixed.held = {20}
    engine.submit([request(20, at) for at in range(3)])
    fixed.wait_for(3)
    end(fixed)
    with pytest.raises(EngineError, match=why):
        engine.poll()
    assert engine.running == 0
    for call in (engine.poll, lambda: engine.submit([]), lambda: engine.score([[1, 2]])):
        with pytest.raises(EngineError, match="closed"):
            call()
    assert engine.cancel() == []
    engine.close()


def test_a_request_that_the_server_refuses_is_an_error(fixed, connect):
    engine = connect(fixed, stall_s=20)
    fixed.refuses["/generate"] = "no such regex"
    with pytest.raises(EngineError, match="no such regex"):
        engine.generate([request(9)])


@pytest.mark.slow
def test_a_hanging_server_does_not_keep_python_from_ending(tiny_folder, fixed):
    fixed.held = {20}
    script = f"""
        from llm_gym_agents.engines.base import EngineError, Request
        from llm_gym_agents.engines.sglang.engine import SGLangEngine
        engine = SGLangEngine({tiny_folder!r}, url={fixed.url!r}, stall_s=0.3)
        engine.submit([Request([20, 1])])
        try:
            engine.poll()
        except EngineError as error:
            print(error)
        engine = SGLangEngine({tiny_folder!r}, url={fixed.url!r})
        engine.submit([Request([20, 1])])
        print("left alone with one")
    """
    printed = run_python(script)
    assert "said nothing for 0.3 s" in printed
    assert printed.endswith("left alone with one\n")


# --- which server -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("url", url) for url in ("127.0.0.1:30000", "ftp://here", "http://", "http://a:b", "")),
        ("stall_s", 0),
        ("max_rows", 0),
        ("arguments", ["--tp-size", "2"]),
    ],
)
def test_wrong_settings_are_refused(tiny_folder, fixed, name, value):
    with pytest.raises(ConfigError, match=name):
        SGLangEngine(tiny_folder, **{"url": fixed.url, name: value})


def test_a_url_without_a_server_is_an_error(tiny_folder, monkeypatch):
    monkeypatch.setattr(sglang_server, "FIND_S", 0.1)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(EngineError, match=f"{url}.*refused$"):
            SGLangEngine(tiny_folder, url=url)


def test_a_server_without_server_info_is_refused(tiny_folder, fixed, monkeypatch):
    monkeypatch.setattr(sglang_server, "FIND_S", 0.1)
    with pytest.raises(EngineError, match="404"):
        SGLangEngine(tiny_folder, url=f"{fixed.url}/v1")
    fixed.refuses["/server_info"] = "not now"
    with pytest.raises(EngineError, match="not now"):
        SGLangEngine(tiny_folder, url=fixed.url)


def test_context_length_and_dtype_come_from_the_server(fixed, connect):
    assert connect(fixed).context_length == 512
    assert connect(fixed, max_model_len=40).context_length == 40
    fixed.sampler.about = {"dtype": "bfloat16", "context_length": 99}
    engine = connect(fixed)
    assert (engine.context_length, engine.dtype) == (99, torch.bfloat16)
    assert connect(fixed, max_model_len=500).context_length == 99, "no more than the server takes"
    fixed.sampler.about = {"context_length": "many"}
    with pytest.raises(EngineError, match="many"):
        connect(fixed)
    fixed.sampler.about = {"dtype": "auto"}  # SGLang makes float16 of a float32 model then
    assert connect(fixed).dtype is torch.float16


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


TOKENS = [
    None, "12", [1, 2], [[-0.5]], [[-0.5, 1]] * 100,
    [[-0.5, "1"]], [[-0.5, 1.5]], [[-0.5, -2]], [[-0.5, 10**12]], [[-0.5, True]],
    [[10**400, 1]], [["x", 1], [-1.0, 2]], [[math.nan, 1], [-1.0, 2]], [[3.0, 1], [-1.0, 2]],
]  # fmt: skip
MALFORMED = [
    *(answer(meta_info=about) for about in (None, [])),
    *(answer(meta={"output_token_logprobs": tokens}) for tokens in TOKENS),
    *(answer(meta={"finish_reason": why}) for why in (None, "stop", {"type": ["stop"]}, {})),
]
BYTES = [b"", b"null", b"[]", b"{}", b'"text"', b"not json", b"\xff\xfe", b"[" * 100_000]


@pytest.mark.parametrize("body", [*BYTES, *(json.dumps(each).encode() for each in MALFORMED)])
def test_a_malformed_answer_is_a_one_line_error(fixed, connect, body):
    engine = connect(fixed)
    fixed.answers["/generate"] = json.dumps(answer()).encode()  # changed below
    [done] = engine.generate([request(9, max_tokens=4)])
    assert (done.ids, done.log_probs) == ([1, 2], [-0.5, -0.25])
    fixed.answers["/generate"] = body
    with pytest.raises(EngineError, check=is_one_line) as found:
        engine.generate([request(9, max_tokens=4)])
    assert len(str(found.value)) < 1000


@pytest.mark.parametrize("rows", [None, [], [[None, 1, None]], [[None, 9], ["a", 5], [-1, 6]]])
def test_malformed_scores_are_an_error(server, connect, rows):
    engine = connect(server)
    server.answers["/generate"] = json.dumps(answer(meta={"input_token_logprobs": rows})).encode()
    with pytest.raises(EngineError, match="scores"):
        engine.score([[9, 5, 6]])


def test_an_answer_that_trickles_in_has_a_deadline(fixed, connect, monkeypatch):
    monkeypatch.setattr(sglang_server, "CALL_S", 0.3)
    engine = connect(fixed)
    fixed.trickles.add("/generate")
    with pytest.raises(EngineError, match="timed out"):
        engine.generate([request(9, max_tokens=4)])
    fixed.dead = True


@pytest.mark.parametrize("path", ["/update_weights_from_disk", "/flush_cache"])
@pytest.mark.parametrize("body", [b"null", b"[1]", b'{"ranks": 7}', b'"x"', b"[" * 100_000])
def test_a_malformed_answer_to_a_push_is_an_error(server, connect, path, body):
    server.deaf = True
    server.answers[path] = body
    with pytest.raises(EngineError, check=is_one_line):
        Publisher(connect(server), tiny_model(seed=3)).publish(1)


def test_end_ids_come_from_config_generation_config_and_tokenizer(tmp_path, fixed):
    folder = save_tiny(tmp_path)
    GenerationConfig(eos_token_id=[258, 260]).save_pretrained(folder)
    with contextlib.closing(SGLangEngine(folder, url=fixed.url)) as engine:
        assert engine.end_ids == {258, 260}


def test_the_config_of_a_vision_model_is_read(tmp_path, fixed):
    text = {"vocab_size": 300, "num_hidden_layers": 1, "max_position_embeddings": 64}
    Gemma3Config(text_config=text).save_pretrained(tmp_path)
    with contextlib.closing(SGLangEngine(str(tmp_path), url=fixed.url)) as engine:
        assert engine.context_length == 64
        assert len(engine.generate([request(299, max_tokens=3)])[0].ids) == 3
        with pytest.raises(ConfigError, match="299"):
            engine.submit([request(300)])


def test_a_damaged_config_is_a_one_line_error(tmp_path, fixed):
    (tmp_path / "config.json").write_text('{"a":')
    with pytest.raises(ConfigError, match="no model", check=is_one_line):
        SGLangEngine(str(tmp_path), url=fixed.url)
