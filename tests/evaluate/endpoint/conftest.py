"""A well-mannered server whose model plays GuessTheNumber, and no key but a test's own."""

import pytest

from tests.evaluate.endpoint.stand_in import StandIn, solver


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    pytest.importorskip("httpx")
    for name in ("LLM_GYM_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server():
    with StandIn(solver) as server:
        yield server
