"""A limit of turns cuts, says why, and leaves everything else alone."""

from typing import Any

import gymnasium as gym
import pytest
from gymnasium.wrappers import TimeLimit

from llm_gym.core.errors import ConfigError
from llm_gym.core.outcome import StopReason
from llm_gym.wrappers import EpisodeLimits
from tests.wrappers.guessing import GAME, guessing


def steps_until_cut(env: gym.Env[str, str]) -> tuple[int, StopReason]:
    env.reset(seed=0)
    for turn in range(1, 50):
        _, _, terminated, truncated, info = env.step("no idea")
        assert not terminated
        if truncated:
            return turn, info["stop_reason"]
        assert info["stop_reason"] is StopReason.PLAYING
    raise AssertionError("nothing was cut")


@pytest.mark.parametrize("max_turns", [1, 4])
def test_turns_are_limited_in_every_episode_anew(max_turns: int) -> None:
    env = EpisodeLimits(guessing(), max_turns=max_turns)
    for _ in range(2):
        assert steps_until_cut(env) == (max_turns, StopReason.MAX_STEPS)


def test_an_end_or_a_cut_from_inside_keeps_its_reason() -> None:
    env = EpisodeLimits(gym.make(GAME), max_turns=1)
    env.reset(seed=0)
    action = env.get_wrapper_attr("oracle_action")()
    _, reward, terminated, truncated, info = env.step(action)
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert info["stop_reason"] is StopReason.WON
    inner = TimeLimit(guessing(), max_episode_steps=1)
    env = EpisodeLimits(inner, max_turns=1)
    env.reset(seed=0)
    *_, truncated, info = env.step("no idea")
    assert truncated
    assert info["stop_reason"] is StopReason.PLAYING, "TimeLimit says nothing, and we add nothing"


def test_steps_and_reset_options_pass_through() -> None:
    plain, limited = guessing(), EpisodeLimits(guessing(), max_turns=1)
    assert plain.reset(seed=3) == limited.reset(seed=3)
    expected, got = plain.step("500"), limited.step("500")
    assert got[:3] == expected[:3]
    assert got[4] == {**expected[4], "stop_reason": StopReason.MAX_STEPS}
    env = EpisodeLimits(gym.make(GAME), max_turns=5)
    env.reset(seed=0, options={"difficulty": 1.0})
    assert env.get_wrapper_attr("high") == 1024
    with pytest.raises(ConfigError, match="reset options"):
        env.reset(options={"colour": "red"})


def test_the_info_of_the_environment_is_not_written_to() -> None:
    shared: dict[str, Any] = {"stop_reason": StopReason.PLAYING}

    class Sharing(gym.Env[str, str]):
        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, Any]:
            return "begin", shared

        def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
            return "on", 0.0, False, False, shared

    env = EpisodeLimits(Sharing(), max_turns=1)
    assert env.step("a")[4]["stop_reason"] is StopReason.MAX_STEPS
    assert shared == {"stop_reason": StopReason.PLAYING}
