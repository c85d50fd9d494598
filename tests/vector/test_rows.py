"""Resetting, stepping and failing, of all rows and of some."""

import pickle
from functools import partial

import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.vector import AutoresetMode

from llm_gym.core.errors import ActionTypeError, ConfigError, WorkerError
from llm_gym.vector import RowsError, make_vec
from tests.vector.odd import GUESS, MODES, Odd


def test_seeds_count_up_or_come_from_a_list():
    envs = make_vec(GUESS, 3)
    envs.reset(seed=7)
    assert envs.np_random_seed == (7, 8, 9)
    envs.reset(seed=np.int64(3))
    assert envs.np_random_seed == (3, 4, 5)
    envs.reset(seed=[5, None, 5])
    assert envs.np_random_seed == (5, 4, 5)
    assert envs.np_random[0].random() == envs.np_random[2].random()


def test_options_reach_every_environment_without_the_mask():
    envs = make_vec(Odd, 2)
    envs.reset(options={"a": 1})
    assert envs.get_attr("options") == ({"a": 1}, {"a": 1})
    options = {"reset_mask": np.array([False, True]), "b": 2}
    before = envs.reset(seed=0)[0]
    observations, infos = envs.reset(options=options)
    assert envs.get_attr("options") == (None, {"b": 2})
    assert observations[0] == before[0]
    assert infos["_left"].tolist() == [False, True]
    assert "reset_mask" in options  # the caller's dictionary is the caller's


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("reset_mask", mask) for mask in ([True, False], np.array([1, 0]), np.array([True]))),
        ("reset_mask", np.array([False, False])),
        *(("seed", seed) for seed in ([1], "x", 1.5)),
    ],
)
def test_masks_and_seeds_that_do_not_fit_are_refused(name, value):
    with pytest.raises(ConfigError, match=name):
        make_vec(Odd, 2).reset(
            **({"seed": value} if name == "seed" else {"options": {name: value}})
        )


def test_step_rows_moves_only_those_rows():
    envs = make_vec(Odd, 4)
    first, _ = envs.reset(seed=0)
    results = envs.step_rows({3: "go north", 1: "look"})
    assert list(results) == [3, 1]
    observation, reward, terminated, truncated, info = results[3]
    assert (observation, terminated, truncated, info["left"]) == ("go north", False, False, 2)
    assert envs.get_attr("left") == (3, 2, 3, 2)
    assert reward == int(reward)
    observations, _ = envs.reset(options={"reset_mask": np.arange(4) == 0})
    assert observations[1:] == ["look", first[2], "go north"]
    assert envs.step_rows({}) == {}


def test_rows_stepped_one_by_one_play_the_same_episodes():
    together, apart = make_vec(Odd, 3, length=9), make_vec(Odd, 3, length=9)
    together.reset(seed=1)
    assert list(apart.reset_rows({2: 3, 0: 1, 1: 2})) == [2, 0, 1]
    for turn in range(4):
        actions = [f"{turn}{row}" for row in range(3)]
        observations, rewards, *_ = together.step(actions)
        for row in (2, 0, 1):
            observation, reward, *_ = apart.step_rows({row: actions[row]})[row]
            assert (observation, reward) == (observations[row], rewards[row])
    assert together.step(["x", "y", "z"])[1].tolist() == apart.step(["x", "y", "z"])[1].tolist()


@pytest.mark.parametrize("mode", MODES)
def test_step_rows_never_resets_by_itself(mode):
    envs = make_vec(Odd, 2, length=1, autoreset_mode=mode)
    envs.reset(seed=0)
    observation, _, terminated, _, info = envs.step_rows({0: "end"})[0]
    assert (observation, terminated, info["left"]) == ("end", True, 0)
    with pytest.raises(ResetNeeded, match=r"row 0 is over; .* reset_rows\(\{0: None\}\)"):
        envs.step_rows({1: "fine", 0: "again"})
    assert envs.get_attr("left") == (0, 1)  # row 1 did not move either
    observation, info = envs.reset_rows({0: 5}, options={"a": 1})[0]
    assert observation.startswith("begin")
    assert envs.get_attr("options")[0] == {"a": 1}
    assert envs.step_rows({1: "end"})[1][0] == "end"


