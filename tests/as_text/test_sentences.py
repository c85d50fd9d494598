"""Sentences of a model in environments of others: words for a move, and words that are none."""

import gymnasium as gym
import pytest

from llm_gym.as_text import AsText
from llm_gym.core.reading.finders import find_phrases


def read(env_id, reply):
    env = AsText(gym.make(env_id))
    env.reset(seed=0)
    info = env.step(reply)[4]
    return info["move"] if info["valid_action"] else None


@pytest.mark.parametrize(
    ("env_id", "reply", "move"),
    [
        ("CartPole-v1", "It is left.", "push left"),
        ("CartPole-v1", "I push the cart to the left.", "push left"),
        ("CartPole-v1", "The pole leans to the left, so I push left.", "push left"),
        ("CartPole-v1", "It is falling left. I move the cart right.", "push right"),
        ("FrozenLake-v1", "I go north.", "up"),
        ("FrozenLake-v1", "The right move is **down**, I think.", "down"),
        *(("FrozenLake-v1", reply, "left") for reply in (
            "I turn left.", "Turn left", "I take one step left.", "I step left.",
            "I move one cell left.", "I go one step to the left.",
        )),
        *(("FrozenLake-v1", reply, "down") for reply in (
            "Down to the goal!", "I'll step down for safety.", "I'll go down to avoid the hole.",
            "I move down to get closer to the goal.", "I go down the board.",
            "I move down on the grid.",
        )),
        ("FrozenLake-v1", "I go up the board for now.", "up"),
        ("MountainCar-v0", "I would rather go right than left.", "push right"),
        ("Blackjack-v1", "I stand, as 19 is enough.", "stick"),
    ],
)  # fmt: skip
def test_every_word_for_a_move_is_read_in_a_sentence_too(env_id, reply, move):
    assert read(env_id, reply) == move


@pytest.mark.parametrize(
    "reply",
    ["I give up.", "All right, let me see.", "The right choice is unclear to me.", "That's right.",
     "I have 3 moves left.", "Turns left: 5", "3 turns left", "I have one step left.", "left: 2",
     "It comes down to luck.", "It is up to you.", "What is left to do is unclear.",
     "I end up here.",
     "The top left corner is mine.", "The goal is at the bottom right."],
)  # fmt: skip
def test_an_idiom_is_no_direction(reply):
    assert read("FrozenLake-v1", reply) is None


@pytest.mark.parametrize("reply", ["The pole leans left.", "The angle is 1.", "right: bad"])
def test_what_is_said_of_the_state_is_no_move(reply):
    assert read("CartPole-v1", reply) is None


@pytest.mark.parametrize(
    ("env_id", "first", "second"),
    [("Acrobot-v1", "1", "2"), ("MountainCarContinuous-v0", "0.5", "-0.25")],
)
def test_two_numbers_are_no_choice(env_id, first, second):
    for reply in ("1. {}\n2. {}", "Action: {}\nAction: {}", "{}, {}", "Answer: {}, {}"):
        assert read(env_id, reply.format(first, second)) is None, reply
    assert read(env_id, f"Answer: {first}") is not None


def test_a_move_of_several_words_is_one_even_if_it_sounds_like_an_idiom():
    moves = ["turn left", "left", "pick up"]
    found = [move for *_, move in find_phrases("Turn left. Moves left: 3. I pick up.", moves)]
    assert found == ["turn left", "pick up"]
