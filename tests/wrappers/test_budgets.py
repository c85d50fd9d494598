"""TokenBudget, MaxInvalid and FormatReward: each changes one thing and says so."""

import pytest

from llm_gym.core.errors import ContractError
from llm_gym.core.outcome import StopReason
from llm_gym.wrappers import FormatReward, MaxInvalid, TokenBudget
from tests.evaluate.test_checker import Foreign
from tests.wrappers.guessing import guessing

# --- tokens -------------------------------------------------------------------------------


def test_what_the_player_writes_is_counted_and_told():
    env = TokenBudget(guessing(), max_tokens=5, count_tokens=len)
    first, _ = env.reset(seed=0)
    assert first.endswith("\nTokens left: 5.")
    observation, _, terminated, truncated, info = env.step("12")
    assert observation.endswith("\nTokens left: 3.")
    assert (terminated, truncated, info["stop_reason"]) == (False, False, StopReason.PLAYING)
    observation, _, terminated, truncated, info = env.step("1234")
    assert (terminated, truncated, info["stop_reason"]) == (False, True, StopReason.TOKENS)
    assert "Tokens left" not in observation
    assert env.reset(seed=0)[0] == first


def test_a_win_with_the_last_token_is_a_win():
    env = TokenBudget(guessing(), max_tokens=1, count_tokens=len)
    env.reset(seed=0)
    _, reward, terminated, truncated, info = env.step(env.unwrapped.oracle_action())
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert info["stop_reason"] is StopReason.WON
    env = TokenBudget(guessing(), max_tokens=100)
    env.reset(seed=0)
    assert "Tokens left: 97." in env.step("x" * 9)[0], "four characters are a token"


# --- unusable replies ---------------------------------------------------------------------


def test_unusable_replies_in_a_row_end_the_game():
    env = MaxInvalid(guessing(), max_invalid=2)
    first, _ = env.reset(seed=0)
    assert first.startswith("The game ends after 2 unusable replies in a row.\n")
    for action in ("no", "1", "no"):
        assert env.step(action)[2:4] == (False, False)
    _, _, terminated, truncated, info = env.step("no")
    assert (terminated, truncated, info["stop_reason"]) == (True, False, StopReason.INVALID)
    assert not info["success"]
    env.reset(seed=0)
    assert not env.step("no")[2]


def test_unusable_replies_may_be_counted_over_the_whole_game():
    env = MaxInvalid(guessing(), max_invalid=2, in_a_row=False)
    assert env.reset(seed=0)[0].startswith("The game ends after 2 unusable replies.\n")
    for action in ("no", "1"):
        assert not env.step(action)[2]
    assert env.step("no")[2]


def test_max_invalid_needs_to_know_what_is_usable():
    env = MaxInvalid(Foreign(), 1)
    env.reset()
    with pytest.raises(ContractError, match="valid_action"):
        env.step("x")


# --- format -------------------------------------------------------------------------------


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
def test_thinking_first_is_free_and_everything_else_has_a_price(action, good):
    env, bare = FormatReward(guessing(), penalty=0.25), guessing()
    assert env.reset(seed=0)[0] == (
        "Think first, between <think> and </think>, then give your reply.\n" + bare.reset(seed=0)[0]
    )
    observation, reward, *_, info = env.step(action)
    assert observation == bare.step(action)[0]
    assert reward == info["reward_terms"]["format"] == (0.0 if good else -0.25)


def test_a_format_may_be_a_pattern_and_is_added_to_what_the_game_pays():
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
