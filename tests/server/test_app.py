"""The plain protocol, row by row."""

import base64
import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager

import gymnasium as gym
import pytest

from llm_gym.core.errors import ConfigError
from llm_gym.server.app import Guard, read_jobs
from llm_gym.server.sessions import ServerLimits
from tests.cli.errors import refused
from tests.server.servers import Caller, Hanging, ask_raw, name, serving


@pytest.fixture(scope="module")
def caller():
    with serving() as server:
        yield Caller(server)


def test_a_repeated_row_gets_the_same_answer_and_no_second_step(caller):
    row = [name(2), 2, "step", "1"]
    caller.rows([name(2), 1, "reset", [0, None]])
    first, again = caller.rows(row, row)
    assert again == first
    assert caller.rows(row) == [first]
    assert caller.rows([name(2), 3, "step", "1"])[0][4]["turn"] == 2


def test_wrong_sequence_numbers_and_unknown_sessions_change_nothing(caller):
    caller.rows([name(3), 1, "reset", [0, None]])
    early, late, unknown, unknown_reset = caller.rows(
        [name(3), 3, "step", "1"],
        [name(3), 0, "step", "1"],
        [name(99), 2, "step", "1"],
        [name(98), 2, "reset", [0, None]],
    )
    assert (early["error"], late["error"]) == ("order", "order")
    assert (unknown["error"], unknown_reset["error"]) == ("lost", "lost")
    assert caller.rows([name(3), 2, "step", "1"])[0][4]["turn"] == 1


def test_calls_and_options_that_are_not_allowed_are_refused():
    with serving("llm_gym/Sokoban-v0", players=("solver",)) as server:
        caller = Caller(server)
        answers = caller.rows(
            [name(), 1, "reset", [0, {"split": "train"}]],
            [name(), 2, "call", "solver_action"],
            [name(), 3, "call", "oracle_action"],
            [name(), 4, "call", "close"],
            [name(), 5, "call", "__class__"],
            [name(), 6, "reset", [0, {"path": "/etc/passwd"}]],
            [name(), 7, "reset", [-1, None]],
        )
    env = gym.make("llm_gym/Sokoban-v0")
    env.reset(seed=0, options={"split": "train"})
    assert answers[1] == [env.unwrapped.solver_action()]
    assert [answer["error"] for answer in answers[2:]] == ["refused"] * 5


BAD = {
    "nothing": b"", "no JSON": b"\xff{", "deep": b"[" * 100_000, "a list": b"[]", "no rows": b"{}",
    "digits": b'{"rows":[["x",' + b"9" * 5000 + b',"step","a"]]}',
    "rows of another kind": b'{"rows": 3}',
    "a short row": b'{"rows": [["x", 1, "step"]]}',
    "a session that is a list": b'{"rows": [[["x"], 1, "step", "a"]]}',
    "a number that is a flag": b'{"rows": [["x", true, "step", "a"]]}',
    "an unknown operation": b'{"rows": [["x", 1, "eval", "a"]]}',
    "an operation that is a list": b'{"rows": [["x", 1, ["step"], "a"]]}',
    "an action that is a list": b'{"rows": [["x", 1, "step", ["a"]]]}',
    "a seed that is text": b'{"rows": [["x", 1, "reset", ["1", null]]]}',
    "a reset without options": b'{"rows": [["x", 1, "reset", [1]]]}',
}  # fmt: skip


@pytest.mark.parametrize("body", BAD.values(), ids=BAD)
def test_a_malformed_request_is_a_config_error(body):
    with pytest.raises(ConfigError, match=r"must|takes"):
        read_jobs(body, ServerLimits())


def test_a_malformed_request_is_refused_and_costs_no_session(caller):
    before = caller.count("sessions")
    status, body = caller.refused({"rows": [["x", 1, "step"]]})
    assert status == 400
    assert "row 0" in body
    assert caller.refused({}, "/v2/rows")[0] == 404
    assert caller.count("sessions") == before


def test_limits_of_sessions_rows_bytes_and_turns_hold():
    limits = ServerLimits(sessions=2, rows=3, body_bytes=5000, episode_turns=2)
    with serving("llm_gym/Sokoban-v0", limits=limits) as server:
        caller = Caller(server)
        resets = caller.rows(*([name(row), 1, "reset", [0, None]] for row in range(3)))
        assert resets[2]["error"] == "full"
        assert caller.rows([name(0), 2, "close", None]) == [[]]
        assert isinstance(caller.rows([name(2), 1, "reset", [0, None]])[0], list)
        assert caller.refused({"rows": [[name(1), 2, "step", "x"]] * 4})[0] == 400
        assert caller.refused({"rows": [[name(1), 2, "step", "x" * 5000]]})[0] == 413
        first, second, third = caller.rows(
            [name(1), 2, "step", "x"], [name(1), 3, "step", "x"], [name(1), 4, "reset", [0, None]]
        )
        assert first[2:4] == [False, False]
        assert second[2:4] == [False, True]
        assert second[4]["stop_reason"] == "max_steps"
        assert isinstance(third, list)


def test_values_that_json_lacks_arrive_encoded():
    with serving("odd", make=Hanging) as server:
        answers = Caller(server).rows(
            [name(), 1, "reset", [0, None]], [name(), 2, "step", "\ud800"]
        )
    assert answers[1][0] == "\ud800"
    odd = {"$dict": [[1, {"$float": "NaN"}]]}
    assert answers[1][4] == {"odd": odd, "place": [1, 2]}


TOKEN = "correct-horse-battery-staple"


