"""What every bridge does with a game that misbehaves; no suite is needed for it."""

import sys

import pytest
from gymnasium.error import ResetNeeded

from llm_gym.bridges.base import BridgeEnv, BridgeStep
from llm_gym.core.outcome import StopReason
from llm_gym.errors import ActionTypeError, ConfigError, WorkerError


class Rude(BridgeEnv):
    """Prints, and raises where it is told to."""

    has_splits = False
    breaks_at = ""

    def begin(self, seed):
        sys.stdout.write("Welcome to the game!\n")
        if self.breaks_at == "begin":
            raise KeyError("no such level")
        return "Hello."

    def play(self, text):
        sys.stdout.write("debug: step\n")
        if text == "raise":
            raise ZeroDivisionError("it was told to")
        return BridgeStep(
            f"You said {text}.", stop=StopReason.WON if text == "win" else StopReason.PLAYING
        )


def test_a_game_that_cannot_begin_is_one_sentence_and_the_next_may_begin():
    env = Rude()
    env.breaks_at = "begin"
    with pytest.raises(WorkerError, match="Rude could not begin: KeyError: 'no such level'"):
        env.reset(seed=0)
    env.breaks_at = ""
    assert env.reset(seed=0)[0] == "Hello."


def test_what_it_prints_goes_nowhere_and_what_it_raises_costs_a_turn(capsys):
    env = Rude(max_invalid=2)
    env.reset(seed=0)
    text, reward, terminated, truncated, info = env.step("raise")
    assert (text, reward) == ("The game could not use that reply.", 0.0)
    assert (terminated, truncated, info["valid_action"]) == (False, False, False)
    assert env.step("go on")[0] == "You said go on."
    assert env.step("raise")[3]
    assert capsys.readouterr() == ("", "")


def test_steps_out_of_order_and_of_no_text_are_the_programmers_fault():
    env = Rude()
    with pytest.raises(ResetNeeded, match="has not begun"):
        env.step("x")
    env.reset(seed=0)
    with pytest.raises(ActionTypeError, match="takes a str action, got int"):
        env.step(3)
    assert env.step("win")[4]["success"]
    with pytest.raises(ResetNeeded, match=r"is over \(won\)"):
        env.step("x")
    with pytest.raises(ConfigError, match="reset options may only be split, got"):
        env.reset(options={"level": 3})
    with pytest.raises(ConfigError, match="has no splits"):
        env.reset(options={"split": "train"})
