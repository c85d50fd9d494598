"""Whatever a server answers is a reply or one error of ours, in time, without our key in it."""

import traceback
import urllib.parse

import pytest

from llm_gym.evaluate.endpoint import http
from llm_gym.evaluate.endpoint.client import ChatClient, ContextFullError, EndpointError
from llm_gym.evaluate.endpoint.http import HIDDEN, Backoff
from tests.robustness.replies import REPLIES, HostileServer

KEY = "sk-Very/Secret_0123456789"


@pytest.fixture(scope="module")
def server():
    server = HostileServer()
    yield server
    server.close()


@pytest.mark.parametrize("name", REPLIES)
def test_an_answer_is_a_reply_or_one_error(server, name, monkeypatch, caplog):
    monkeypatch.setenv("LLM_GYM_API_KEY", KEY)
    monkeypatch.setattr(http, "MAX_BODY_BYTES", 4 << 20)
    server.reply = REPLIES[name]
    client = ChatClient(server.url, "m", timeout=0.3, backoff=Backoff(tries=2))
    client._pause = lambda seconds: False
    try:
        reply = client.reply([{"role": "user", "content": "Guess."}])
        said = f"{reply!r} {reply.finish} {reply.text}"
    except (EndpointError, ContextFullError) as error:
        said = "".join(traceback.format_exception(error)) + repr(error.args)
    finally:
        client.stop()
    said += caplog.text
    assert KEY not in said
    assert urllib.parse.quote(KEY, safe="") not in said


def test_a_key_that_json_escapes_is_hidden_where_it_is_recorded(server, monkeypatch):
    monkeypatch.setenv("LLM_GYM_API_KEY", KEY)
    server.reply = REPLIES["the key (json) as the finish"]
    client = ChatClient(server.url, "m", timeout=5)
    assert client.reply([{"role": "user", "content": "Guess."}]).finish == HIDDEN
    client.stop()
