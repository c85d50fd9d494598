"""Any environment by id: llm_gym/AsText-v0, make_text, and many at once."""

import copy
import functools
import pickle

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env

import llm_gym
from llm_gym.core.errors import ConfigError
from llm_gym.envs.deduction.guess_the_number import GuessTheNumberEnv
from llm_gym.wrappers import AsText
from llm_gym.wrappers.as_text import ensure_text, make_text, speaks_text, split_settings
from llm_gym.wrappers.as_text.env import AsTextEnv
from tests.wrappers.as_text.plain_envs import Corridor

LAKE = {"env_id": "FrozenLake-v1", "env_kwargs": {"is_slippery": False}}


def test_one_id_plays_any_other():
    env = gym.make("llm_gym/AsText-v0", **LAKE, rules="system")
    assert env.reset(seed=0)[0].startswith("P . . .\n")
    assert "slip" not in env.get_wrapper_attr("system_prompt")
    for move in ("down", "down", "right", "right", "down", "right"):
        _, reward, terminated, _, info = env.step(move)
    assert (reward, terminated, info["success"]) == (1, True, True)


def test_its_players_and_the_attributes_inside_can_be_asked_for():
    env = gym.make("llm_gym/AsText-v0", **LAKE, action_format="tag").unwrapped
    env.reset(seed=0)
    assert env.legal_actions()[0] == "<action>left</action>"
    assert env.random_action() in env.legal_actions()
    assert env.desc.shape == (4, 4)
    assert not env.has_splits
    with pytest.raises(AttributeError):
        _ = env.nothing


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Blackjack-v1", "Pendulum-v1"])
def test_it_passes_gymnasiums_own_checker(env_id):
    check_env(gym.make("llm_gym/AsText-v0", env_id=env_id).unwrapped, skip_render_check=True)


def test_its_spec_and_its_pickle_hold_the_game():
    env = gym.make("llm_gym/AsText-v0", **LAKE)
    twin = gym.make(EnvSpec.from_json(env.spec.to_json()))
    assert twin.reset(seed=1)[0] == env.reset(seed=1)[0]
    env.step("right")
    for again in (pickle.loads(pickle.dumps(env)), copy.deepcopy(env)):
        assert again.step("right")[0] == ". . P .\n. H . H\n. . . H\nH . . G"


def test_an_id_that_does_not_exist_or_needs_another_package_is_one_sentence(monkeypatch):
    spec = EnvSpec("NeedsMore-v0", entry_point="nowhere_at_all:Game")
    monkeypatch.setitem(gym.registry, spec.id, spec)
    for env_id in ("Nothing-v0", spec.id):
        with pytest.raises(ConfigError, match=env_id):
            gym.make("llm_gym/AsText-v0", env_id=env_id)


@pytest.mark.parametrize(
    "kwargs",
    [{}, {"vectorization_mode": "async", "vector_kwargs": {"shared_memory": False}}],
    ids=["sync", "async"],
)
def test_it_works_in_the_stock_vector_environments(kwargs):
    envs = gym.make_vec("llm_gym/AsText-v0", num_envs=2, **kwargs, **LAKE, rules="system")
    texts, _ = envs.reset(seed=0)
    assert texts[0].startswith("P . . .")
    texts, rewards, *_, infos = envs.step(["right", "what?"])
    assert texts[0].startswith(". P . .")
    assert "must be one of" in texts[1]
    assert infos["valid_action"].tolist() == [True, False]
    assert rewards.tolist() == [0.0, 0.0]
    envs.close()


@pytest.mark.parametrize("workers", [0, 1])
def test_it_works_in_our_own_vector_environment_with_wrappers_inside_and_out(workers):
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


def test_settings_find_their_way():
    env = make_text("CartPole-v1", sutton_barto_reward=True, action_format="tag", penalty=1.0)
    env.reset(seed=0)
    assert env.step("<action>push left</action>")[1] == 0.0, "the environment's own setting"
    assert env.step("push it")[1] == -1.0, "that of AsText"
    assert make_text("llm_gym/GuessTheNumber-v0", penalty=0.5).unwrapped.penalty == 0.5
    assert split_settings(lambda penalty: None, {"penalty": 1}) == ({"penalty": 1}, {})
    assert split_settings(Corridor, {"mask": True, "rules": "system"}) == (
        {"mask": True},
        {"rules": "system"},
    )


def test_a_function_that_takes_anything_is_given_everything():
    def make(**settings):
        return GuessTheNumberEnv(**settings)

    assert split_settings(make, {"penalty": 1.0}) == ({"penalty": 1.0}, {})
    by_id = functools.partial(AsTextEnv, env_id="CartPole-v1")
    assert split_settings(by_id, {"penalty": 1.0}) == ({"penalty": 1.0}, {})
    assert split_settings("llm_gym/AsText-v0", {"rules": "system"}) == ({"rules": "system"}, {})


def test_hooks_go_through_a_spec_in_this_process():
    env = AsText(gym.make("CartPole-v1"), describe=lambda o, i: "a cart", parse=int)
    twin = gym.make(env.spec)
    assert twin.reset(seed=0)[0].endswith("a cart")
    assert twin.step("1")[4]["valid_action"]