def headers(**given):
    return [(key.replace("_", "-").encode(), value.encode()) for key, value in given.items()]


def test_the_guard_checks_host_origin_and_token():
    guard = Guard("127.0.0.1", 8000)
    assert guard.refusal(headers(host="127.0.0.1:8000")) is None
    assert guard.refusal(headers(host="LOCALHOST:8000")) is None
    for host in ("evil.example:8000", "127.0.0.1:80", "127.0.0.1", ""):
        assert guard.refusal(headers(host=host))[0] == 403, host
    for guard in (Guard("127.0.0.1", 8000), Guard("0.0.0.0", 8000, TOKEN)):
        same_origin = headers(host="127.0.0.1:8000", origin="http://127.0.0.1:8000")
        assert guard.refusal([*same_origin, *headers(authorization=f"Bearer {TOKEN}")])[0] == 403
    for host in ("0.0.0.0", "::", "10.0.0.1", "example.com", ""):
        with pytest.raises(ConfigError, match="LLM_GYM_SERVE_TOKEN"):
            Guard(host, 8000)
    with pytest.raises(ConfigError, match="16 ASCII signs"):
        Guard("0.0.0.0", 8000, "short")


def test_a_token_is_taken_from_a_bearer_or_from_the_password_of_a_url():
    guard = Guard("0.0.0.0", 8000, TOKEN)
    basic = base64.b64encode(f"anybody:{TOKEN}".encode()).decode()
    for good in (f"Bearer {TOKEN}", f"bearer  {TOKEN} ", f"Basic {basic}"):
        assert guard.refusal(headers(host="x", authorization=good)) is None, good
    wrong = (f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Basic ???", "Basic", "Bearer é")
    for bad in ("", TOKEN, *wrong):
        status, why = guard.refusal(headers(host="x", authorization=bad))
        assert status == 401, bad
        assert TOKEN not in why


def test_a_token_is_required_on_loopback_too_and_never_shown(capfd):
    with serving(token=TOKEN) as server:
        reset = [name(), 1, "reset", [0, None]]
        status, body = Caller(server).refused({"rows": [reset]})
        assert (status, TOKEN in body) == (401, False)
        wrong = Caller(server, f"{TOKEN}!")
        assert wrong.refused({"rows": [reset]})[0] == 401
        right = Caller(server, TOKEN)
        assert len(right.rows(reset)[0]) == 4
        assert TOKEN not in str(right.http.get("/health", 20))
        assert TOKEN not in repr(vars(server)) + repr(vars(server.app))
    assert TOKEN not in "".join(capfd.readouterr())


def test_other_paths_are_not_served():
    with serving() as server:
        head = f"HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nConnection: close\r\n"
        for path in ("/", "/../etc/passwd", "/v1/rows/../about", "/docs", "/web", "//v1/about"):
            answer = ask_raw(server, f"GET {path} {head}\r\n".encode())
            assert answer.startswith((b"HTTP/1.1 404", b"HTTP/1.1 400")), path
        for path in ("/reset", "/step", "/state", "/mcp"):
            request = f"POST {path} {head}Content-Length: 2\r\n\r\n{{}}"
            assert ask_raw(server, request.encode()).startswith(b"HTTP/1.1 409"), path


@contextmanager
def command(*arguments, **variables):
    process = subprocess.Popen(
        [sys.executable, "-m", "llm_gym", "serve", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, **variables},
    )  # fmt: skip
    try:
        yield process, re.search(r"http\S+", process.stdout.readline())[0]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize(
    "sign", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_a_signal_ends_the_server_cleanly(sign, monkeypatch):
    token = "a-token-of-sixteen-signs"
    env = "llm_gym/GuessTheNumber-v0"
    with command(env, "--port", "0", "--set", "high=5", LLM_GYM_SERVE_TOKEN=token) as started:
        process, url = started
        monkeypatch.setenv("THE_TOKEN", token)
        remote = gym.make("llm_gym/Remote-v0", url=url, token_env="THE_TOKEN")
        assert "from 1 to 5" in remote.reset(seed=0)[0]
        process.send_signal(sign)  # in the middle of an episode
        output, _ = process.communicate(timeout=300)
        assert process.returncode == 0
        assert output == ""
        remote.unwrapped._connection.close()


def test_bad_arguments_of_serve_are_one_sentence(capsys):
    commands = {
        ("llm_gym/Nothing-v0",): "there is no environment",
        ("llm_gym/Echo-v0", "--host", "0.0.0.0"): "needs a token",
        ("llm_gym/Echo-v0", "--port", "99999"): "65535",
        ("llm_gym/Echo-v0", "--limit", "sessions=0"): "sessions",
        ("llm_gym/Echo-v0", "--limit", "sessions=many"): "sessions must be a whole number",
        ("llm_gym/Echo-v0", "--limit", "sesions=3"): "did you mean 'sessions'?",
        ("llm_gym/Echo-v0", "--threads", "-1"): "--threads",
        ("llm_gym/Echo-v0", "--tls-cert", "x.pem"): "belong together",
        ("llm_gym/Echo-v0", "--port", "0", "--tls-cert", "x", "--tls-key", "y"): "certificate",
    }
    for arguments, why in commands.items():
        assert why in refused(capsys, "serve", *arguments), arguments


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_server_that_fails_to_start_raises(monkeypatch):
    server = serving()
    monkeypatch.setattr(server._server, "run", lambda sockets: 1 / 0)
    with pytest.raises(ConfigError, match="did not start"), server:
        pytest.fail("nothing listens")
