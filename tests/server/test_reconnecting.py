"""Connections break, servers restart, and some answer nonsense."""

import re
import socket
import threading

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded

import llm_gym
from llm_gym.core.errors import RemoteError
from llm_gym.vector import RowsError
from tests.local_http import LocalHandler, LocalServer
from tests.server.servers import Caller, Hanging, name, serving

GAME = "llm_gym/TextGameEasy-v0"


class CuttingProxy:
    """Passes bytes on to a server, and hangs up in the middle of every third answer."""

    def __init__(self, server):
        self._server, self.cuts, self._answers = server, 0, 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._listener.close()

    def _accept(self):
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(sock,), daemon=True).start()

    def _pass_on(self, sock):
        with sock, socket.create_connection((self._server.host, self._server.port)) as other:
            while request := read_message(sock):
                # What a proxy does, so that the Host header names the server.
                mine, its = (
                    url.removeprefix("http://").encode() for url in (self.url, self._server.url)
                )
                other.sendall(request.replace(mine, its))
                answer = read_message(other)
                self._answers += 1
                if self._answers % 3 == 0:
                    self.cuts += 1
                    sock.sendall(answer[: len(answer) // 2])
                    return  # the server has played it, and the player does not know
                sock.sendall(answer)


def read_message(sock):
    """Return the next HTTP message, or nothing at the end."""
    text = b""
    while b"\r\n\r\n" not in text:
        if not (part := sock.recv(1 << 16)):
            return b""
        text += part
    head, _, body = text.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    while len(body) < (int(length[1]) if length else 0):
        body += sock.recv(1 << 16)
    return head + b"\r\n\r\n" + body


def trace(env, seed, moves=12):
    steps = [env.reset(seed=seed)]
    for move in range(moves):
        steps.append(env.step(("look", "go north", "nonsense")[move % 3]))
    return steps


def test_a_connection_that_breaks_in_mid_answer_repeats_no_step():
    local = gym.make(GAME)
    with serving(GAME) as server:
        proxy = CuttingProxy(server)
        env = gym.make("llm_gym/Remote-v0", url=proxy.url)
        for seed in range(3):
            assert trace(env, seed) == trace(local, seed)
        assert proxy.cuts > 5
        caller = Caller(server)
        assert caller.count("steps") == 36  # none was played twice
        assert caller.count("sessions") == 1
        env.close()
        proxy.close()


def test_a_lost_session_fails_its_episode_and_the_next_one_works():
    first = serving(GAME)
    with first:
        env = gym.make("llm_gym/Remote-v0", url=first.url, tries=1)
        first_reset = env.reset(seed=4)
        env.step("look")
        first.sessions.end_idle(now=float("inf"))
        with pytest.raises(RemoteError, match="no such session"):
            env.step("look")
        assert env.reset(seed=4) == first_reset
    with pytest.raises(RemoteError, match="no server answers"):
        env.step("look")
    with serving(GAME, port=first.port) as second:
        with pytest.raises(ResetNeeded, match="has failed"):
            env.step("look")
        assert env.reset(seed=4) == first_reset
        assert Caller(second).count("sessions") == 1
        env.close()


ABOUT = {
    "protocol": 1, "version": "0", "env_id": "x", "system_prompt": "", "has_splits": False,
    "observation": {"max_length": 10, "examples": []},
    "action": {"max_length": 10, "examples": []},
}  # fmt: skip
STEP = ["text", 0.0, False, False, {}]
RESET = ["text", {}, None, ""]
NONSENSE = {
    "no JSON": b"<html>", "half of it": b'{"rows": [', "a list": [], "no rows": {},
    "too many rows": {"rows": [STEP, STEP]}, "too few": {"rows": []}, "a number": {"rows": [3]},
    "an unknown error": {"rows": [{"error": "boom", "message": "x"}]},
    "an error without words": {"rows": [{"error": "failed"}]},
    "a short step": {"rows": [["text", 0.0]]},
    "no text": {"rows": [[3, 0.0, False, False, {}]]},
    "a reward that is text": {"rows": [["text", "3", False, False, {}]]},
    "a reward that is a flag": {"rows": [["text", True, False, False, {}]]},
    "a reward that no float holds": {"rows": [["text", 10**400, False, False, {}]]},
    "a flag that is a number": {"rows": [["text", 0.0, 0, False, {}]]},
    "an info that is a list": {"rows": [["text", 0.0, False, False, []]]},
    "an odd code": {"rows": [["text", 0.0, False, False, {"$exec": "x"}]]},
    "deep": b'{"rows": [["text", 0.0, false, false, ' + b'{"a":' * 50_000 + b"]}",
    "lost for ever": {"rows": [{"error": "lost", "message": "x"}]},
}  # fmt: skip
ODD_RESETS = {
    "short": ["text", {}],
    "no text": [3, {}, None, ""],
    "an instance that is a list": ["text", {}, [], ""],
    "a prompt that is none": ["text", {}, None, None],
    "an info that is a list": ["text", [], None, ""],
}
ODD_CALLS = {
    "oracle_action": ([3], [], ["left", "right"], [["left"]], [None]),
    "oracle_value": (["much"], [True], [None], [10**400]),
    "legal_actions": ([3], ["left"], [[3]], [{"left": 1}]),
}


class WrongServer(LocalServer):
    """Answers the operation ``wrong_at`` with ``reply``, and others well."""

    def __init__(self, reply, about=ABOUT, wrong_at="step"):
        super().__init__(_WrongHandler)
        self.reply, self.about, self.wrong_at = reply, about, wrong_at


class _WrongHandler(LocalHandler):
    def do_GET(self):
        self.say(200, self.server.about)

    def do_POST(self):
        operation = self.read()["rows"][-1][2]
        right = {"reset": RESET, "step": STEP, "call": ["left"], "close": []}[operation]
        self.say(200, self.server.reply if operation == self.server.wrong_at else {"rows": [right]})


# The last is a body without an end.
@pytest.mark.parametrize(
    ("reply", "why"),
    [*((each, None) for each in NONSENSE.values()), (b'{"rows": [["' + b"x" * (2 << 20), "1 MiB")],
    ids=[*NONSENSE, "endless"],
)
def test_an_invalid_answer_raises_a_remote_error(reply, why, monkeypatch):
    monkeypatch.setattr("llm_gym.evaluate.endpoint.http.MAX_BODY_BYTES", 1 << 20)
    with WrongServer(reply) as server:
        env = gym.make("llm_gym/Remote-v0", url=server.url, tries=1)
        env.reset(seed=0)
        with pytest.raises(RemoteError, match=why):
            env.step("x")
        env.close()


@pytest.mark.parametrize("row", ODD_RESETS.values(), ids=ODD_RESETS)
def test_an_invalid_answer_to_reset_raises_and_the_next_reset_works(row):
    with WrongServer({"rows": [row]}, wrong_at="reset") as server:
        env = gym.make("llm_gym/Remote-v0", url=server.url, tries=1, disable_env_checker=True)
        envs = llm_gym.make_vec("llm_gym/Remote-v0", 1, url=server.url, tries=1)
        for each, kind in ((env, RemoteError), (envs, RowsError)):
            with pytest.raises(kind) as caught:
                each.reset(seed=0)
            assert "\n" not in str(caught.value)
        server.wrong_at = None  # from now on the answers are right
        assert env.reset(seed=0) == ("text", {})
        assert list(envs.reset(seed=0)[0]) == ["text"]
        env.close()
        envs.close()


@pytest.mark.parametrize(
    ("name", "answer"), [(name, each) for name, all_ in ODD_CALLS.items() for each in all_]
)
def test_an_invalid_answer_to_a_call_raises_and_the_episode_goes_on(name, answer):
    with WrongServer({"rows": [answer]}, wrong_at="call") as server:
        env = gym.make("llm_gym/Remote-v0", url=server.url, tries=1)
        envs = llm_gym.make_vec("llm_gym/Remote-v0", 1, url=server.url, tries=1)
        env.reset(seed=0)
        envs.reset(seed=0)
        with pytest.raises(RemoteError):
            getattr(env.unwrapped, name)()
        with pytest.raises(RowsError):
            envs.call(name)
        assert env.step("x")[0] == envs.step(["x"])[0][0] == "text", "the episode goes on"
        env.close()
        envs.close()


class Careless(Hanging):
    """Its built-in players return wrong types."""

    def oracle_value(self):
        return np.float32("nan")

    def legal_actions(self):
        return ("left",)

    def oracle_action(self):
        return np.int64(3)


def test_a_players_wrong_return_type_fails_its_own_call_only():
    with serving("odd", make=Careless) as server:
        rows = [[name(), 1, "reset", [0, None]], [name(1), 1, "reset", [0, None]]]
        calls = [[name(), 2, "call", "oracle_action"], [name(), 3, "call", "oracle_value"]]
        answers = Caller(server).rows(*rows, *calls, [name(1), 2, "call", "legal_actions"])
    assert answers[2]["error"] == "failed"
    assert answers[3:] == [[{"$float": "NaN"}], [["left"]]]


@pytest.mark.parametrize(
    "about",
    [
        [], ABOUT | {"protocol": 2}, ABOUT | {"system_prompt": 3},
        ABOUT | {"observation": {"max_length": "9", "examples": []}},
        ABOUT | {"action": {"max_length": -1, "examples": []}},
    ],
    ids=str,
)  # fmt: skip
def test_a_bad_description_of_the_server_raises_a_remote_error(about):
    with WrongServer({}, about) as server, pytest.raises(RemoteError, match="is no llm-gym server"):
        gym.make("llm_gym/Remote-v0", url=server.url, tries=1)
