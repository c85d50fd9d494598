"""Waiting for a process that may never answer."""

import queue
import threading

import pytest

from llm_gym_agents.engines.vllm import process


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


def test_an_answer_that_is_there_is_taken_without_a_look():
    answers = watched(lost(0))
    answers.put("first")
    answers.put("second")
    assert [answers.get(), answers.get()] == ["first", "second"]


def test_an_answer_that_comes_late_is_waited_for():
    looked = threading.Event()
    answers = watched(lambda since: looked.set())
    threading.Thread(target=lambda: looked.wait(120) and answers.put("late"), daemon=True).start()
    assert answers.get() == "late"


def test_a_look_ends_the_wait_and_later_answers_are_still_taken():
    answers = watched(lost(3))
    with pytest.raises(LostError):
        answers.get()
    answers.put("late")
    assert answers.get() == "late"


def test_what_a_call_returns_or_raises_is_handed_on():
    assert process.call_with_timeout(lambda: 7, lost(1000)) == 7
    with pytest.raises(ZeroDivisionError):
        process.call_with_timeout(lambda: 1 / 0, lost(1000))


def raise_timeout():
    raise TimeoutError("its own")


def test_a_call_that_times_out_by_itself_is_not_mistaken_for_one_that_runs():
    with pytest.raises(TimeoutError, match="its own"):
        process.call_with_timeout(raise_timeout, lost(1000))


def test_a_call_that_never_returns_is_left_behind_and_keeps_nobody():
    never, others = threading.Event(), set(threading.enumerate())
    with pytest.raises(LostError):
        process.call_with_timeout(never.wait, lost(2))
    [left] = set(threading.enumerate()) - others
    assert left.daemon, "Python would wait for it at its end"
    never.set()
