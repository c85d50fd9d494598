"""A served model plays any Gymnasium environment, broken ones too."""

import gymnasium as gym
import pytest

from llm_gym.core.outcome import StopReason
from llm_gym.core.spaces import AnyText
from llm_gym.evaluate.endpoint import play
from tests.core.legacy.old_games import TextGame
from tests.evaluate.endpoint.fake_server import FakeServer


class Moody(gym.Env):
    """Raises at the reset or step that it was made with."""

    observation_space = action_space = AnyText(100)

    def __init__(self, bad_reset=None, bad_step=None):
        self.bad_reset, self.bad_step = bad_reset, bad_step

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seed, self.turn = seed, 0
        if seed == self.bad_reset:
            raise RuntimeError("no game today")
        return "Say something.", {}

    def step(self, action):
        self.turn += 1
        if (self.seed, self.turn) == self.bad_step:
            raise RuntimeError("enough")
        return "Go on.", 1.0, self.turn == 3, False, {}


class Endless(Moody):
    def step(self, action):
        return "Go on.", 0.0, False, False, {}


@pytest.fixture
def server():
    with FakeServer(lambda messages: "left") as server:
        yield server


def test_a_gymnasium_environment_is_played_through_as_text(server):
    result = play("CartPole-v1", server.url, "m", 2)
    assert result.env_id == "CartPole-v1"
    assert all(episode.terminated[-1] for episode in result.episodes)
    assert result.invalid == 0.0
    system, user = server.requests[0]["messages"]
    assert system["role"] == "system"
    assert "left" in system["content"]
    assert user["role"] == "user"
    assert result.mean_return == result.mean_turns > 5


def test_a_factory_makes_the_environments_and_old_classes_are_adapted(server):
    result = play(TextGame, server.url, "m", 2)
    assert [episode.rewards for episode in result.episodes] == [[-0.1] * 10] * 2
    assert result.env_id.endswith(":TextGame")


def test_an_exception_of_an_environment_ends_only_its_own_episode(server, caplog):
    result = play(lambda: Moody(bad_step=(1, 2)), server.url, "m", 3, num_envs=1)
    good, bad, last = result.episodes
    assert [e.stop_reason for e in (good, last)] == [StopReason.FINISHED] * 2
    assert bad.stop_reason == StopReason.ERROR
    assert (bad.num_turns, bad.truncated, bad.rewards) == (2, [False, True], [1.0, 0.0])
    assert bad.infos[-1]["error"] == "RuntimeError: enough"
    assert "episode 1: its environment raised RuntimeError: enough" in caplog.text
    assert any("1 of " in note and "failed in their environment" in note for note in result.notes())
    bad.to_json()


ODD_STEPS = [
    ("Go on.", float("nan"), False, False, {}), ("Go on.", 10**400, False, False, {}),
    ("Go on.", "ten", False, False, {}), (None, 1.0, False, False, {}),
    ("Go on.", 1.0, False, False, None), ("Go on.", 1.0, False, {}),
]  # fmt: skip


@pytest.mark.parametrize("step", ODD_STEPS, ids=str)
def test_an_invalid_step_ends_only_its_own_episode(server, step):
    class Odd(Moody):
        def step(self, action):
            return step if (self.seed, self.turn) == (1, 1) else super().step(action)

    good, bad = play(Odd, server.url, "m", 2).episodes
    assert good.stop_reason is StopReason.FINISHED
    assert (bad.stop_reason, bad.rewards) == (StopReason.ERROR, [1.0, 0.0])
    bad.to_json()


def test_a_failed_reset_is_recorded_as_an_episode_without_turns(server):
    result = play(lambda: Moody(bad_reset=0), server.url, "m", 2)
    bad, good = result.episodes
    assert (bad.stop_reason, bad.num_turns, bad.seed) == (StopReason.ERROR, 0, 0)
    assert good.num_turns == 3
    bad.to_json()


def test_max_turns_truncates_an_endless_game(server):
    [episode] = play(Endless, server.url, "m", 1, max_turns=4).episodes
    assert (episode.num_turns, episode.stop_reason) == (4, StopReason.MAX_STEPS)
    assert len(server.requests) == 4
