"""A vLLM that fails: what was running is lost, and one sentence says so. vLLM is played here."""

import pytest

from llm_gym.errors import ConfigError
from llm_gym_agents.engines.base import EngineError
from llm_gym_agents.engines.vllm import runtime
from llm_gym_agents.engines.vllm.process import VLLMProcess


class Refused(ValueError):
    """What vLLM raises for a request that it does not like."""


class Played:
    """Both ``vllm.LLM`` and its engine: fails as it is told to."""

    def __init__(self):
        self.llm_engine, self.raises, self.stops = self, None, 0

    def _say(self, *args, **kwargs):
        if self.raises is not None:
            raise self.raises
        return ["said"]

    add_request = step = abort_request = wake_up = _say


@pytest.fixture
def played(monkeypatch):
    llm = Played()
    monkeypatch.setattr(runtime, "start", lambda path, **settings: llm)
    monkeypatch.setattr(runtime, "refusals", lambda: (Refused,))

    def stop(stopped):
        stopped.stops += 1
        return False

    monkeypatch.setattr(runtime, "stop", stop)
    return llm


@pytest.fixture
def running():
    return {"0": "a reply", "1": "another"}


@pytest.fixture
def vllm(played, running):
    return VLLMProcess("model", separate=False, stall_s=1.0, replies=running)


WAYS = {
    "add": lambda vllm: vllm.add("2", [1, 2], None),
    "step": lambda vllm: vllm.step(),
    "abort": lambda vllm: vllm.abort(["0"]),
    "ask": lambda vllm: vllm.ask("wake_up"),
}


@pytest.mark.parametrize("way", WAYS)
def test_whatever_fails_inside_ends_it_with_one_sentence(vllm, played, running, way):
    played.raises = RuntimeError("out of luck\nand a page of C++")
    with pytest.raises(EngineError, match="vLLM failed: out of luck; it was ended with 2") as e:
        WAYS[way](vllm)
    assert "\n" not in str(e.value)
    assert (vllm.is_open, played.stops, running) == (False, 1, {})
    vllm.close()
    assert played.stops == 1


@pytest.mark.parametrize("way", WAYS)
def test_an_interrupt_ends_nothing(vllm, played, running, way):
    played.raises = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        WAYS[way](vllm)
    assert (vllm.is_open, played.stops, len(running)) == (True, 0, 2)


def test_a_request_that_is_refused_ends_nothing(vllm, played, running):
    played.raises = Refused("too long")
    with pytest.raises(ConfigError, match="vLLM refuses a request: too long"):
        vllm.add("2", [1, 2], None)
    assert (vllm.is_open, played.stops, len(running)) == (True, 0, 2)
