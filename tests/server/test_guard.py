"""Who may ask, and what a stranger learns."""

import base64

import pytest

from llm_gym.errors import ConfigError
from llm_gym.server.app import Guard
from tests.server.servers import Caller, ask_raw, name, serving

TOKEN = "correct-horse-battery-staple"


def headers(**given):
    return [(key.replace("_", "-").encode(), value.encode()) for key, value in given.items()]


def test_a_server_on_loopback_answers_to_its_own_names_alone():
    guard = Guard("127.0.0.1", 8000)
    assert guard.refusal(headers(host="127.0.0.1:8000")) is None
    assert guard.refusal(headers(host="LOCALHOST:8000")) is None
    for host in ("evil.example:8000", "127.0.0.1:80", "127.0.0.1", ""):
        assert guard.refusal(headers(host=host))[0] == 403, host


def test_no_page_in_a_browser_is_answered():
    for guard in (Guard("127.0.0.1", 8000), Guard("0.0.0.0", 8000, TOKEN)):
        told = headers(host="127.0.0.1:8000", origin="http://127.0.0.1:8000")
        assert guard.refusal([*told, *headers(authorization=f"Bearer {TOKEN}")])[0] == 403


def test_beyond_loopback_there_is_no_server_without_a_token():
    for host in ("0.0.0.0", "::", "10.0.0.1", "example.com", ""):
        with pytest.raises(ConfigError, match="needs a token: set LLM_GYM_SERVE_TOKEN"):
            Guard(host, 8000)
    with pytest.raises(ConfigError, match="16 ASCII signs"):
        Guard("0.0.0.0", 8000, "short")


def test_a_token_is_taken_from_a_bearer_or_from_the_password_of_a_url():
    guard = Guard("0.0.0.0", 8000, TOKEN)
    basic = base64.b64encode(f"anybody:{TOKEN}".encode()).decode()
    for good in (f"Bearer {TOKEN}", f"bearer  {TOKEN} ", f"Basic {basic}"):
        assert guard.refusal(headers(host="x", authorization=good)) is None, good
    wrong = (
        "",
        TOKEN,
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        "Basic ???",
        "Basic",
        "Bearer é",
    )
    for bad in wrong:
        status, why = guard.refusal(headers(host="x", authorization=bad))
        assert status == 401, bad
        assert TOKEN not in why


def test_a_token_is_wanted_on_loopback_too_where_there_is_one(capfd):
    with serving(token=TOKEN) as server:
        reset = [name(), 1, "reset", [0, None]]
        status, body = Caller(server).refused({"rows": [reset]})
        assert (status, TOKEN in body) == (401, False)
        wrong = Caller(server, {"Authorization": f"Bearer {TOKEN}!"})
        assert wrong.refused({"rows": [reset]})[0] == 401
        right = Caller(server, {"Authorization": f"Bearer {TOKEN}"})
        assert len(right.rows(reset)[0]) == 4
        assert TOKEN not in right.http.get("/metrics", 20)
        assert TOKEN not in repr(vars(server)) + repr(vars(server.app))
    assert TOKEN not in "".join(capfd.readouterr())


def test_nothing_but_the_served_environment_can_be_had():
    with serving() as server:
        for path in ("/", "/../etc/passwd", "/v1/rows/../about", "/docs", "/web", "//v1/about"):
            head = f"Host: 127.0.0.1:{server.port}\r\nConnection: close\r\n\r\n"
            answer = ask_raw(server, f"GET {path} HTTP/1.1\r\n{head}".encode())
            assert answer.startswith((b"HTTP/1.1 404", b"HTTP/1.1 400")), path
        for path in ("/reset", "/step", "/state", "/mcp"):
            answer = ask_raw(
                server,
                f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\n"
                "Content-Length: 2\r\n\r\n{}".encode(),
            )
            assert answer.startswith(b"HTTP/1.1 409"), path
