"""Every Gymnasium environment that can be built here, in text."""

import contextlib
import pickle
import re
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec

from llm_gym.wrappers import AsText
from llm_gym.wrappers.as_text import speaks_text
from tests.wrappers.hostile_texts import TEXTS

with contextlib.suppress(ImportError):
    import minigrid  # noqa: F401 - registers its environments
pytestmark = pytest.mark.filterwarnings("ignore")  # other people's


def built_here():
    """Return the ids of what can be built without anything more; of MiniGrid's 178 every 8th."""
    found, grids = [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for env_id, spec in sorted(gym.registry.items()):
            if env_id.startswith("llm_gym/"):
                continue
            if "minigrid" in str(spec.entry_point):
                grids += 1
                if grids % 8:
                    continue
            try:
                env = gym.make(env_id)
                env.reset(seed=0)
            except Exception:  # noqa: BLE001 - it needs what is not installed
                continue
            if not speaks_text(env):
                found.append(env_id)
    return found


IDS = built_here()
GRIDS = [each for each in IDS if each.startswith(("BabyAI", "MiniGrid"))]
SLOW = {"CarRacing-v3", *GRIDS} - set(GRIDS[::3])
"""CarRacing draws itself at every step: as long as all the others together."""
SWEPT = [pytest.param(each, marks=pytest.mark.slow if each in SLOW else ()) for each in IDS]


class RecordCalls(gym.Wrapper):
    """Records the calls that reach the environment."""

    def __init__(self, env):
        super().__init__(env)
        self.calls = []

    def reset(self, **kwargs):
        self.calls.append(("reset", kwargs))
        return super().reset(**kwargs)

    def step(self, action):
        self.calls.append(("step", action))
        return super().step(action)


def same(first, second):
    return repr(first) == repr(second)


def test_common_environments_are_in_the_sweep():
    assert {"CartPole-v1", "Blackjack-v1", "Pendulum-v1", "FrozenLake-v1"} <= set(IDS)


@pytest.mark.parametrize("env_id", SWEPT)
def test_no_text_raises_and_steps_pass_through_unchanged(env_id):
    recorded = RecordCalls(gym.make(env_id))
    env = AsText(recorded, invalid="feedback", max_invalid=10_000)  # giving up plays on
    raw = gym.make(env_id)
    answers, seed = [], 0
    env.reset(seed=seed)
    texts = TEXTS[len(env_id) % 2 :: 2]  # the other half is read in other environments
    for turn in range(2 * len(texts)):
        action = texts[turn // 2] if turn % 2 else env.random_action()
        assert turn % 2 or re.fullmatch(env.action_pattern(), action)
        before = len(recorded.calls)
        observation, reward, terminated, truncated, info = env.step(action)
        assert observation in env.observation_space
        if len(recorded.calls) > before:
            answers.append((reward, terminated, truncated, info))
            assert info["valid_action"]
        else:
            assert not info["valid_action"]
            assert reward <= 0.0
            assert not terminated
        if terminated or truncated:
            seed += 1
            env.reset(seed=seed)
    assert len(answers) >= 75
    for kind, value in recorded.calls:
        if kind == "reset":
            raw.reset(seed=value["seed"])
            continue
        _, *returned, own = raw.step(value)
        *passed_on, info = answers.pop(0)
        assert same(returned, passed_on)
        assert all(same(own[key], info[key]) for key in own)


@pytest.mark.parametrize("env_id", SWEPT)
def test_an_episode_goes_on_after_pickling_where_the_environment_can_be_pickled(env_id):
    env = AsText(gym.make(env_id))
    env.reset(seed=4)
    try:
        pickle.loads(pickle.dumps(env.env))
    except Exception as error:  # noqa: BLE001 - Box2D's world, for one
        pytest.skip(f"the environment itself cannot be pickled: {error}")
    if hasattr(env.unwrapped, "_ezpickle_args"):
        pytest.skip("EzPickle builds a new environment and forgets the episode")
    twin = pickle.loads(pickle.dumps(env))
    action = env.random_action()
    assert twin.step(action)[0] == env.step(action)[0]


def trace_of(env):
    """Return all steps of an episode of random actions, one of them unusable."""
    steps, over = [env.reset(seed=7)[0]], False
    while not over and len(steps) < 12:
        action = "what?" if len(steps) == 3 else env.get_wrapper_attr("random_action")()
        text, reward, terminated, truncated, _ = env.step(action)
        steps.append((text, str(reward), terminated, truncated))
        over = terminated or truncated
    return steps


@pytest.mark.parametrize("env_id", SWEPT)
def test_a_seed_gives_the_same_texts_even_after_json(env_id):
    env = AsText(gym.make(env_id), rules="system", penalty=0.5, invalid="feedback")
    first = trace_of(env)
    np.random.seed(0)  # noqa: NPY002 - nobody looks at it
    assert trace_of(env) == first
    assert trace_of(gym.make(EnvSpec.from_json(env.spec.to_json()))) == first
