"""A server without faults whose model plays GuessTheNumber, and no API key but a test's own."""

import pytest

from tests.evaluate.endpoint.fake_server import FakeServer, solver


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    pytest.importorskip("httpx")
    for name in ("LLM_GYM_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server():
    with FakeServer(solver) as server:
        yield server
