"""AsText on other packages, each where it is installed: ``make test-packages``."""

import warnings

import gymnasium as gym
import pytest

from llm_gym.wrappers import AsText
from llm_gym.wrappers.as_text import make_text

pytestmark = pytest.mark.filterwarnings("ignore")


def made(module, env_id, **settings):
    package = pytest.importorskip(module)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gym.register_envs(package)
        return gym.make(env_id, **settings)


@pytest.mark.parametrize(
    ("module", "env_id", "phrase"),
    [
        ("highway_env", "highway-fast-v0", "lane left, idle, lane right, faster, slower"),
        ("highway_env", "parking-v0", "2 numbers with a space between, each from -1 to 1"),
        ("highway_env", "parking-v0", "\ndesired_goal: "),
        ("gym_anytrading", "stocks-v0", "one of: sell, buy"),
        ("flappy_bird_gymnasium", "FlappyBird-v0", "one of: idle, flap"),
        ("ale_py", "ALE/Breakout-v5", "one of: noop, fire, right, left"),
        ("popgym", "popgym-CountRecallEasy-v0", "cut after 51 moves"),
        ("minigrid", "MiniGrid-Empty-5x5-v0", "cut after 100 moves"),
        ("minihack", "MiniHack-Room-5x5-v0", "cut after 100 moves"),
    ],
)
def test_names_labels_and_limits_come_from_the_package(module, env_id, phrase):
    text, _ = AsText(made(module, env_id)).reset(seed=0)
    assert phrase in text
    assert "Args:" not in text


def test_the_rules_of_the_lander_name_its_engines():
    pytest.importorskip("Box2D")
    text, _ = make_text("LunarLander-v3", continuous=True).reset(seed=0)
    assert "2 numbers with a space between, main engine from -1 to 1, side engines from" in text