def test_step_resets_a_row_that_step_rows_finished_only_in_next_step_mode():
    for mode in MODES:
        envs = make_vec(Odd, 2, length=2, autoreset_mode=mode)
        envs.reset(seed=0)
        envs.step_rows({0: "cut"})
        if mode is AutoresetMode.NEXT_STEP:
            observations, *_ = envs.step(["ignored", "b"])
            assert observations[0].startswith("begin")
            assert observations[1] == "b"
        else:
            with pytest.raises(ResetNeeded, match="row 0 is over"):
                envs.step(["a", "b"])
            assert envs.get_attr("left") == (1, 2)


def test_nothing_can_be_stepped_before_its_first_reset():
    envs = make_vec(Odd, 2)
    with pytest.raises(ResetNeeded, match="row 0 has not begun"):
        envs.step(["a", "b"])
    envs.reset_rows({0: 1})
    envs.step_rows({0: "a"})
    with pytest.raises(ResetNeeded, match="row 1 has not begun"):
        envs.step(["a", "b"])


@pytest.mark.parametrize(
    "actions",
    ["ab", ["a"], ["a", "b", "c"], [], iter("ab"), {"1": "1", "2": "2"}, {"1", "2"}, None, 3],
)
def test_actions_must_be_one_string_for_each_row(actions):
    envs = make_vec(Odd, 2)
    envs.reset(seed=np.array([4, 5]))
    assert len(envs.step(np.array(["1", "2"]))[0]) == 2
    with pytest.raises(ConfigError, match="actions"):
        envs.step(actions)


def test_an_action_that_is_no_string_moves_no_row():
    envs = make_vec(Odd, 2)
    envs.reset(seed=0)
    with pytest.raises(ActionTypeError, match="row 1"):
        envs.step(["a", 5])
    with pytest.raises(ActionTypeError, match="row 1"):
        envs.step_rows({0: "a", 1: [1, 2]})
    with pytest.raises(ConfigError, match="row"):
        envs.step_rows({0: "a", 2: "b"})
    with pytest.raises(ConfigError, match="row"):
        envs.reset_rows({-1: None})
    assert envs.get_attr("left") == (3, 3)


@pytest.mark.parametrize("mode", MODES)
def test_a_row_that_raises_is_named_and_the_others_have_moved(mode):
    envs = make_vec(Odd, 3, autoreset_mode=mode)
    envs.reset(seed=0)
    with pytest.raises(WorkerError, match=r"^row 1 raised KeyError: 'oops'$") as caught:
        envs.step(["a", "raise oops", "cut"])
    error = caught.value
    assert isinstance(error, RowsError)
    assert isinstance(error.__cause__, KeyError)
    assert error.rows == {1: "raised KeyError: 'oops'"}
    assert error.results[0][0] == "a"
    assert error.results[2][3] is True  # truncated
    with pytest.raises(ResetNeeded, match="row 1"):
        envs.step(["a", "b", "c"])
    assert envs.step_rows({0: "still here"})[0][0] == "still here"
    if mode is AutoresetMode.SAME_STEP:
        assert error.results[2][4]["final_obs"] == "cut"
        assert envs.step_rows({2: "a new episode"})[2][0] == "a new episode"
    else:
        with pytest.raises(ResetNeeded, match="row 2 is over"):
            envs.step_rows({2: "c"})
    envs.reset_rows({1: 0})
    assert envs.step_rows({1: "back"})[1][0] == "back"


class Unsayable(Exception):
    def __str__(self):
        raise ValueError("no words")


def throw(error):
    raise error


