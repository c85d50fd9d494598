"""Any answer of a server becomes a reply or one of our errors, in time, without the key."""

import urllib.parse

import pytest

from llm_gym.evaluate.endpoint import http
from llm_gym.evaluate.endpoint.http import HIDDEN, Backoff
from tests.robustness.replies import REPLIES, HostileServer, ask

KEY = "sk-Very/Secret_0123456789"


@pytest.fixture(scope="module")
def server():
    server = HostileServer()
    yield server
    server.close()


@pytest.mark.parametrize("name", REPLIES)
def test_a_hostile_answer_is_a_reply_or_an_error_without_the_key(server, name, monkeypatch, caplog):
    caplog.set_level("DEBUG", "llm_gym")
    monkeypatch.setenv("LLM_GYM_API_KEY", KEY)
    monkeypatch.setattr(http, "MAX_BODY_BYTES", 4 << 20)
    shown = ask(server, name, timeout=0.3, backoff=Backoff(tries=2)) + caplog.text
    assert KEY not in shown
    assert urllib.parse.quote(KEY, safe="") not in shown
    if name == "the key (json) as the finish":
        assert HIDDEN in shown, "it is hidden, and not lost"
