"""A vLLM that fails or never answers: what was running is lost, with a one-line error."""

import queue
import threading

import pytest

from llm_gym.core.errors import ConfigError
from llm_gym_agents.engines.base import EngineError
from llm_gym_agents.engines.vllm import process, runtime
from llm_gym_agents.engines.vllm.process import VLLMProcess
from tests.agents.checks import is_one_line


class Refused(ValueError):
    """What vLLM raises for a request that it does not like."""


class Played:
    """Both ``vllm.LLM`` and its engine: raises ``raises``."""

    def __init__(self):
        self.llm_engine, self.raises, self.stops = self, None, 0

    def _call(self, *args, **kwargs):
        if self.raises is not None:
            raise self.raises
        return ["done"]

    add_request = step = abort_request = wake_up = _call


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
def test_an_error_inside_vllm_closes_it_with_a_one_line_error(vllm, played, running, way):
    played.raises = RuntimeError("out of luck\nand a page of C++")
    with pytest.raises(EngineError, match=r"out of luck.* 2 ", check=is_one_line):
        WAYS[way](vllm)
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
    with pytest.raises(ConfigError, match="too long"):
        vllm.add("2", [1, 2], None)
    assert (vllm.is_open, played.stops, len(running)) == (True, 0, 2)


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(process, "CHECK_EVERY_S", 0.01)


class LostError(Exception):
    pass


def lost(after):
    """Look around so often, then lose waiting."""
    looks = iter(range(after))

    def look(since):
        if next(looks, None) is None:
            raise LostError

    return look


def watched(look):
    answers = queue.Queue()
    process.wait_with_timeout(answers, look)
    return answers


def test_an_answer_that_is_ready_is_taken_without_a_check():
    answers = watched(lost(0))
    answers.put("first")
    answers.put("second")
    assert [answers.get(), answers.get()] == ["first", "second"]


def test_a_late_answer_is_waited_for():
    looked = threading.Event()
    answers = watched(lambda since: looked.set())
    threading.Thread(target=lambda: looked.wait(120) and answers.put("late"), daemon=True).start()
    assert answers.get() == "late"


def test_a_failed_check_ends_the_wait_and_later_answers_are_still_taken():
    answers = watched(lost(3))
    with pytest.raises(LostError):
        answers.get()
    answers.put("late")
    assert answers.get() == "late"


def test_a_result_or_error_of_a_call_is_passed_on():
    assert process.call_with_timeout(lambda: 7, lost(1000)) == 7
    with pytest.raises(ZeroDivisionError):
        process.call_with_timeout(lambda: 1 / 0, lost(1000))


def raise_timeout():
    raise TimeoutError("its own")


def test_a_timeout_error_of_the_call_itself_is_passed_on():
    with pytest.raises(TimeoutError, match="its own"):
        process.call_with_timeout(raise_timeout, lost(1000))


def test_a_call_that_never_returns_is_left_to_a_daemon_thread():
    never, others = threading.Event(), set(threading.enumerate())
    with pytest.raises(LostError):
        process.call_with_timeout(never.wait, lost(2))
    [left] = set(threading.enumerate()) - others
    assert left.daemon, "Python would wait for it at its end"
    never.set()