TYPES = {
    "the reward must be a number, got array": ("!", np.array([1.0, 2.0]), True, False, {}),
    "the reward must be a number, got '1'": ("!", "1", True, False, {}),
    "terminated must be True or False, got None": ("!", 1.0, None, False, {}),
    "terminated must be True or False, got 'yes'": ("!", 1.0, "yes", False, {}),
    "truncated must be True or False, got arr": ("!", 1.0, True, np.array([True, False]), {}),
    "info must be a dictionary, got None": ("!", 1.0, True, False, None),
}


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (partial(throw, SystemExit(7)), "SystemExit: 7$"),
        (partial(throw, Unsayable()), "Unsayable$"),
        *((lambda answer=answer: answer, f"TypeError: {why}") for why, answer in TYPES.items()),
    ],
)
def test_exits_and_invalid_steps_fail_only_their_row(step, why):
    class Fails(Odd):
        def step(self, action):
            return step() if action == "fail" else super().step(action)

    envs = make_vec(Fails, 2)
    envs.reset(seed=0)
    with pytest.raises(RowsError, match=f"^row 1 raised {why}") as caught:
        envs.step(["a", "fail"])
    assert caught.value.results[0][0] == "a"
    assert envs.step_rows({0: "still here"})[0][0] == "still here"


def test_a_failed_reset_or_call_leaves_the_other_rows_alone():
    envs = make_vec([Odd, GUESS], autoreset_mode="Disabled")
    with pytest.raises(RowsError, match="row 1 raised ConfigError") as caught:
        envs.reset(seed=0, options={"bogus": 1})
    observation, info = caught.value.results[0]
    assert observation.startswith("begin")
    assert info["left"] == 3
    envs = make_vec(Odd, 2)
    envs.reset(seed=0)
    with pytest.raises(RowsError, match="rows 0, 1 raised AttributeError"):
        envs.call("no_such_thing")
    assert envs.step(["a", "b"])[0] == ["a", "b"]


def test_many_failures_have_a_short_message():
    envs = make_vec(Odd, 6)
    envs.reset(seed=0)
    with pytest.raises(RowsError, match=r"^rows 0, 1, 2 and 3 more raised KeyError: 'x'$"):
        envs.step(["raise x"] * 6)
    envs.reset(seed=0)
    with pytest.raises(RowsError, match=r"^row 0 raised KeyError: 'x'; rows 1, 2 raised") as caught:
        envs.step_rows({0: "raise x", 1: "raise y", 2: "raise y"})
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.rows) == (str(caught.value), caught.value.rows)


def test_call_get_and_set_reach_every_environment():
    envs = make_vec(GUESS, 2, render_mode="ansi")
    envs.reset(seed=0)
    for action in zip(envs.call("oracle_action"), envs.get_attr("max_turns"), strict=True):
        assert action[0].isdigit()
        assert action[1] == 5
    envs.set_attr("note", "same")
    assert envs.get_attr("note") == ("same", "same")
    envs.set_attr("note", ["one", "other"])
    assert envs.get_attr("note") == ("one", "other")
    with pytest.raises(ConfigError, match="values"):
        envs.set_attr("note", ["one"])
    assert [text[:4] for text in envs.render()] == ["I am", "I am"]
    assert envs.render_mode == "ansi"
    assert envs.step(list(envs.call("oracle_action")))[1].tolist() == [1.0, 1.0]
    assert [env.unwrapped.high for env in envs.envs] == [20, 20]


def test_close_closes_every_environment_once_even_if_one_raises():
    class Stuck(Odd):
        def close(self):
            super().close()
            raise OSError("will not close")

    Odd.closed = 0
    envs = make_vec([Odd, Stuck, Odd])
    with pytest.raises(OSError, match="will not close"):
        envs.close()
    assert Odd.closed == 3
    with pytest.raises(ClosedEnvironmentError, match="closed"):
        envs.reset()
    envs.close()
    assert Odd.closed == 3


@pytest.mark.parametrize("flag", [True, np.bool_(True), 1, np.array(True)])
def test_flags_and_rewards_of_numpy_are_accepted(flag):
    class Answers(Odd):
        def step(self, action):
            return "!", np.float32(1.0), flag, np.bool_(False), {}

    envs = make_vec(Answers, 1)
    envs.reset(seed=0)
    assert envs.step(["a"])[2].tolist() == [True]


def test_an_environment_without_spaces_is_refused():
    class Bare(Odd):
        action_space = None

    with pytest.raises(ConfigError, match="row 0"):
        make_vec(Bare, 2)
