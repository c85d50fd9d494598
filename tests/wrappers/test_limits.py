"""EpisodeLimits, MaxInvalid, TokenBudget and FormatReward: each changes one thing and states it."""

import gymnasium as gym
import pytest
from gymnasium.wrappers import TimeLimit

from llm_gym.core.errors import ConfigError, ContractError
from llm_gym.core.outcome import StopReason
from llm_gym.core.spaces import AnyText
from llm_gym.wrappers import EpisodeLimits, FormatReward, MaxInvalid, TokenBudget, ToolUse
from tests.evaluate.test_checker import Foreign
from tests.wrappers.guessing import GAME, guessing

ENDED, CUT = (True, False), (False, True)
SPELLED = {"max_tokens": 5, "count_tokens": len}


@pytest.mark.parametrize(
    ("wrap", "settings", "actions", "flags", "reason"),
    [
        (EpisodeLimits, {"max_turns": 1}, ["no"], CUT, StopReason.MAX_STEPS),
        (EpisodeLimits, {"max_turns": 4}, ["no"] * 4, CUT, StopReason.MAX_STEPS),
        (MaxInvalid, {"max_invalid": 2}, ["no", "1", "no", "no"], ENDED, StopReason.INVALID),
        (MaxInvalid, {"max_invalid": 2, "in_a_row": False}, ["no", "1", "no"], ENDED,
         StopReason.INVALID),
        (TokenBudget, SPELLED, ["12", "1234"], CUT, StopReason.TOKENS),
        (TokenBudget, {"max_tokens": 4}, ["x" * 9, "xxx"], CUT, StopReason.TOKENS),
    ],
)  # fmt: skip
def test_every_episode_ends_at_its_limit_with_a_stop_reason(wrap, settings, actions, flags, reason):
    env = wrap(guessing(), **settings)
    for _ in range(2):
        env.reset(seed=0)
        *before, (_, _, *last, info) = [env.step(action) for action in actions]
        assert all(step[2:4] == (False, False) for step in before)
        assert all(step[4]["stop_reason"] is StopReason.PLAYING for step in before)
        assert (tuple(last), info["stop_reason"], info["success"]) == (flags, reason, False)


@pytest.mark.parametrize("wrap", [EpisodeLimits, MaxInvalid, TokenBudget])
def test_a_win_with_the_last_step_is_a_win(wrap):
    env = wrap(guessing(), 1)
    env.reset(seed=0)
    _, reward, terminated, truncated, info = env.step(env.unwrapped.oracle_action())
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert info["stop_reason"] is StopReason.WON


def test_an_inner_truncation_keeps_its_stop_reason():
    env = EpisodeLimits(TimeLimit(guessing(), max_episode_steps=1), max_turns=1)
    env.reset(seed=0)
    *_, truncated, info = env.step("no idea")
    assert truncated
    assert info["stop_reason"] is StopReason.PLAYING, "TimeLimit sets no reason, and we add none"


def test_limits_are_stated_in_observations():
    env = TokenBudget(guessing(), **SPELLED)
    assert env.reset(seed=0)[0].endswith("\nTokens left: 5.")
    assert env.step("12")[0].endswith("\nTokens left: 3.")
    assert "Tokens left" not in env.step("1234")[0]
    for in_a_row, end in ((True, " in a row.\n"), (False, ".\n")):
        rules, _ = MaxInvalid(guessing(), 2, in_a_row).reset(seed=0)
        assert rules.startswith(f"The game ends after 2 unusable replies{end}")


def test_steps_and_reset_options_pass_through():
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


class Sharing(gym.Env):
    """Returns the same info at every step, with odd values."""

    observation_space = action_space = AnyText(9)
    shared = {"stop_reason": StopReason.PLAYING, "valid_action": False, "reward_terms": 3}

    def quitting_cost(self):
        return -1.0

    def reset(self, *, seed=None, options=None):
        return "begin", {"system_prompt": 3}

    def step(self, action):
        return "on", 0.0, False, False, self.shared


@pytest.mark.parametrize("wrap", [EpisodeLimits, MaxInvalid, TokenBudget])
def test_the_info_of_the_environment_is_not_modified(wrap):
    before = dict(Sharing.shared)
    _, reward, *_, info = wrap(Sharing(), 1).step("abcd")
    assert info["stop_reason"] is not StopReason.PLAYING
    assert Sharing.shared == before
    if wrap is MaxInvalid:
        assert (reward, info["reward_terms"]) == (-1.0, {"given_up": -1.0})


def test_a_system_prompt_that_is_no_text_is_none():
    text, info = ToolUse(Sharing(), ["finish"]).reset()
    assert text.endswith("\n\nbegin")
    assert info["system_prompt"] == 3


def test_max_invalid_needs_to_know_what_is_usable():
    env = MaxInvalid(Foreign(), 1)
    env.reset()
    with pytest.raises(ContractError, match="valid_action"):
        env.step("x")


@pytest.mark.parametrize(
    ("action", "good"),
    [
        ("<think>low</think>1", True), ("<think>low\nor not</think>\n1", True),
        ("low</think>1", True), ("  <think>low</think>1", True), ("1", False),
        ("<think>low</think>", False), ("<think>low</think> \n", False), ("<think>low 1", False),
        ("<think>a</think>1<think>b</think>", False), ("<think><think>a</think>1", False),
        ("a<think>b</think>1", False), ("<think>a</think></think>1", False),
    ],
)  # fmt: skip
def test_only_think_tags_before_the_reply_avoid_the_penalty(action, good):
    env, bare = FormatReward(guessing(), penalty=0.25), guessing()
    assert env.reset(seed=0)[0] == (
        "Think first, between <think> and </think>, then give your reply.\n" + bare.reset(seed=0)[0]
    )
    observation, reward, *_, info = env.step(action)
    assert observation == bare.step(action)[0]
    assert reward == info["reward_terms"]["format"] == (0.0 if good else -0.25)


def test_a_format_may_be_a_regex_and_adds_to_the_reward():
    env = FormatReward(guessing(), format=r"[0-9]+\n.", ask="Digits, then a mark.")
    assert env.reset(seed=0)[0].startswith("Digits, then a mark.\n")
    assert env.step("12\n\n")[1] == 0.0
    assert env.step("12")[1] == -0.1
    assert FormatReward(guessing(), "[0-9]+").reset(seed=0) == guessing().reset(seed=0)
    env = FormatReward(guessing(penalty=0.5), penalty=0.25)
    env.reset(seed=0)
    _, reward, *_, info = env.step("no idea")
    assert reward == -0.75
    assert info["reward_terms"] == {"success": 0.0, "invalid": -0.5, "format": -0.25}
    assert env.step(env.unwrapped.oracle_action())[1] == 0.75
