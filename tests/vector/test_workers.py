"""Environments in worker processes: the same results as in one."""

import os

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from llm_gym.vector import RowsError, make_vec, worker_pool
from tests.vector.odd import GUESS, MODES, Odd, assert_same


@pytest.mark.parametrize(
    ("factory", "mode"), [*((Odd, mode) for mode in MODES), (GUESS, AutoresetMode.SAME_STEP)]
)
def test_results_are_those_of_one_process(start, factory, mode):
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


def test_a_call_sends_one_message_to_each_worker_it_needs(start, monkeypatch):
    envs = start(Odd, 5, workers=2)
    pids = envs.get_attr("pid")
    assert pids == (pids[0], pids[1], pids[0], pids[1], pids[0])
    assert len({os.getpid(), *pids}) == 3
    sent = []
    send = worker_pool.WorkerProcess.send
    monkeypatch.setattr(
        worker_pool.WorkerProcess,
        "send",
        lambda self, jobs, m: (sent.append(len(jobs)), send(self, jobs, m)),
    )
    envs.reset(seed=0)
    envs.step(["a"] * 5)
    envs.step_rows({0: "b", 4: "c"})
    assert sent == [3, 2, 3, 2, 2]


def test_workers_step_at_the_same_time(start, tmp_path):
    alone = make_vec(Odd, 2)
    alone.reset(seed=0)
    with pytest.raises(RowsError, match="rows 0, 1 raised TimeoutError: nobody else came"):
        alone.step([f"meet 0.2 {tmp_path}"] * 2)
    (tmp_path / str(os.getpid())).unlink()
    envs = start(Odd, 2, workers=2)
    envs.reset(seed=0)
    assert len(envs.step([f"meet 20 {tmp_path}"] * 2)[0]) == 2


def test_any_text_travels_unchanged(start):
    envs = start(Odd, 2, workers=1)
    envs.reset(seed=0)
    actions = ["\ud800\x00 é漢🙂\n", "x" * 1_000_000]
    assert envs.step(actions)[0] == actions


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


def test_attributes_and_options_that_only_travel_by_value_arrive(start):
    envs = start(Odd, 2, workers=1)
    envs.set_attr("shout", [str.upper, lambda text: text + "!"])
    assert envs.call("shout", "a") == ("A", "a!")
    envs.reset(options={"rule": lambda: 5})
    assert [options["rule"]() for options in envs.get_attr("options")] == [5, 5]
    assert not hasattr(envs, "envs")
