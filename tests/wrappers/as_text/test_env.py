"""Any environment by id: llm_gym/AsText-v0, make_text, and many at once."""

import copy
import functools
import pickle

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env

import llm_gym
from llm_gym.core.errors import ConfigError, ContractError
from llm_gym.core.outcome import StopReason
from llm_gym.wrappers import AsText
from llm_gym.wrappers.as_text import ensure_text, make_text, speaks_text, split_settings
from llm_gym.wrappers.as_text.env import AsTextEnv
from tests.evaluate.test_checker import Foreign
from tests.wrappers.as_text.plain_envs import Corridor, started

LAKE = {"env_id": "FrozenLake-v1", "env_kwargs": {"is_slippery": False}}


def test_as_text_plays_another_id():
    env = gym.make("llm_gym/AsText-v0", **LAKE, rules="system")
    assert env.reset(seed=0)[0].startswith("P . . .\n")
    assert "slip" not in env.get_wrapper_attr("system_prompt")
    for move in ("down", "down", "right", "right", "down", "right"):
        _, reward, terminated, _, info = env.step(move)
    assert (reward, terminated, info["success"]) == (1, True, True)


def test_players_and_inner_attributes_are_reachable():
    env = gym.make("llm_gym/AsText-v0", **LAKE, action_format="tag").unwrapped
    env.reset(seed=0)
    assert env.legal_actions()[0] == "<action>left</action>"
    assert env.random_action() in env.legal_actions()
    assert env.desc.shape == (4, 4)
    assert not env.has_splits
    with pytest.raises(AttributeError):
        _ = env.nothing


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Blackjack-v1", "Pendulum-v1"])
def test_as_text_passes_gymnasiums_checker(env_id):
    check_env(gym.make("llm_gym/AsText-v0", env_id=env_id).unwrapped, skip_render_check=True)


def test_spec_and_pickle_rebuild_the_game():
    env = gym.make("llm_gym/AsText-v0", **LAKE)
    twin = gym.make(EnvSpec.from_json(env.spec.to_json()))
    assert twin.reset(seed=1)[0] == env.reset(seed=1)[0]
    env.step("right")
    for again in (pickle.loads(pickle.dumps(env)), copy.deepcopy(env)):
        assert again.step("right")[0] == ". . P .\n. H . H\n. . . H\nH . . G"


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_gymnasiums_vector_environments_run_as_text(mode):
    envs = gym.make_vec("llm_gym/AsText-v0", 2, mode, **LAKE, rules="system")
    texts, _ = envs.reset(seed=0)
    assert texts[0].startswith("P . . .")
    texts, rewards, *_, infos = envs.step(["right", "what?"])
    assert texts[0].startswith(". P . .")
    assert "must be one of" in texts[1]
    assert infos["valid_action"].tolist() == [True, False]
    assert rewards.tolist() == [0.0, 0.0]
    envs.close()


@pytest.mark.parametrize("workers", [0, 1])
def test_make_vec_runs_as_text_with_wrappers_inside_and_out(workers):
    spec = AsText(gym.make("CartPole-v1", max_episode_steps=3), rules="system").spec
    envs = llm_gym.make_vec(spec, 2, workers=workers)
    texts, infos = envs.reset(seed=0)
    assert all(text.startswith("Cart position") for text in texts)
    assert infos["system_prompt"][0].startswith("A pole stands")
    for _ in range(3):
        *_, truncations, infos = envs.step(["push left", "push right"])
    assert truncations.tolist() == [True, True]
    assert infos["move"].tolist() == ["push left", "push right"]
    envs.close()


def test_a_text_environment_is_left_as_it_is():
    env = gym.make("llm_gym/GuessTheNumber-v0")
    assert speaks_text(env)
    assert ensure_text(env) is env
    assert ensure_text(env, rules="system") is env
    with pytest.raises(ConfigError, match="penalty"):
        ensure_text(env, penalty=1.0)


def test_settings_reach_the_environment_or_as_text():
    env = make_text("CartPole-v1", sutton_barto_reward=True, action_format="tag", penalty=1.0)
    env.reset(seed=0)
    assert env.step("<action>push left</action>")[1] == 0.0, "the environment's own setting"
    assert env.step("push it")[1] == -1.0, "that of AsText"
    assert make_text("llm_gym/GuessTheNumber-v0", penalty=0.5).unwrapped.penalty == 0.5


@pytest.mark.parametrize(
    ("make", "own"),
    [
        (Corridor, {"mask": True}),
        (lambda mask, penalty: None, {"mask": True, "penalty": 1}),
        (lambda **settings: None, {"mask": True, "penalty": 1}),  # which takes anything
        (functools.partial(AsTextEnv, env_id="CartPole-v1"), {"mask": True, "penalty": 1}),
        ("llm_gym/AsText-v0", {"mask": True, "penalty": 1}),
    ],
)
def test_settings_are_split_between_an_environment_and_as_text(make, own):
    given = {"mask": True, "penalty": 1}
    assert split_settings(make, given) == (own, {k: v for k, v in given.items() if k not in own})


def test_functions_survive_in_a_spec_within_this_process():
    env = AsText(gym.make("CartPole-v1"), describe=lambda o, i: "a cart", parse=int)
    twin = gym.make(env.spec)
    assert twin.reset(seed=0)[0].endswith("a cart")
    assert twin.step("1")[4]["valid_action"]


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
def test_success_is_taken_from_the_info(own, reason):
    env = started(Corridor(own))
    *_, last = [env.step("2") for _ in range(4)]
    assert env._stop is reason
    assert all(last[4][key] is own[key] for key in own)


def reached_the_end(total, terminated, reward, info):
    return terminated and total > 0


@pytest.mark.parametrize("success", [reached_the_end, f"{__name__}:reached_the_end"])
def test_a_function_decides_success(success):
    env = started(success=success)
    *_, last = [env.step("2") for _ in range(4)]
    assert (last[4]["success"], last[4]["stop_reason"]) == (True, StopReason.WON)


def test_a_function_decides_success_of_a_text_environment():
    env = ensure_text(Foreign(), success=reached_the_end)
    for reply, won in (("hi", True), ("ho", False)):
        env.reset(seed=0)
        info = env.step(reply)[4]
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


@pytest.mark.parametrize("success", [None, lambda total, *rest: total > 0])
def test_a_reward_is_one_number_even_in_an_array(success):
    def paid(reward):
        env = gym.wrappers.TransformReward(TwoGoals(), lambda pair: reward)
        return started(env, success=success).step("2")[1]

    for one in (np.array([1.0]), np.array(1), np.float32(1), True):
        assert paid(one) == 1
    for odd in (None, "1", 1j, np.array([]), [object()]):
        with pytest.raises(ContractError, match="must be a number"):
            paid(odd)


@pytest.mark.parametrize(("threshold", "success"), [(9.0, True), (9.5, False)])
def test_the_reward_threshold_of_the_spec_decides_success(threshold, success):
    env = started(gym.make("CartPole-v1", max_episode_steps=9))
    env.book.env.spec.reward_threshold = threshold
    *_, last = [env.step("push left" if turn % 2 else "push right") for turn in range(9)]
    assert (last[3], last[4]["success"]) == (True, success)
