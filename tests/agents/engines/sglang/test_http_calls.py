"""Many calls at once, and what a connection does when somebody breaks off."""

import threading

import pytest

from llm_gym.endpoint.http import HTTPError, JsonHTTP
from llm_gym_agents.engines.sglang.server import Calls

ONE = {"sampling_params": {"max_new_tokens": 2}}


def asking(first):
    return {"input_ids": [first, 1], **ONE}


@pytest.fixture
def calls(fixed):
    http = JsonHTTP(fixed.url)
    made = Calls(http, "/generate", 3)
    yield made
    made.close()
    http.close()


def said(answer):
    return answer["output_ids"]


def test_answers_come_as_they_are_ready(fixed, calls):
    fixed.held = {20}
    slow, quick = calls.begin(asking(20)), calls.begin(asking(9))
    name, answer = calls.take(20.0)
    assert (name, said(answer)) == (quick, [1, 2])
    assert calls.take(0.0) is None
    assert calls.take(-1.0) is None
    fixed.release()
    name, answer = calls.take(20.0)
    assert (name, said(answer)) == (slow, [1, 2])
    assert calls.busy == 0


def test_at_most_so_many_are_asked_at_once(fixed, calls):
    fixed.held = {20}
    names = [calls.begin(asking(20)) for _ in range(8)]
    fixed.wait_for(3)
    assert calls.busy == 3
    assert len(fixed.bodies("/generate")) == 3
    fixed.release()
    assert sorted(calls.take(20.0)[0] for _ in names) == names
    assert calls._threads == 3


def test_one_thread_does_for_calls_that_follow_each_other(calls):
    for _ in range(5):
        calls.begin(asking(9))
        assert calls.take(20.0) is not None
    assert calls._threads == 1


def test_what_is_dropped_is_neither_sent_nor_answered(fixed, calls):
    fixed.held = {20}
    for _ in range(5):
        calls.begin(asking(20))
    fixed.wait_for(3)
    calls.drop()
    assert calls.busy == 3, "these are with the server"
    fixed.release()
    new = calls.begin(asking(9))
    assert calls.take(20.0)[0] == new
    assert len(fixed.bodies("/generate")) == 4


@pytest.mark.parametrize("body", [{"input_ids": [object()]}, asking(9)])
def test_a_call_that_fails_is_answered_with_its_failure(fixed, calls, body):
    fixed.refuses["/generate"] = "not today"
    calls.begin(body)
    _, answer = calls.take(20.0)
    assert isinstance(answer, HTTPError | TypeError)
    fixed.refuses.clear()
    calls.begin(asking(9))
    assert said(calls.take(20.0)[1]) == [1, 2]


def test_a_connection_that_the_server_closed_is_made_anew(fixed):
    http = JsonHTTP(fixed.url)
    assert http.post("/generate", asking(9))["output_ids"] == [1, 2]
    for plug in http._sockets:
        plug.shutdown(2)  # as a server does to one that has been idle
    assert http.post("/generate", asking(9))["output_ids"] == [1, 2]
    http.close()


def test_an_interrupt_in_the_middle_does_not_spoil_the_next_question(fixed, monkeypatch):
    http = JsonHTTP(fixed.url)
    http.get("/server_info")
    with monkeypatch.context() as patch:

        def interrupt(*_, **__):
            raise KeyboardInterrupt

        patch.setattr("httpcore.HTTP11Connection._receive_response_headers", interrupt)
        with pytest.raises(KeyboardInterrupt):
            http.get("/server_info")
    assert http.get("/server_info")["version"] == "0.5"
    http.close()


def test_closing_frees_whoever_waits(fixed):
    http = JsonHTTP(fixed.url)
    fixed.held = {20}
    met = []

    def wait():
        try:
            http.post("/generate", asking(20))
        except HTTPError as error:
            met.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    fixed.wait_for(1)
    http.close()
    thread.join(120)
    assert not thread.is_alive()
    assert len(met) == 1
    with pytest.raises(HTTPError):
        http.get("/server_info")
    http.close()


def test_a_server_that_takes_too_long_is_an_error(fixed):
    http = JsonHTTP(fixed.url)
    fixed.held = {20}
    with pytest.raises(HTTPError, match="timed out"):
        http.post("/generate", asking(20), timeout=0.1)
    http.close()
