"""What SGLangEngine does about a server that hangs, dies, refuses or is not there."""

import json
import socket

import pytest
import torch

from llm_gym.errors import ConfigError
from llm_gym_agents.engines.base import (
    EngineError,
    FinishReason,
    Request,
    Sampling,
)
from llm_gym_agents.engines.load import load_engine
from llm_gym_agents.engines.sglang import engine as sglang_engine
from llm_gym_agents.engines.sglang import server as sglang_server
from llm_gym_agents.engines.sglang.engine import SGLangEngine
from tests.agents.engines.scripts import run_python
from tests.agents.tiny import save_tiny, tiny_model


def request(first, key=None, **sampling):
    return Request([first, 5, 6], Sampling(**sampling), key=key)


# --- giving up --------------------------------------------------------------------------------


def test_what_is_cancelled_is_dropped_here_and_there(fixed, connect):
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


def test_cancelling_nothing_asks_nothing(fixed, connect):
    assert connect(fixed).cancel() == []
    assert fixed.bodies("/abort_request") == []


def test_a_server_that_lets_nothing_go_is_given_up(fixed, connect, monkeypatch):
    monkeypatch.setattr(sglang_engine, "ABORT_S", 0.3)
    engine = connect(fixed)
    fixed.held = {20}
    fixed.abort = lambda: None
    engine.submit([request(20)])
    fixed.wait_for(1)
    assert len(engine.cancel()) == 1
    with pytest.raises(EngineError, match="the engine is closed"):
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


def test_silence_is_given_up_after_a_while(fixed, connect):
    engine = connect(fixed, stall_s=0.3)
    fixed.held = {20}
    engine.submit([request(20), request(20)])
    with pytest.raises(EngineError) as found:
        engine.poll()
    assert str(found.value) == (
        "SGLang failed: it has said nothing for 0.3 s; 2 more replies were running; build a new "
        "engine to go on"
    )
    with pytest.raises(EngineError, match="the engine is closed"):
        engine.poll()


def test_a_server_that_dies_is_one_sentence_and_nobody_hangs(fixed, connect):
    engine = connect(fixed)
    fixed.held = {20}
    engine.submit([request(20, at) for at in range(3)])
    fixed.wait_for(3)
    fixed.die()
    with pytest.raises(EngineError, match=r"^SGLang failed: http.*; 2 more replies were running"):
        engine.poll()
    assert engine.running == 0
    for call in (engine.poll, lambda: engine.submit([]), lambda: engine.score([[1, 2]])):
        with pytest.raises(EngineError, match="the engine is closed"):
            call()
    assert engine.cancel() == []
    engine.close()


def test_a_server_that_died_between_two_turns_is_one_sentence(fixed, connect):
    engine = connect(fixed)
    engine.generate([request(9)])
    fixed.die()
    for call in (lambda: engine.update_weights([], 1), lambda: engine.score([[1, 2]])):
        with pytest.raises(EngineError, match=r"^SGLang failed at ") as found:
            call()
        assert "\n" not in str(found.value)
    engine.submit([request(9)])
    with pytest.raises(EngineError, match="0 more replies were running"):
        engine.poll()


def test_a_reply_that_the_server_broke_off_is_an_error(fixed, connect):
    engine = connect(fixed)
    fixed.held = {20}
    engine.submit([request(20)])
    fixed.wait_for(1)
    fixed.abort()
    with pytest.raises(EngineError, match="it ended a reply with 'abort': Aborted"):
        engine.poll()


def test_a_request_that_the_server_refuses_is_an_error(fixed, connect):
    engine = connect(fixed)
    fixed.refuses["/generate"] = "no such regex"
    with pytest.raises(EngineError, match=r"answered 400: .*no such regex"):
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
    said = run_python(script)
    assert "said nothing for 0.3 s" in said
    assert said.endswith("left alone with one\n")


# --- which server -----------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["127.0.0.1:30000", "ftp://here", "http://", "http://a:b", ""])
def test_what_is_no_url_is_refused(tiny_folder, url):
    with pytest.raises(ConfigError, match="url must be like http://127"):
        SGLangEngine(tiny_folder, url=url)


def test_a_url_where_nobody_is_is_one_sentence(tiny_folder, monkeypatch):
    monkeypatch.setattr(sglang_server, "FIND_S", 0.1)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(EngineError, match=f"^no SGLang server answers at {url}.*refused$"):
            SGLangEngine(tiny_folder, url=url)


def test_a_server_of_another_kind_is_not_taken_for_one(tiny_folder, fixed, monkeypatch):
    monkeypatch.setattr(sglang_server, "FIND_S", 0.1)
    with pytest.raises(EngineError, match=r"no SGLang server answers at .* answered 404"):
        SGLangEngine(tiny_folder, url=f"{fixed.url}/v1")


def test_a_server_that_does_not_say_what_it_serves_is_refused(tiny_folder, fixed):
    fixed.refuses["/server_info"] = "not now"
    with pytest.raises(EngineError, match=r"does not say what it serves: .*not now"):
        SGLangEngine(tiny_folder, url=fixed.url)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"stall_s": 0}, "stall_s must be above 0"),
        ({"max_rows": 0}, "max_rows at least 1"),
        ({"arguments": ["--tp-size", "2"]}, "arguments are for a server that is started here"),
    ],
)
def test_settings_that_cannot_be_are_refused(tiny_folder, fixed, settings, sentence):
    with pytest.raises(ConfigError, match=sentence):
        SGLangEngine(tiny_folder, url=fixed.url, **settings)


def test_the_server_says_how_long_a_context_is_and_how_precise_it_is(fixed, connect):
    assert connect(fixed).context_length == 512
    assert connect(fixed, max_model_len=40).context_length == 40
    fixed.sampler.about = {"dtype": "bfloat16", "context_length": 99}
    engine = connect(fixed)
    assert (engine.context_length, engine.dtype) == (99, torch.bfloat16)
    fixed.sampler.about = {"dtype": "auto"}  # SGLang makes float16 of a float32 model then
    assert connect(fixed).dtype is torch.float16


def test_the_ids_that_end_a_reply_are_those_of_config_generation_and_tokenizer(
    tmp_path, fixed, connect
):
    folder = save_tiny(tmp_path)
    settings = json.loads((tmp_path / "generation_config.json").read_text())
    settings["eos_token_id"] = [258, 260]
    (tmp_path / "generation_config.json").write_text(json.dumps(settings))
    engine = SGLangEngine(folder, url=fixed.url)
    assert engine.end_ids == {258, 260}
    engine.close()


def test_one_is_loaded_by_name_with_its_tokenizer(tiny_folder, fixed):
    engine, tokenizer = load_engine(tiny_folder, "sglang", {"url": fixed.url, "max_model_len": 50})
    assert isinstance(engine, SGLangEngine)
    assert engine.tokenizer is tokenizer
    assert engine.context_length == 50
    engine.close()
