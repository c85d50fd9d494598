"""Reward functions: where scores go, and what is refused."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from llm_gym.episodes import Trajectory
from llm_gym.errors import ConfigError
from llm_gym_agents.rollouts.rewards import (
    RewardError,
    RewardManager,
    apply_reward_fn,
    reward_metrics,
    takes_environment,
)
from tests.agents.scored import batch, episode

# --- where a score goes ------------------------------------------------------------------------


def test_a_score_replaces_the_rewards_and_sits_on_the_last_turn():
    one = episode([0.25, 0.5, 1.0])
    assert apply_reward_fn(lambda trajectory: 7, [one]) == [7.0]
    assert one.rewards == [0.0, 0.0, 7.0]
    assert one.extra == {"env_rewards": [0.25, 0.5, 1.0], "reward_terms": {"reward_fn": 7.0}}


def test_added_scores_leave_the_rewards_of_the_turns_alone():
    one = episode([0.25, 0.5])
    assert apply_reward_fn(lambda trajectory: 7, [one], mode="add") == [7.0]
    assert one.rewards == [0.25, 7.5]
    assert one.total_reward == 0.75 + 7


@given(
    st.lists(st.floats(-10, 10), min_size=1, max_size=6),
    st.floats(-10, 10),
    st.sampled_from(["replace", "add"]),
)
def test_the_return_is_what_the_mode_says(rewards, score, mode):
    one = episode(rewards)
    apply_reward_fn(lambda trajectory: score, [one], mode=mode)
    expected = score + (sum(rewards) if mode == "add" else 0)
    assert one.total_reward == pytest.approx(expected)
    assert len(one.rewards) == len(rewards)
    assert Trajectory.from_json(one.to_json()).rewards == one.rewards
    assert one.extra["env_rewards"] == rewards


def test_what_the_environment_gave_survives_a_second_function():
    one = episode([0.25, 0.5], extra={"note": "mine"})
    apply_reward_fn(lambda trajectory: 1, [one])
    apply_reward_fn(lambda trajectory: 2, [one], mode="add")
    assert one.rewards == [0.0, 3.0]
    assert one.extra["env_rewards"] == [0.25, 0.5]
    assert one.extra["note"] == "mine"


def test_turns_without_recorded_rewards_get_zeros():
    one = Trajectory(actions=["a", "b"])
    apply_reward_fn(lambda trajectory: 1, [one], mode="add")
    assert one.rewards == [0.0, 1.0]


def test_named_terms_add_up_and_are_metrics():
    episodes = batch(2)
    scores = apply_reward_fn(
        lambda t: {"right": 1.0, "length": -0.25} if t.episode_id else {"right": 0.5}, episodes
    )
    assert scores == [0.5, 0.75]
    assert episodes[1].rewards == [0.0, 0.75]
    assert reward_metrics(episodes) == {
        "reward/env": 0.75,
        "reward/right": 0.75,
        "reward/length": -0.125,
    }


def test_no_function_no_metrics():
    assert reward_metrics([*batch(), episode(extra={"note": "mine"})]) == {}
    assert apply_reward_fn(lambda trajectory: 1, []) == []


def test_an_unknown_mode_is_refused():
    with pytest.raises(ConfigError, match="mode must be 'replace' or 'add', got 'mul'"):
        apply_reward_fn(lambda trajectory: 1, batch(), mode="mul")


# --- shapes of functions -----------------------------------------------------------------------


class Judge:
    def __call__(self, trajectory, environment):
        return environment


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda trajectory: 0, False),
        (lambda trajectory, environment: 0, True),
        (lambda trajectory, environment=None: 0, True),
        (lambda trajectory, env=None: 0, True),
        (lambda trajectory, scale=2.0: 0, False),
        (lambda *arguments: 0, True),
        (lambda trajectory, **settings: 0, False),
        (functools.partial(lambda scale, trajectory: 0, 2), False),
        (Judge(), True),
        (RewardManager(max_steps=3), True),
        (len, False),
    ],
)
def test_a_function_is_given_the_environment_if_it_takes_one(function, expected):
    assert takes_environment(function) is expected


@pytest.mark.parametrize(
    "function",
    [lambda: 0, lambda a, b, c: 0, lambda trajectory, *, judge: 0, "judge", None],
    ids=["none", "three", "keyword", "text", "nothing"],
)
def test_a_function_of_another_shape_is_refused_before_any_call(function):
    with pytest.raises(ConfigError, match=r"must take \(trajectory\) or|must be a function"):
        apply_reward_fn(function, batch())


def test_the_environment_is_passed_on():
    assert apply_reward_fn(Judge(), batch(1), 42) == [42.0]


# --- what is no reward -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [None, float("nan"), float("inf"), "1.0", [1.0], np.ones(1), torch.ones(2), {}, {"a": None}],
    ids=str,
)
def test_what_is_no_number_is_named_with_its_episode_and_nothing_changes(value):
    episodes = batch(3)
    with pytest.raises(RewardError, match=r"the reward function .*, on episode 1 \(seed 101\)"):
        apply_reward_fn(lambda t: value if t.episode_id == 1 else 1.0, episodes)
    assert all(one.rewards == [0.25, 0.5] and one.extra is None for one in episodes)


@pytest.mark.parametrize(
    "value",
    [1, True, np.float32(1), np.int64(1), torch.tensor(1), torch.ones((), requires_grad=True)],
)
def test_every_kind_of_number_is_a_reward(value):
    assert apply_reward_fn(lambda trajectory: value, batch(1)) == [1.0]


def test_a_function_that_raises_is_quoted_and_its_error_kept():
    def judge(trajectory):
        raise KeyError("score")

    with pytest.raises(RewardError, match=r"raised KeyError: 'score', on episode 0") as caught:
        apply_reward_fn(judge, batch())
    assert isinstance(caught.value.__cause__, KeyError)


def test_an_episode_without_a_name_is_named_by_its_place():
    with pytest.raises(RewardError, match=r"on the episode at place 0$"):
        apply_reward_fn(lambda trajectory: None, [episode()])


def test_an_episode_without_a_turn_has_no_place_for_a_reward():
    with pytest.raises(RewardError, match="episode 9 has no turn that a reward could go to"):
        apply_reward_fn(lambda trajectory: 1, [episode(), Trajectory(episode_id=9)])
    with pytest.raises(RewardError, match="got 1 for 2 turns"):
        apply_reward_fn(lambda trajectory: 1, [Trajectory(actions=["a", "b"], rewards=[1.0])])
