"""Environments of gym 0.21: four values from step, one from reset, seed() beside them."""

import io

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

from llm_gym.as_text import ensure_text
from llm_gym.errors import ConfigError, ContractError
from llm_gym.legacy import OldGymEnv, as_gym
from llm_gym.legacy.old_gym import convert_space
from llm_gym.wrappers import AsText


class Walk:
    """Walk to 3 in either direction.

    ## Action Space
    - 0: left
    - 1: right
    """

    observation_space = spaces.Box(-9, 9, (1,), np.float32)
    action_space = spaces.Discrete(2)
    metadata = {"render.modes": ["human", "ansi"]}

    def __init__(self):
        self.rng, self.closed = np.random.default_rng(), False

    def seed(self, seed=None):
        self.rng = np.random.default_rng(seed)
        return [seed]

    def reset(self):
        self.at, self.steps = int(self.rng.integers(-2, 3)), 0
        return np.array([self.at], np.float32)

    def step(self, action):
        self.at += 2 * int(action) - 1
        self.steps += 1
        info = {"TimeLimit.truncated": abs(self.at) < 3} if self.steps == 5 else {}
        done = abs(self.at) == 3 or self.steps == 5
        return np.array([self.at], np.float32), float(self.at == 3), done, info

    def render(self, mode="human"):
        return io.StringIO(f"at {self.at}")

    def close(self):
        self.closed = True


def test_it_is_a_true_gymnasium_environment():
    check_env(as_gym(Walk()), skip_render_check=True)
    assert isinstance(as_gym(Walk), OldGymEnv)


def test_seed_reaches_the_method_seed():
    first, second = as_gym(Walk()), as_gym(Walk())
    starts = [env.reset(seed=s)[0].item() for s in range(8) for env in (first, second)]
    assert starts[::2] == starts[1::2]
    assert len(set(starts)) > 1


def test_done_is_an_end_unless_gyms_time_limit_cut_it():
    env = as_gym(Walk())
    env.reset(seed=0)
    env.environment.at = 2
    assert env.step(1)[1:4] == (1.0, True, False)
    env.reset(seed=0)
    env.environment.at, env.environment.steps = 0, 4
    assert env.step(1)[1:4] == (0.0, False, True)


def test_it_is_played_in_text():
    env = AsText(as_gym(Walk), rules="system", invalid="feedback")
    env.reset(seed=0)
    env.unwrapped.environment.at = 1
    assert env.step("RIGHT")[0] == "2"
    assert env.step("up")[4]["valid_action"] is False
    assert env.step("right")[:4] == ("3\nThe episode is over.", 1.0, True, False)


def test_rendering_returns_what_the_old_one_would_print():
    env = as_gym(Walk())
    env.reset(seed=0)
    env.environment.at = 1
    assert env.render() == "at 1"
    env.close()
    assert env.environment.closed


def test_the_five_values_of_gym_026_are_understood():
    class New(Walk):
        def reset(self, *, seed=None, options=None):
            if seed is not None:
                self.seed(seed)
            self.options = options
            return super().reset(), {"fresh": True}

        def step(self, action):
            observation, reward, done, _ = super().step(action)
            return observation, reward, False, done, None

    env = as_gym(New())
    assert env.reset(seed=1, options={"a": 1})[1] == {"fresh": True}
    assert env.environment.options == {"a": 1}
    env.environment.at = 2
    assert env.step(1)[1:] == (1.0, False, True, {})


def test_one_without_spaces_is_taken_to_be_of_text():
    class Talk:
        def reset(self):
            return "Say something."

        def step(self, action):
            return f"You said {action}.", 1.0, True, None

    env = ensure_text(Talk)
    assert isinstance(env, OldGymEnv)
    assert env.reset(seed=0)[0] == "Say something."
    assert env.step("hello") == ("You said hello.", 1.0, True, False, {})


def old(name, **attributes):
    """Return a space as the old package had it: another class of the same name."""
    return type(name, (), attributes)()


def test_spaces_of_the_old_package_become_gymnasiums():
    number = old("Discrete", n=3)
    box = old("Box", low=np.zeros(2), high=np.ones(2), dtype=np.dtype(np.float64))
    both = old("Dict", spaces={"n": number, "b": old("Tuple", spaces=(box,))})
    assert convert_space(both) == spaces.Dict(
        n=spaces.Discrete(3), b=spaces.Tuple([spaces.Box(0.0, 1.0, (2,), np.float64)])
    )
    assert convert_space(old("MultiBinary", n=4)) == spaces.MultiBinary(4)
    assert convert_space(old("MultiDiscrete", nvec=[2, 3])) == spaces.MultiDiscrete([2, 3])
    with pytest.raises(ConfigError, match="as_gym knows the spaces Discrete, Box"):
        convert_space(old("Strange"))


@pytest.mark.parametrize(("answer", "given"), [(None, "NoneType"), ((1, 2, 3), "3 values")])
def test_a_step_of_another_shape_is_named(answer, given):
    class Odd(Walk):
        def step(self, action):
            return answer

    env = as_gym(Odd())
    env.reset()
    with pytest.raises(ContractError, match=f"Odd.step must return .* got {given}"):
        env.step(0)


def test_options_that_nobody_takes_are_refused():
    with pytest.raises(ConfigError, match=r"Walk.reset takes no options, got \['level'\]"):
        as_gym(Walk()).reset(options={"level": 3})


def test_a_gymnasium_environment_is_none_of_these():
    env = gym.make("CartPole-v1")
    assert as_gym(env) is env


class ForSeveral:
    """In the shape of TextArena's games."""

    def reset(self, num_players, seed=None):
        return None

    def step(self, action):
        return "", 0.0, True, {}


@pytest.mark.parametrize("environment", [ForSeveral, ForSeveral()])
def test_a_reset_that_needs_the_number_of_players_is_refused_with_the_reason(environment):
    with pytest.raises(
        ConfigError, match=r"ForSeveral\.reset needs num_players; .* several players"
    ):
        as_gym(environment)
