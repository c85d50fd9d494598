"""An environment behind OpenEnv's own server, with the real package: ``make test-bridges``."""

import random
import threading
import time

import gymnasium as gym
import pytest

import llm_gym  # noqa: F401 - registers the ids
from llm_gym.core.outcome import StopReason
from llm_gym.errors import ConfigError, WorkerError
from llm_gym.evaluate.checker import HOSTILE
from tests.bridges.playing import check_steps

pytest.importorskip("openenv.core.env_server")
uvicorn = pytest.importorskip("uvicorn")
pytestmark = pytest.mark.filterwarnings("ignore")
from openenv.core.env_server import (  # noqa: E402
    Action,
    Environment,
    Observation,
    State,
    create_fastapi_app,
)


class Say(Action):
    message: str


class Heard(Observation):
    text: str = ""


class Guess(Environment):
    """Guess a number; counts turns, and refuses one word."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def reset(self, seed=None, episode_id=None, **_):
        self.secret, self.turns = random.Random(seed).randint(1, 10), 0
        return Heard(text="Guess a number from 1 to 10.")

    def step(self, action, **_):
        if action.message == "refuse me":
            raise ValueError("no")
        self.turns += 1
        if action.message.strip() == str(self.secret):
            return Heard(text="Right.", reward=1.0, done=True)
        return Heard(text=f"Turn {self.turns}.", reward=0.0, done=self.turns == 5)

    @property
    def state(self):
        return State(episode_id="0", step_count=self.turns)


@pytest.fixture(scope="module")
def server():
    app = create_fastapi_app(Guess, Say, Heard, max_concurrent_envs=8)
    served = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical"))
    thread = threading.Thread(target=served.run, daemon=True)
    thread.start()
    while not served.started:
        time.sleep(0.01)
    port = served.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}"
    served.should_exit = True
    thread.join(10)


def make(url, **settings):
    settings.setdefault("observation_field", "text")
    return gym.make("llm_gym/OpenEnv-v0", url=url, **settings).unwrapped


def test_steps_follow_from_the_seed_whatever_others_do(server):
    check_steps(lambda: make(server), steps=30)


def test_a_game_is_won_and_lost(server):
    env = make(server)
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


def test_all_fields_are_shown_where_none_is_named(server):
    text, _ = make(server, observation_field="").reset(seed=0)
    assert text == "text: Guess a number from 1 to 10."
    with pytest.raises(ConfigError, match="observation_field must be one of"):
        make(server, observation_field="words").reset(seed=0)


def test_what_the_server_refuses_is_an_unusable_reply_and_no_text_raises(server):
    env = make(server, max_invalid=100)
    env.reset(seed=0)
    _, _, _, _, info = env.step("refuse me")
    assert not info["valid_action"]
    for text in HOSTILE.values():
        env.reset(seed=0)
        env.step(text)


def test_a_server_that_is_not_there_is_no_move():
    env = make("http://127.0.0.1:9")
    with pytest.raises(WorkerError, match="no episode from"):
        env.reset(seed=0)
    with pytest.raises(ConfigError, match="url must say"):
        gym.make("llm_gym/OpenEnv-v0")
