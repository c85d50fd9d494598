"""An environment behind OpenEnv's own server, with the real package: ``make test-bridges``."""

import gymnasium as gym
import pytest

from llm_gym.core.errors import ConfigError, WorkerError
from llm_gym.core.outcome import StopReason

pytest.importorskip("openenv.core.env_server")
pytestmark = pytest.mark.filterwarnings("ignore")


def make(url, **settings):
    settings.setdefault("observation_field", "text")
    return gym.make("llm_gym/OpenEnv-v0", url=url, **settings).unwrapped


def test_a_game_is_won_and_lost(openenv_server):
    env = make(openenv_server)
    text, _ = env.reset(seed=0)
    assert text == "Guess a number from 1 to 10."
    for _ in range(5):
        _, _, terminated, _, info = env.step("0")
    assert (terminated, info["stop_reason"]) == (True, StopReason.LOST)
    for seed in range(20):
        env.reset(seed=seed)
        text, reward, terminated, _, info = env.step("3")
        if terminated:
            assert (text, reward, info["success"]) == ("Right.", 1.0, True)
            return
    pytest.fail("3 was never the number")


def test_all_fields_are_shown_where_none_is_named(openenv_server):
    text, _ = make(openenv_server, observation_field="").reset(seed=0)
    assert text == "text: Guess a number from 1 to 10."
    with pytest.raises(ConfigError, match="observation_field"):
        make(openenv_server, observation_field="words").reset(seed=0)


def test_a_move_that_the_server_refuses_is_unusable(openenv_server):
    env = make(openenv_server)
    env.reset(seed=0)
    assert not env.step("refuse me")[4]["valid_action"]


def test_a_missing_server_is_an_error():
    env = make("http://127.0.0.1:9")
    with pytest.raises(WorkerError, match="no episode from"):
        env.reset(seed=0)
    with pytest.raises(ConfigError, match="url must say"):
        gym.make("llm_gym/OpenEnv-v0")
