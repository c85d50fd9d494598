"""Environments in worker processes: the same results as in one."""

import multiprocessing
import os
import signal
from functools import partial
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode

from llm_gym.core.errors import WorkerError
from llm_gym.vector import RowsError, make_vec, worker_pool
from tests.processes import is_running
from tests.vector.odd import GUESS, MODES, Odd, assert_same, pause


@pytest.mark.parametrize(
    ("factory", "mode"), [*((Odd, mode) for mode in MODES), (GUESS, AutoresetMode.SAME_STEP)]
)
def test_workers_give_the_results_of_one_process(start, factory, mode):
    settings = {"autoreset_mode": mode}
    here, there = make_vec(factory, 5, **settings), start(factory, 5, workers=2, **settings)
    rng = np.random.default_rng(0)
    assert_same(list(there.reset(seed=3)), list(here.reset(seed=3)))
    for turn in range(12):
        actions = [str(rng.integers(1, 21)) for _ in range(5)]
        stepped = here.step(actions)
        assert_same(list(there.step(actions)), list(stepped))
        over = stepped[2] | stepped[3]
        if over.any() and mode is AutoresetMode.DISABLED:
            options = {"reset_mask": over}
            assert_same(list(there.reset(options=options)), list(here.reset(options=options)))
        assert_same(there.reset_rows({4: turn}), here.reset_rows({4: turn}))
        some = {row: actions[row] for row in (4, 1) if not here._waiting[row]}
        assert_same(there.step_rows(some), here.step_rows(some))
        over = {row: None for row in range(5) if here._waiting[row]}
        if mode is not AutoresetMode.NEXT_STEP:
            assert_same(there.reset_rows(over), here.reset_rows(over))
    assert there.np_random_seed == here.np_random_seed
    assert there.observation_space == here.observation_space
    assert there.single_action_space == here.single_action_space
    assert (there.metadata, there.render_mode) == (here.metadata, here.render_mode)


@pytest.fixture(scope="module")
def kept():
    """Four rows in two workers, for tests after which they go on."""
    envs = make_vec(Odd, 4, workers=2, length=9)
    yield envs
    envs.close()


@pytest.fixture
def four(kept):
    kept.reset(seed=0)
    yield kept
    kept.reset(seed=0)
    assert kept.step(["again"] * 4)[0] == ["again"] * 4


def test_a_call_sends_one_message_to_each_worker_it_needs(four, monkeypatch):
    pids = four.get_attr("pid")
    assert pids == (pids[0], pids[1], pids[0], pids[1])
    assert len({os.getpid(), *pids}) == 3
    sent = []
    send = worker_pool.WorkerProcess.send

    def counted(self, jobs, message):
        sent.append(len(jobs))
        send(self, jobs, message)

    monkeypatch.setattr(worker_pool.WorkerProcess, "send", counted)
    four.step(["a"] * 4)
    four.step_rows({0: "b", 2: "c", 3: "d"})
    four.step_rows({0: "b"})
    assert sent == [2, 2, 2, 1, 1]


def test_workers_step_at_the_same_time(start, tmp_path):
    alone = make_vec(Odd, 2)
    alone.reset(seed=0)
    with pytest.raises(RowsError, match=r"rows 0, 1 .*TimeoutError"):
        alone.step([f"meet 0.2 {tmp_path}"] * 2)
    (tmp_path / str(os.getpid())).unlink()
    envs = start(Odd, 2, workers=2)
    assert len(envs.step([f"meet 20 {tmp_path}"] * 2)[0]) == 2


def test_any_text_reaches_a_worker_unchanged(four):
    actions = ["\ud800\x00 é漢🙂\n", "x" * 1_000_000, "", "c"]
    assert four.step(actions)[0] == actions


