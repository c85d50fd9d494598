"""highway-env in words; its classes are played by a stand-in, for the package is large."""

from types import SimpleNamespace

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from llm_gym.wrappers.as_text import AsText

WORDS = "llm_gym.wrappers.as_text.phrasebooks.highway:HighwayWords"


class Generic(gym.Env):
    """A generic environment; the dynamics must be defined in the environment implementations."""


class Road(Generic):
    observation_space = spaces.Box(-np.inf, np.inf, (4, 5), np.float32)
    action_space = spaces.Discrete(3)

    def __init__(self):
        self.observation_type = SimpleNamespace(
            features=["presence", "x", "y", "vx", "vy"],
            features_range={"x": [-200, 200], "y": [-12, 12], "vx": [-80, 80], "vy": [-80, 80]},
            normalize=True,
            absolute=False,
        )
        self.action_type = SimpleNamespace(actions={0: "LANE_LEFT", 1: "IDLE", 2: "FASTER"})

    def reset(self, *, seed=None, options=None):
        rows = np.zeros((4, 5), np.float32)
        rows[0] = 1, 0.5, 1 / 3, 0.3125, 0
        rows[1] = 1, 0.1, 6.123e-17, -0.05, 0
        return rows, {}

    def step(self, action):
        rows = np.zeros((4, 5), np.float32)
        rows[0] = 1, 0.5, 1 / 3, 0.3125, 0
        return rows, 0.0, False, False, {}


class Parking(Generic):
    observation_space = spaces.Dict(
        {
            key: spaces.Box(-np.inf, np.inf, (4,))
            for key in ("achieved_goal", "desired_goal", "observation")
        }
    )
    action_space = spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self):
        features = ["x", "y", "cos_h", "sin_h"]
        self.observation_type = SimpleNamespace(features=features, scales=[100, 100, 1, 1])
        self.action_type = SimpleNamespace(lateral=True, longitudinal=True)

    def reset(self, *, seed=None, options=None):
        here, goal = np.array([0.1, 0.0, 6.1e-17, -1.0]), np.array([0.2, 0.14, 1.0, 0.0])
        return {"observation": here, "achieved_goal": here, "desired_goal": goal}, {}


def test_the_driver_knows_who_is_who_and_how_far():
    env = AsText(Road(), phrasebook=WORDS, rules="system")
    text, _ = env.reset(seed=0)
    assert text.splitlines() == [
        "you: ahead 100 m, to the right 4 m, speed ahead 25 m/s, speed to the right 0 m/s",
        "vehicle 1: ahead 20 m, to the right 0 m, speed ahead -4 m/s, speed to the right 0 m/s",
    ]
    rules = env.system_prompt
    assert "as seen from yours" in rules
    assert "implementations" not in rules, "that is for authors"
    assert "lane left" in rules
    assert env.step("idle")[0].splitlines()[1] == "No other vehicle is in sight."


def test_a_goal_is_told_in_metres_and_the_pedals_have_names():
    env = AsText(Parking(), phrasebook=WORDS, rules="system")
    text, _ = env.reset(seed=0)
    assert text.splitlines() == [
        "You are at: east 10 m, south 0 m, heading 270.",
        "Your goal is: east 20 m, south 14 m, heading 0.",
    ]
    assert "degrees clockwise from east" in env.system_prompt
    assert "acceleration from -1 to 1, steering from -1 to 1" in env.system_prompt


def test_pictures_that_nobody_sees_are_not_spoken_of():
    env = AsText(gym.make("Pendulum-v1"), rules="system")
    assert "diagram" not in env.system_prompt.lower()


def test_the_fallback_is_the_move_that_the_rules_name():
    env = AsText(gym.make("Taxi-v4" if "Taxi-v4" in gym.registry else "Taxi-v3"))
    named = env.reset(seed=0)[0].partition("unusable reply I play ")[2].split(",")[0]
    for seed in range(10):
        env.reset(seed=seed)
        assert env.step("?!")[4]["fallback"] == named


def test_blackjack_ends_with_the_dealers_hand():
    env = AsText(gym.make("Blackjack-v1"), rules="system")
    env.reset(seed=1)
    text = env.step("stick")[0]
    hand = env.unwrapped.dealer
    assert f"{hand[0] if hand[0] > 1 else 'an ace'} and" in text
    assert " points. " in text.splitlines()[-1]
