"""Environments in worker processes: a failure is named, and hits nobody else."""

import multiprocessing
import os
import signal
from functools import partial

import pytest
from gymnasium.error import ResetNeeded

from llm_gym.errors import WorkerError
from llm_gym.vector import RowsError, make_vec, worker_pool
from tests.vector.odd import Odd, pause
from tests.vector.processes import runs


def test_a_row_that_raises_is_named_and_the_others_have_moved(start):
    envs = start(Odd, 4, workers=2, length=9)
    envs.reset(seed=0)
    with pytest.raises(WorkerError, match=r"^row 3 raised KeyError: 'oops'") as caught:
        envs.step(["a", "b", "c", "raise oops"])
    error = caught.value
    assert {row: result[0] for row, result in error.results.items()} == {0: "a", 1: "b", 2: "c"}
    assert "in misbehave" in error.__notes__[0]
    with pytest.raises(ResetNeeded, match="row 3 raised KeyError: 'oops'"):
        envs.step(["a"] * 4)
    assert envs.step_rows({1: "its neighbour"})[1][0] == "its neighbour"
    pids = envs.get_attr("pid")
    envs.reset_rows({3: 0})
    assert envs.step(["again"] * 4)[0] == ["again"] * 4
    assert envs.get_attr("pid") == pids


def test_a_row_that_hangs_is_named_and_its_worker_can_be_started_again(start):
    envs = start(Odd, 4, workers=2, timeout=2.5, length=9)
    envs.reset(seed=0)
    pids = envs.get_attr("pid")
    sentence = r"^row 1 went down with the worker of row 3; row 3 took more than 2.5 s$"
    with pytest.raises(WorkerError, match=sentence) as caught:
        envs.step(["a", "b", "c", "sleep 60"])
    assert sorted(caught.value.results) == [0, 2]
    assert not runs(pids[1])
    assert envs.step_rows({0: "fine", 2: "fine"})[2][0] == "fine"
    with pytest.raises(ResetNeeded, match="row 1 went down with the worker of row 3"):
        envs.step_rows({1: "a"})
    with pytest.raises(RowsError, match="rows 1, 3 lost the worker process; a reset"):
        envs.get_attr("pid")
    envs.reset_rows({3: 0})
    with pytest.raises(ResetNeeded, match="row 1"):  # the new environment has not begun
        envs.step(["a"] * 4)
    envs.reset_rows({1: 0})
    assert envs.step(["again"] * 4)[0] == ["again"] * 4
    assert envs.get_attr("pid")[0] == pids[0]
    assert envs.get_attr("pid")[1] != pids[1]


def test_the_time_limit_is_for_one_row_not_for_all_rows_of_a_worker(start):
    envs = start(Odd, 4, workers=1, timeout=2.5)
    envs.reset(seed=0)
    assert envs.step(["sleep 0.7"] * 4)[0] == ["sleep 0.7"] * 4


def test_a_worker_that_dies_is_noticed_and_can_be_started_again(start):
    envs = start(Odd, 3, workers=3)
    envs.reset(seed=0)
    with pytest.raises(WorkerError, match=r"^row 1 ended its worker process \(exit code 3\)$"):
        envs.step(["a", "exit 3", "c"])
    assert envs.step_rows({0: "a", 2: "c"})[2][0] == "c"
    envs.reset(seed=0)
    assert envs.step(["a", "b", "c"])[0] == ["a", "b", "c"]
    os.kill(envs.get_attr("pid")[2], signal.SIGKILL)
    with pytest.raises(WorkerError, match=r"row 2 ended its worker process \(exit code -9\)"):
        envs.step_rows({2: "c"})


def test_a_death_hidden_by_a_child_that_holds_the_pipe_is_noticed(start):
    class Forks(Odd):
        def misbehave(self, command, rest):
            if command == "fork":
                child = os.fork()
                if child == 0:
                    pause(30)
                    os._exit(0)
                return {"child": child}
            return super().misbehave(command, rest)

    envs = start(Forks, 1, workers=1)
    envs.reset(seed=0)
    child = int(envs.step(["fork"])[4]["child"][0])
    with pytest.raises(WorkerError, match="exit code 5"):
        envs.step(["exit 5"])
    assert runs(child)
    os.kill(child, signal.SIGKILL)


def test_what_cannot_be_sent_fails_its_row_alone(start):
    envs = start(Odd, 4, workers=2)
    envs.reset(seed=0)
    with pytest.raises(RowsError, match="row 0 answered with something that cannot be") as caught:
        envs.step_rows({0: "lock", 1: "a", 2: "b"})
    assert sorted(caught.value.results) == [1, 2]
    envs.reset_rows({0: 0})
    assert envs.step(["a"] * 4)[0] == ["a"] * 4


def test_what_cannot_be_read_fails_the_rows_of_that_message(start):
    envs = start(Odd, 4, workers=2)
    envs.reset(seed=0)
    sentence = r"^rows 1, 3 answered with something unreadable here \(ValueError: invalid literal"
    with pytest.raises(RowsError, match=sentence) as caught:
        envs.step(["a", "a", "a", "unreadable"])
    assert sorted(caught.value.results) == [0, 2]
    envs.reset_rows({1: 0, 3: 0})
    assert envs.step(["a"] * 4)[0] == ["a"] * 4


@pytest.mark.parametrize(
    ("prefix", "sentence"),
    [
        ("raise", r"^row 1 raised ValueError: will not be built"),
        ("exit", r"^row 1 ended its worker process \(exit code 4\)$"),
    ],
)
def test_an_environment_that_cannot_be_built_leaves_no_process(prefix, sentence):
    with pytest.raises(WorkerError, match=sentence):
        make_vec([Odd, partial(Odd, prefix)], workers=2)
    assert multiprocessing.active_children() == []


def test_an_environment_may_have_processes_of_its_own(start):
    class Parent(Odd):
        def misbehave(self, command, rest):
            child = multiprocessing.get_context("fork").Process(target=os.getpid)
            child.start()
            child.join()
            return {"code": child.exitcode}

    envs = start(Parent, 1, workers=1)
    envs.reset(seed=0)
    assert envs.step(["a"])[4]["code"].tolist() == [0]


@pytest.mark.parametrize("moment", ["wait", "dumps", "WorkerProcess.send"])
def test_an_interrupted_call_is_not_answered_later(start, monkeypatch, moment):
    def interrupted(*args):
        if moment == "WorkerProcess.send" and args[0].rows == (0,):
            return send(*args)  # one has its message already, the other has not
        monkeypatch.undo()
        raise KeyboardInterrupt

    send = worker_pool.WorkerProcess.send
    envs = start(Odd, 2, workers=2)
    envs.reset(seed=0)
    monkeypatch.setattr(f"llm_gym.vector.worker_pool.{moment}", interrupted)
    with pytest.raises(KeyboardInterrupt):
        envs.step(["first", "first"])
    if moment != "dumps":
        with pytest.raises(RowsError, match="rows 0, 1 lost the worker process"):
            envs.step(["second", "second"])
        envs.reset(seed=0)
    assert envs.step(["third", "third"])[0] == ["third", "third"]