def test_environments_of_a_closure_and_of_a_registered_module_are_found(
    start, tmp_path, monkeypatch
):
    (tmp_path / "their_env.py").write_text(
        "from llm_gym.envs.deduction.guess_the_number import GuessTheNumberEnv\n"
        "class Theirs(GuessTheNumberEnv): mark = 'theirs'\n"
    )
    (tmp_path / "their_registry.py").write_text(
        "import gymnasium as gym\n"
        "gym.register('theirs/Game-v0', 'their_env:Theirs', kwargs={'high': 7})\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    high = 9

    class Local(Odd):
        high = 9

    try:
        envs = start(
            ["their_registry:theirs/Game-v0", lambda: gym.make(GUESS, high=high), Local], workers=2
        )
    finally:
        gym.registry.pop("theirs/Game-v0", None)
    assert envs.get_attr("high") == (7, 9, 9)


def test_lambdas_reach_the_workers(four):
    four.set_attr("shout", [str.upper, lambda text: text + "!", str.lower, str.title])
    assert four.call("shout", "a") == ("A", "a!", "a", "A")
    four.reset(options={"rule": lambda: 5})
    assert [options["rule"]() for options in four.get_attr("options")] == [5] * 4
    assert not hasattr(four, "envs")


def test_a_row_that_raises_is_named_and_the_others_have_moved(four):
    pids = four.get_attr("pid")
    with pytest.raises(WorkerError, match=r"^row 3 raised KeyError: 'oops'") as caught:
        four.step(["a", "b", "c", "raise oops"])
    error = caught.value
    assert {row: result[0] for row, result in error.results.items()} == {0: "a", 1: "b", 2: "c"}
    assert "in misbehave" in error.__notes__[0]
    with pytest.raises(ResetNeeded, match="row 3 raised KeyError: 'oops'"):
        four.step(["a"] * 4)
    assert four.step_rows({1: "its neighbour"})[1][0] == "its neighbour"
    four.reset_rows({3: 0})
    assert four.get_attr("pid") == pids


def test_a_row_that_hangs_is_named_and_its_worker_can_be_started_again(start):
    envs = start(Odd, 4, workers=2, timeout=2.5, length=9)
    pids = envs.get_attr("pid")
    sentence = r"^row 1 went down with the worker of row 3; row 3 took more than 2.5 s$"
    with pytest.raises(WorkerError, match=sentence) as caught:
        envs.step(["a", "b", "c", "sleep 60"])
    assert sorted(caught.value.results) == [0, 2]
    assert not is_running(pids[1])
    assert envs.step_rows({0: "fine", 2: "fine"})[2][0] == "fine"
    with pytest.raises(ResetNeeded, match="row 1"):
        envs.step_rows({1: "a"})
    with pytest.raises(RowsError, match="rows 1, 3"):
        envs.get_attr("pid")
    envs.reset_rows({3: 0})
    with pytest.raises(ResetNeeded, match="row 1"):  # the new environment has not begun
        envs.step(["a"] * 4)
    envs.reset_rows({1: 0})
    assert envs.step(["again"] * 4)[0] == ["again"] * 4
    assert envs.get_attr("pid")[0] == pids[0]
    assert envs.get_attr("pid")[1] != pids[1]


def test_the_timeout_is_counted_for_each_row():
    worker = worker_pool.WorkerProcess({0: Odd, 1: Odd})
    worker.position = SimpleNamespace(value=0)
    worker._expect([(0, "step", "a"), (1, "step", "b")])
    counted = []
    for at in (0, 0, 0, 1, 1):
        worker.position.value = at
        worker.look(1.0)
        counted.append(worker.silent)
    assert counted == [0.0, 1.0, 2.0, 0.0, 1.0]


@pytest.mark.slow
def test_the_time_limit_is_for_one_row_not_for_all_rows_of_a_worker(start):
    envs = start(Odd, 4, workers=1, timeout=2.5)
    assert envs.step(["sleep 0.7"] * 4)[0] == ["sleep 0.7"] * 4


def test_a_worker_that_dies_is_noticed_and_can_be_started_again(start):
    envs = start(Odd, 3, workers=3)
    with pytest.raises(WorkerError, match=r"^row 1 ended its worker process \(exit code 3\)$"):
        envs.step(["a", "exit 3", "c"])
    assert envs.step_rows({0: "a", 2: "c"})[2][0] == "c"
    envs.reset(seed=0)
    assert envs.step(["a", "b", "c"])[0] == ["a", "b", "c"]
    os.kill(envs.get_attr("pid")[2], signal.SIGKILL)
    with pytest.raises(WorkerError, match=r"row 2 ended its worker process \(exit code -9\)"):
        envs.step_rows({2: "c"})


@pytest.mark.slow
def test_a_dead_worker_is_noticed_while_its_child_holds_the_pipe(start):
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
    child = int(envs.step(["fork"])[4]["child"][0])
    with pytest.raises(WorkerError, match="exit code 5"):
        envs.step(["exit 5"])
    assert is_running(child)
    os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize(
    ("action", "named", "others"),
    [("lock", r"^row 3 ", [0, 1, 2]), ("unreadable", r"^rows 1, 3 .*ValueError: ", [0, 2])],
)
def test_a_result_that_cannot_be_pickled_fails_its_row_or_message(four, action, named, others):
    with pytest.raises(RowsError, match=named) as caught:
        four.step(["a", "a", "a", action])
    assert sorted(caught.value.results) == others


@pytest.mark.parametrize(
    ("prefix", "sentence"),
    [
        ("raise", r"^row 1 raised ValueError: will not be built"),
        ("exit", r"^row 1 ended its worker process \(exit code 4\)$"),
    ],
)
def test_an_environment_that_cannot_be_built_leaves_no_process(start, prefix, sentence):
    with pytest.raises(WorkerError, match=sentence):
        start([Odd, partial(Odd, prefix)], workers=2)


def test_an_environment_may_have_processes_of_its_own(start):
    class Parent(Odd):
        def misbehave(self, command, rest):
            child = multiprocessing.get_context("fork").Process(target=os.getpid)
            child.start()
            child.join()
            return {"code": child.exitcode}

    envs = start(Parent, 1, workers=1)
    assert envs.step(["a"])[4]["code"].tolist() == [0]


@pytest.mark.parametrize(
    "moment", [pytest.param("wait", marks=pytest.mark.slow), "dumps", "WorkerProcess.send"]
)
def test_an_interrupted_call_is_not_answered_later(start, monkeypatch, moment):
    def interrupted(*args):
        if moment == "WorkerProcess.send" and args[0].rows == (0,):
            return send(*args)  # one has its message already, the other has not
        monkeypatch.undo()
        raise KeyboardInterrupt

    send = worker_pool.WorkerProcess.send
    envs = start(Odd, 2, workers=2)
    monkeypatch.setattr(f"llm_gym.vector.worker_pool.{moment}", interrupted)
    with pytest.raises(KeyboardInterrupt):
        envs.step(["first", "first"])
    if moment != "dumps":
        with pytest.raises(RowsError, match="rows 0, 1"):
            envs.step(["second", "second"])
        envs.reset(seed=0)
    assert envs.step(["third", "third"])[0] == ["third", "third"]
