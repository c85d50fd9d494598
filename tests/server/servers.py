"""Servers and environments for the tests of ``serve`` and ``remote``."""

import socket
import threading
from contextlib import contextmanager

import gymnasium as gym

from llm_gym.core.spaces import AnyText
from llm_gym.evaluate.endpoint.http import HTTPError, JsonHTTP, Key
from llm_gym.server.run import EnvServer

GUESS = "llm_gym/GuessTheNumber-v0"
EVERYBODY = ("oracle", "solver", "random")


def serving(env_id=GUESS, make=None, **settings):
    """A server, for as long as a ``with`` block."""
    settings.setdefault("players", EVERYBODY)
    return EnvServer(make or (lambda: gym.make(env_id)), env_id, **settings)


def name(number=0):
    return f"a-session-of-test-{number}"


class Caller:
    """Sends rows of the plain protocol as they are."""

    all = []

    def __init__(self, server, token=None):
        self.http = JsonHTTP(server.url, Key(token, "a test") if token else None)
        self.all.append(self.http)

    def rows(self, *rows):
        return self.http.post("/v1/rows", {"rows": rows}, 20)["rows"]

    def refused(self, body, path="/v1/rows"):
        try:
            self.http.post(path, body, 20)
        except HTTPError as error:
            return error.status, error.body
        raise AssertionError("it was not refused")

    def count(self, name):
        return self.http.get("/health", 20)["counts"].get(name, 0)


class Hanging(gym.Env):
    """Echoes the action; "hang" waits until the test is over, "raise" raises."""

    observation_space = action_space = AnyText(1000)
    let_go = threading.Event()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return "hello", {}

    def step(self, action):
        if action == "hang":
            self.let_go.wait(60)
        if action == "raise":
            raise ZeroDivisionError("on demand")
        return action, 0.0, False, False, {"odd": {1: float("nan")}, "place": (1, 2)}


@contextmanager
def raw_socket(server):
    """A bare socket to a server."""
    with socket.create_connection((server.host, server.port), timeout=20) as sock:
        yield sock


def ask_raw(server, request):
    """Send bytes and return all that comes back until the other end closes."""
    with raw_socket(server) as sock:
        sock.sendall(request)
        parts = []
        while part := sock.recv(65536):
            parts.append(part)
        return b"".join(parts)
