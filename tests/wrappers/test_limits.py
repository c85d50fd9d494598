"""Limits from outside: each one cuts, says why, and leaves everything else alone."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import pytest
from gymnasium.wrappers import TimeLimit

import llm_gym  # noqa: F401 - registers the environments
from llm_gym.core.errors import ConfigError
from llm_gym.core.outcome import StopReason
from llm_gym.wrappers import EpisodeLimits

GAME = "llm_gym/GuessTheNumber-v0"


class Clock:
    """A clock that goes on when it is told to."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def words(text: str) -> int:
    return len(text.split())


def guessing(**settings: Any) -> gym.Env[str, str]:
    return gym.make(GAME, low=1, high=1000, max_turns=50, **settings)


def steps_until_cut(
    env: gym.Env[str, str], action: str = "no idea", before: Callable[[], None] = lambda: None
) -> tuple[int, StopReason]:
    env.reset(seed=0)
    for turn in range(1, 50):
        before()
        _, _, terminated, truncated, info = env.step(action)
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


def test_tokens_of_observations_and_actions_are_limited() -> None:
    env = guessing()
    opening, _ = env.reset(seed=0)
    answer, *_ = env.step("no idea")
    per_turn = words("no idea") + words(answer)
    for turns, budget in (
        (1, words(opening) + per_turn),
        (2, words(opening) + per_turn + 1),
        (3, words(opening) + 3 * per_turn),
        (1, 1),  # the first observation alone is too much: one step is played all the same
    ):
        limited = EpisodeLimits(env, max_tokens=budget, count_tokens=words)
        for _ in range(2):
            assert steps_until_cut(limited) == (turns, StopReason.TOKENS)


def test_a_long_action_uses_the_budget_up() -> None:
    env = EpisodeLimits(guessing(), max_tokens=1000, count_tokens=words)
    assert steps_until_cut(env, action="well " * 1000) == (1, StopReason.TOKENS)


def test_another_way_of_counting_gives_another_cut() -> None:
    by_words = EpisodeLimits(guessing(), max_tokens=500, count_tokens=words)
    by_letters = EpisodeLimits(guessing(), max_tokens=500, count_tokens=len)
    assert steps_until_cut(by_words)[0] > steps_until_cut(by_letters)[0]


def test_time_is_limited_from_reset_on() -> None:
    clock = Clock()
    env = EpisodeLimits(guessing(), max_seconds=2.5, clock=clock)

    def think() -> None:
        clock.now += 1.0

    for _ in range(2):
        assert steps_until_cut(env, before=think) == (3, StopReason.TIME)
        clock.now += 1000.0  # the pause between two episodes is nobody's time


def test_the_real_clock_is_the_default() -> None:
    assert steps_until_cut(EpisodeLimits(guessing(), max_seconds=1e-9)) == (1, StopReason.TIME)


def test_the_first_limit_reached_is_the_reason() -> None:
    env = EpisodeLimits(guessing(), max_turns=2, max_tokens=10_000, count_tokens=words)
    assert steps_until_cut(env) == (2, StopReason.MAX_STEPS)
    env = EpisodeLimits(guessing(), max_turns=40, max_tokens=60, count_tokens=words)
    assert steps_until_cut(env)[1] is StopReason.TOKENS
    all_at_once = EpisodeLimits(guessing(), 1, 1, words, 1e-9)
    assert steps_until_cut(all_at_once) == (1, StopReason.MAX_STEPS)


def test_a_step_that_ended_the_game_is_never_truncated() -> None:
    env = EpisodeLimits(gym.make(GAME), 1, 1, words, 1e-9)
    env.reset(seed=0)
    action = env.get_wrapper_attr("oracle_action")()
    _, reward, terminated, truncated, info = env.step(action)
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert info["stop_reason"] is StopReason.WON


def test_a_cut_from_inside_keeps_its_reason() -> None:
    inner = TimeLimit(guessing(), max_episode_steps=1)
    env = EpisodeLimits(inner, max_tokens=1, count_tokens=words)
    env.reset(seed=0)
    *_, truncated, info = env.step("no idea")
    assert truncated
    assert info["stop_reason"] is StopReason.PLAYING, "TimeLimit says nothing, and we add nothing"


def test_the_rest_of_a_step_passes_through() -> None:
    plain, limited = guessing(), EpisodeLimits(guessing(), max_turns=1)
    assert plain.reset(seed=3) == limited.reset(seed=3)
    expected, got = plain.step("500"), limited.step("500")
    assert got[:3] == expected[:3]
    assert got[4] == {**expected[4], "stop_reason": StopReason.MAX_STEPS}


def test_reset_options_pass_through() -> None:
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


def test_limits_with_a_counter_are_rebuilt_from_a_spec_in_memory() -> None:
    env = EpisodeLimits(guessing(), max_tokens=1, count_tokens=words)
    assert env.spec is not None
    assert steps_until_cut(gym.make(env.spec)) == (1, StopReason.TOKENS)


def test_a_counter_is_not_copied_into_the_spec() -> None:
    class Tokenizer:
        def __call__(self, text: str) -> int:
            return words(text)

        def __deepcopy__(self, memo: Any) -> Any:
            raise AssertionError("a tokenizer is too large to copy")

    counter = Tokenizer()
    env = EpisodeLimits(guessing(), max_tokens=1, count_tokens=counter)
    assert env.spec is not None
    assert env.spec.additional_wrappers[-1].kwargs["count_tokens"] is counter


def test_limits_work_in_a_vector() -> None:
    envs = gym.vector.SyncVectorEnv([lambda: EpisodeLimits(guessing(), max_turns=1)] * 2)
    envs.reset(seed=0)
    _, _, terminated, truncated, _ = envs.step(("no idea", "no idea"))
    assert truncated.tolist() == [True, True]
    assert terminated.tolist() == [False, False]
