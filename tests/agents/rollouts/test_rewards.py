"""Reward functions: how they are called, where scores go, what is refused; ``RewardManager``."""

import asyncio
import contextvars
import functools

import gymnasium as gym
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from llm_gym.core.errors import ConfigError
from llm_gym.core.legacy import SimpleGameEnvironment, as_gym
from llm_gym.episodes import Trajectory, play_episode
from llm_gym_agents.rollouts.rewards import (
    MAX_ASYNC_CALLS,
    RewardError,
    RewardManager,
    apply_reward_fn,
    reward_metrics,
    takes_environment,
)
from tests.agents.scored import batch, episode

GUESS = "llm_gym/GuessTheNumber-v0"

# --- where a score goes ------------------------------------------------------------------------


@given(
    st.lists(st.floats(-10, 10), min_size=1, max_size=6),
    st.floats(-10, 10),
    st.booleans(),
)
def test_a_reward_function_may_keep_environment_rewards(rewards, score, keep):
    one = episode(rewards)
    kept = {"env": rewards} if keep else {}
    apply_reward_fn(lambda trajectory: {"score": score} | kept, [one])
    expected = score + (sum(rewards) if keep else 0)
    assert one.total_reward == pytest.approx(expected)
    assert len(one.rewards) == len(rewards)
    assert Trajectory.from_json(one.to_json()).rewards == one.rewards
    assert one.extra["env_rewards"] == rewards


def test_environment_rewards_survive_a_second_reward_function():
    one = episode([0.25, 0.5], extra={"note": "mine"})
    apply_reward_fn(lambda trajectory: 1, [one])
    apply_reward_fn(lambda trajectory: 2, [one])
    assert one.rewards == [0.0, 2.0]
    assert one.extra["env_rewards"] == [0.25, 0.5]
    assert one.extra["note"] == "mine"
    bare = Trajectory(actions=["a", "b"])
    apply_reward_fn(lambda trajectory: 1, [bare])
    assert bare.rewards == [0.0, 1.0]
    assert bare.extra["reward_terms"] == {"reward_fn": 1.0}


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
    assert apply_reward_fn(Judge(), batch(1), 42) == [42.0]


@pytest.mark.parametrize(
    "function",
    [lambda: 0, lambda a, b, c: 0, lambda trajectory, *, judge: 0, "judge", None],
    ids=["none", "three", "keyword", "text", "nothing"],
)
def test_a_function_with_another_signature_is_refused_before_any_call(function):
    with pytest.raises(ConfigError, match="reward_fn"):
        apply_reward_fn(function, batch())


# --- async functions ---------------------------------------------------------------------------


async def late(trajectory):
    await asyncio.sleep(0)
    return trajectory.episode_id


@pytest.mark.parametrize(
    "function",
    [late, functools.partial(late), lambda trajectory: late(trajectory)],
    ids=["async", "partial", "makes a coroutine"],
)
def test_async_functions_keep_the_order(function):
    assert apply_reward_fn(function, batch(50)) == list(range(50))


def test_async_functions_work_inside_a_running_loop_and_see_its_context():
    setting = contextvars.ContextVar("setting", default=0)

    async def judge(trajectory):
        return setting.get()

    async def notebook():
        setting.set(4)
        return apply_reward_fn(judge, batch(3))

    assert asyncio.run(notebook()) == [4.0] * 3


def test_a_bounded_number_of_async_calls_run_at_a_time():
    running, most = 0, 0

    async def judge(trajectory):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return 0

    apply_reward_fn(judge, batch(3 * MAX_ASYNC_CALLS))
    assert most == MAX_ASYNC_CALLS


def test_one_failure_cancels_the_other_calls():
    ended = []

    async def judge(trajectory):
        if trajectory.episode_id == 0:
            raise ValueError("bad")
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(trajectory.episode_id)

    with pytest.raises(RewardError, match="episode 0"):
        apply_reward_fn(judge, batch(4))
    assert sorted(ended) == [1, 2, 3]


# --- what is no reward -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [None, float("nan"), float("inf"), "1.0", [1.0], np.ones(1), torch.ones(3), {}, {"a": None}],
    ids=str,
)
def test_a_score_that_is_no_number_is_refused_with_its_episode(value):
    episodes = batch(3)
    with pytest.raises(RewardError, match=r"episode 1 \(seed 101\)"):
        apply_reward_fn(lambda t: value if t.episode_id == 1 else 1.0, episodes)
    assert all(one.rewards == [0.25, 0.5] and one.extra is None for one in episodes)


@pytest.mark.parametrize(
    "value",
    [1, True, np.float32(1), np.int64(1), torch.tensor(1), torch.ones((), requires_grad=True)],
)
def test_every_kind_of_number_is_a_reward(value):
    assert apply_reward_fn(lambda trajectory: value, batch(1)) == [1.0]


def test_an_error_in_a_reward_function_is_quoted_and_chained():
    def judge(trajectory):
        raise KeyError("score")

    with pytest.raises(RewardError, match=r"KeyError.*episode 0") as caught:
        apply_reward_fn(judge, batch())
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(RewardError, match="place 0"):
        apply_reward_fn(judge, [episode()])


