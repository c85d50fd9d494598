"""AsText: who says whether an episode was won."""

import gymnasium as gym
import numpy as np
import pytest

from llm_gym.core.errors import ConfigError, ContractError
from llm_gym.core.outcome import StopReason
from llm_gym.core.spaces import AnyText
from llm_gym.wrappers import AsText
from llm_gym.wrappers.as_text import ensure_text
from tests.wrappers.as_text.plain_envs import Corridor, started


@pytest.mark.parametrize(
    ("own", "reason"),
    [
        ({"is_success": True}, StopReason.WON),
        ({"is_success": np.False_}, StopReason.LOST),
        ({"success": np.True_}, StopReason.WON),
        ({"success": np.zeros(3)}, StopReason.FINISHED),
        ({"stop_reason": "drawn"}, StopReason.DRAWN),
        ({"stop_reason": ["odd"]}, StopReason.FINISHED),
    ],
)
def test_success_is_what_the_environment_says(own, reason):
    env = started(Corridor(own))
    *_, last = [env.step("2") for _ in range(4)]
    assert env._stop is reason
    assert all(last[4][key] is own[key] for key in own)


def reached_the_end(total, terminated, reward, info):
    return terminated and total > 0


@pytest.mark.parametrize("success", [reached_the_end, f"{__name__}:reached_the_end"])
def test_a_function_tells_success_where_the_environment_does_not(success):
    env = started(success=success)
    *_, last = [env.step("2") for _ in range(4)]
    assert (last[4]["success"], last[4]["stop_reason"]) == (True, StopReason.WON)


class SomebodysTextGame(gym.Env):
    """Speaks text and pays 1 for a win, and says no more than that."""

    observation_space = action_space = AnyText(100)

    def reset(self, *, seed=None, options=None):
        return "say hi", {}

    def step(self, action):
        return "bye", float(action == "hi"), True, False, {}


def test_a_text_game_of_somebody_else_counts_as_won_by_a_function():
    env = ensure_text(SomebodysTextGame(), success=reached_the_end)
    for said, won in (("hi", True), ("ho", False)):
        env.reset(seed=0)
        info = env.step(said)[4]
        assert (info["success"], info["stop_reason"] is StopReason.WON) == (won, won)


@pytest.mark.parametrize("success", ["nowhere", "no.such.module:x", "math:nothing", 3])
def test_a_success_that_is_no_function_is_refused(success):
    with pytest.raises(ConfigError, match=r"success|module"):
        AsText(Corridor(), success=success)


class TwoGoals(Corridor):
    def step(self, action):
        room, reward, *rest = super().step(action)
        return room, np.array([reward, -0.5]), *rest


def test_a_vector_of_rewards_is_refused_until_a_wrapper_makes_one_number_of_it():
    with pytest.raises(ContractError, match="vector of 2 rewards"):
        started(TwoGoals()).step("2")
    env = started(gym.wrappers.TransformReward(TwoGoals(), lambda pair: pair @ [10.0, 1.0]))
    *_, last = [env.step("2") for _ in range(4)]
    assert last[1] == 9.5


def test_the_threshold_of_the_spec_tells_success():
    env = AsText(gym.make("CartPole-v1", max_episode_steps=9))
    env.env.spec.reward_threshold = 9
    for threshold, success in ((9.0, True), (9.5, False)):
        env.book.env.spec.reward_threshold = threshold
        env.reset(seed=3)
        done = False
        while not done:
            *_, terminated, truncated, info = env.step(env.random_action())
            done = terminated or truncated
        assert info["turn"] == 9
        assert info["success"] is success
