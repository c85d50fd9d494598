"""What make_vec makes environments from, and what it refuses."""

import json
import pickle

import gymnasium as gym
import pytest
from gymnasium.vector import AutoresetMode, VectorEnv

from llm_gym.core.errors import ConfigError
from llm_gym.core.legacy import SimpleGameEnvironment
from llm_gym.vector import make_vec
from tests.vector.odd import GUESS, Odd

SHARED = Odd()


def test_the_spaces_of_the_vector_env_contain_its_lists():
    envs = make_vec(GUESS, 3)
    assert isinstance(envs, VectorEnv)
    observations, _ = envs.reset(seed=0)
    assert type(observations) is list
    assert observations in envs.observation_space
    assert all(text in envs.single_observation_space for text in observations)
    envs.action_space.seed(0)
    actions = envs.action_space.sample()
    assert list(actions) in envs.action_space
    assert envs.step(actions)[4]["valid_action"].all()
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert repr(envs) == f"TextVectorEnv({GUESS}, num_envs=3)"


def test_arguments_reach_the_environments():
    envs = make_vec(GUESS, 2, low=5, high=7, max_turns=2, max_episode_steps=1)
    assert envs.get_attr("high") == (7, 7)
    envs.reset(seed=0)
    assert envs.step(["x", "x"])[3].tolist() == [True, True]


def test_wrappers_are_applied_from_the_inside_out():
    shout = [
        lambda env: gym.wrappers.TransformObservation(env, str.upper, env.observation_space),
        lambda env: gym.wrappers.TransformObservation(env, "{}b".format, env.observation_space),
    ]
    envs = make_vec(Odd, 1, wrappers=shout)
    envs.reset(seed=0)
    assert envs.step(["a"])[0] == ["Ab"]


def test_specs_classes_lists_and_old_style_environments_are_made():
    spec = gym.spec(GUESS)
    before = pickle.dumps(spec)
    assert make_vec(spec, 2, low=3).get_attr("low") == (3, 3)
    assert pickle.dumps(spec) == before
    assert make_vec(GUESS).num_envs == 1
    assert make_vec(Odd, 2, prefix=">").get_attr("prefix") == (">", ">")
    assert make_vec([Odd, lambda: Odd("b")]).get_attr("prefix") == ("", "b")
    old = make_vec(SimpleGameEnvironment, 2)
    assert len(old.reset(seed=0)[0]) == 2
    [old] = make_vec(SimpleGameEnvironment, config={"max_steps": 3}).get_attr("environment")
    assert old.max_steps == 3


def test_different_games_share_a_vector_env():
    envs = make_vec([GUESS, Odd, "llm_gym/GuessTheNumberHard-v0"])
    observations, infos = envs.reset(seed=0)
    assert observations in envs.observation_space
    assert envs.single_observation_space.max_length == 2_000_000  # the widest
    assert infos["_turn"].tolist() == [True, False, True]
    assert envs.spec is None


def test_the_spec_makes_the_same_environments_here_and_in_gymnasium():
    spec = make_vec(GUESS, 3, high=9).spec
    again = type(spec).from_json(spec.to_json())
    assert json.loads(spec.to_json())["kwargs"] == {"high": 9, "num_envs": 3}
    for envs in (make_vec(again), gym.make_vec(again)):
        assert envs.get_attr("high") == (9, 9, 9)
    assert make_vec(again, 2).num_envs == 2


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"id": GUESS, "n": 0}, "n must"),
        ({"id": []}, "n must"),
        *(({"id": GUESS, "n": n}, "n must") for n in (2.5, "3", True)),
        ({"id": GUESS, "n": 2, "workers": 1.5}, "workers"),
        ({"id": GUESS, "n": 2, "workers": "2"}, "workers"),
        ({"id": [Odd, Odd], "n": 3}, "n must"),
        ({"id": 7}, "EnvSpec"),
        ({"id": GUESS, "autoreset_mode": "never"}, "autoreset_mode"),
        ({"id": GUESS, "n": 2, "workers": 3}, "workers"),
        ({"id": GUESS, "timeout": 3}, "timeout"),
        ({"id": GUESS, "workers": 1, "timeout": 0}, "timeout"),
        ({"id": "CartPole-v1"}, "row 0.*gym.make_vec"),
        ({"id": dict}, "factory of row 0"),
        ({"id": lambda: SHARED, "n": 2}, "new environment"),
        ({"id": GUESS, "low": 9, "high": 9}, "low"),
    ],
)
def test_what_cannot_be_made_is_refused_in_one_sentence(arguments, sentence):
    with pytest.raises(ConfigError, match=sentence):
        make_vec(**arguments)


def test_an_unknown_id_is_refused_by_gymnasium():
    with pytest.raises(gym.error.Error, match="GuessTheNumbr"):
        make_vec("llm_gym/GuessTheNumbr-v0")


def test_environments_made_before_a_failure_are_closed():
    def fails():
        raise ConfigError("no")

    Odd.closed = 0
    with pytest.raises(ConfigError):
        make_vec([Odd, Odd, fails])
    assert Odd.closed == 2