def test_an_episode_without_a_turn_has_no_place_for_a_reward():
    with pytest.raises(RewardError, match="episode 9"):
        apply_reward_fn(lambda trajectory: 1, [episode(), Trajectory(episode_id=9)])
    with pytest.raises(RewardError, match="2 turns"):
        apply_reward_fn(lambda trajectory: 1, [Trajectory(actions=["a", "b"], rewards=[1.0])])


# --- RewardManager ---------------------------------------------------------------------------

PLAYED = {
    "rewards": [0.5, -0.25, 1.0],
    "infos": [{}, {"invalid_action": True}, {"success": True}],
    "num_turns": 3,
}


def as_trajectory(played):
    return Trajectory(
        actions=["a"] * played["num_turns"], rewards=played["rewards"], infos=played["infos"]
    )


@pytest.mark.parametrize("made", [dict, as_trajectory])
def test_the_terms_are_those_of_the_formula(made):
    class Environment:
        max_steps = 10

    manager = RewardManager(Environment())
    assert manager(made(PLAYED)) == pytest.approx(
        {"sum": 1.25, "success_bonus": 5.0, "invalid_penalty": -0.5, "efficiency_bonus": 0.7}
    )
    assert manager.compute_trajectory_reward(made(PLAYED)) == pytest.approx(6.45)


def test_every_term_has_its_setting_and_efficiency_needs_a_limit():
    manager = RewardManager(None, 1.0, 2.0, 0.0)
    assert manager(PLAYED) == {"sum": 1.25, "success_bonus": 1.0, "invalid_penalty": -2.0}
    assert RewardManager(None, 0, 0, 1.0, max_steps=5).compute_trajectory_reward(PLAYED) == 3.25
    with pytest.raises(ConfigError, match="efficiency_bonus"):
        RewardManager()(PLAYED)
    with pytest.raises(ConfigError, match="max_steps"):
        RewardManager(max_steps=0)


def test_a_batch_is_a_tensor_and_its_terms_are_metrics():
    lost = {"rewards": [0.0], "infos": [{"success": False}], "num_turns": 1}
    manager = RewardManager(max_steps=10)
    rewards = manager.compute_batch_rewards([PLAYED, as_trajectory(lost)])
    torch.testing.assert_close(rewards, torch.tensor([6.45, 0.9]))
    assert manager.metrics == pytest.approx(
        {
            "reward/sum": 0.625,
            "reward/success_bonus": 2.5,
            "reward/invalid_penalty": -0.25,
            "reward/efficiency_bonus": 0.8,
        }
    )
    assert manager.compute_batch_rewards([]).shape == (0,)
    assert manager.metrics == {}


def test_a_manager_is_a_reward_function_on_played_episodes():
    env = gym.make(GUESS, max_turns=5)
    actions = iter(["a cat", "0"])
    one = play_episode(env, lambda _: next(actions, env.unwrapped.oracle_action()), seed=0)
    assert one.rewards == [0.0, 0.0, 1.0]
    assert apply_reward_fn(RewardManager(env), [one]) == pytest.approx([1 + 5 - 2 * 0.5 + 2 * 0.1])
    assert reward_metrics([one])["reward/invalid_penalty"] == -1.0
    assert reward_metrics([one])["reward/env"] == 1.0


@pytest.mark.parametrize(
    ("environment", "limit"),
    [
        (SimpleGameEnvironment({"max_steps": 7}), 7),
        (as_gym(SimpleGameEnvironment({"max_steps": 7})), 7),
        (gym.make(GUESS, max_turns=4), 4),
        (GUESS, 5),
        (gym.wrappers.TransformReward(gym.make(GUESS), float), 5),
    ],
)
def test_the_limit_of_steps_is_found_in_every_kind_of_environment(environment, limit):
    lost = {"rewards": [0.0], "infos": [{}], "num_turns": 1}
    expected = pytest.approx(0.1 * (limit - 1))
    assert RewardManager(environment).compute_trajectory_reward(lost) == expected
    assert sum(RewardManager()(lost, environment).values()) == expected


@pytest.mark.parametrize("kind", [list, tuple, np.array, torch.tensor])
def test_one_number_for_each_turn_goes_to_its_turn(kind):
    one = episode([0.25, 0.5])
    assert apply_reward_fn(lambda episode: kind([0.5, -1.0]), [one]) == [-0.5]
    assert one.rewards == [0.5, -1.0]
    terms = {"steps": kind([1.0, 2.0]), "end": 4.0}
    assert apply_reward_fn(lambda episode: terms, [one]) == [7.0]
    assert one.rewards == [1.0, 6.0]
    assert one.extra["reward_terms"] == {"steps": 3.0, "end": 4.0}
    with pytest.raises(RewardError, match="2 turns, got 3"):
        apply_reward_fn(lambda episode: kind([1.0, 2.0, 3.0]), [one])
    with pytest.raises(RewardError, match="finite"):
        apply_reward_fn(lambda episode: kind([1.0, float("nan")]), [one])
