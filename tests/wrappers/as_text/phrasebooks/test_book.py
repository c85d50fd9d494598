"""Which phrasebook is used, and what the one for all finds in an environment."""

from enum import Enum
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest

from llm_gym.core.errors import ConfigError
from llm_gym.wrappers import AsText
from llm_gym.wrappers.as_text.phrasebooks import (
    Phrasebook,
    book,
    find_phrasebook,
    register_phrasebook,
)
from llm_gym.wrappers.as_text.phrasebooks.discover import numbered, prose, sections
from tests.wrappers.as_text.plain_envs import Corridor


class Words(Phrasebook):
    pass


class MoreWords(Phrasebook):
    pass


class LongCorridor(Corridor):
    pass


@pytest.fixture(autouse=True)
def _forget(monkeypatch):
    monkeypatch.setattr(book, "_BOOKS", dict(book._BOOKS))


def test_a_class_of_environments_has_a_phrasebook_with_all_that_derive_from_it():
    assert find_phrasebook(LongCorridor()) is Phrasebook
    register_phrasebook(Corridor, Words)
    assert find_phrasebook(LongCorridor()) is Words
    register_phrasebook(LongCorridor, MoreWords)
    assert find_phrasebook(LongCorridor()) is MoreWords
    assert find_phrasebook(Corridor()) is Words
    assert isinstance(AsText(Corridor()).book, Words)


def test_an_id_comes_before_its_class_and_may_lack_a_version():
    env = gym.make("CartPole-v1")
    register_phrasebook("CartPole", Words)
    assert find_phrasebook(env) is Words
    register_phrasebook("CartPole-v1", "tests.wrappers.as_text.phrasebooks.test_book:MoreWords")
    assert find_phrasebook(env).__name__ == "MoreWords"
    assert find_phrasebook(gym.make("CartPole-v1", max_episode_steps=3)).__name__ == "MoreWords"


@pytest.mark.parametrize(("env", "book"), [(Corridor, Corridor), ("", Words), (3, Words)])
def test_bad_registrations_of_phrasebooks_are_refused(env, book):
    with pytest.raises(ConfigError, match="phrasebook"):
        register_phrasebook(env, book)


def test_every_registered_phrasebook_can_be_imported():
    for found in book._BOOKS.values():
        assert issubclass(book.load_phrasebook(found), Phrasebook)
    register_phrasebook(Corridor, "words")
    with pytest.raises(ConfigError, match=r"phrasebook must be .* got 'words'"):
        find_phrasebook(Corridor())


def test_incomplete_or_repeated_names_are_not_used():
    assert numbered("- 0: left\n- 2: right", 2) is None
    assert numbered("- 0: left\n- 1: left", 2) is None
    assert numbered("", 3) is None
    assert numbered("- 0: left\n- 1: right\n\n- 0: other\n- 1: list", 2) == ["left", "right"]


def test_headings_of_other_styles_are_found_and_prose_loses_its_markup():
    assert sections("Story.\n\nAction Space\n------------\n- 0: up") == {
        "": "Story.", "action space": "- 0: up",
    }  # fmt: skip
    text = "One <b>two</b> three. " * 40 + "\n\n```python\ncode\n```"
    short = prose(text, 100)
    assert short.startswith("One two three. One")
    assert short.endswith("three.")
    assert len(short) <= 100
    assert prose("", 50) == ""


class Bare(gym.Env):
    observation_space = action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        return 0, 0.0, False, False, {}


NUMBERS = ["0", "1", "2"]


@pytest.mark.parametrize(
    ("attributes", "moves"),
    [
        # As Atari, highway-env and others have them.
        ({"get_action_meanings": lambda self: ["NOOP", "FIRE", "UP"]}, ["noop", "fire", "up"]),
        ({"action_type": SimpleNamespace(actions={0: "LANE_LEFT", 1: "IDLE", 2: "FASTER"})},
         ["lane left", "idle", "faster"]),
        ({"actions": Enum("Actions", {"LEFT": 0, "STAY": 1, "RIGHT": 2})},
         ["left", "stay", "right"]),
        ({}, NUMBERS),
        # Of another meaning, or broken.
        ({"get_action_meanings": lambda self, language: []}, NUMBERS),
        ({"actions": property(lambda self: 1 / 0), "max_steps": property(lambda self: 1 / 0)},
         NUMBERS),
        ({"actions": Enum("Actions", {"LEFT": [0], "STAY": [1], "RIGHT": [2]})}, NUMBERS),
        ({"action_names": ["Up!", "up", "down"]}, NUMBERS),
        ({"action_names": ["...", "up", "down"]}, NUMBERS),
        ({"__doc__": 3}, NUMBERS),
    ],
)  # fmt: skip
def test_move_names_come_from_attributes(attributes, moves):
    env = AsText(type("Game", (Bare,), attributes)())
    text, _ = env.reset()
    assert env.legal_actions() == moves
    assert env.step(moves[1])[4]["valid_action"]
    choices = "a whole number from 0 to 2" if moves == NUMBERS else f"one of: {', '.join(moves)}"
    assert text.startswith(f"You are playing Game. Your move is {choices}.")


def test_a_docstring_for_authors_is_left_out_and_numbers_are_shown():
    class Generic(Bare):
        """An environment; the dynamics must be defined in the environment implementations."""

    class Road(Generic):
        observation_space = gym.spaces.Box(-np.inf, np.inf, (2, 3), np.float32)

        def reset(self, *, seed=None, options=None):
            return np.array([[1, 0.5, 1 / 3], [1, 0.1, 6.123e-17]], np.float32), {}

    env = AsText(Road(), rules="system")
    assert env.reset()[0].splitlines() == ["1 0.5 0.3333", "1 0.1 0"]
    assert "implementations" not in env.system_prompt


def test_the_docstring_of_a_base_class_is_used():
    Longer = type("Longer", (Corridor,), {})
    assert "A corridor with five rooms." in AsText(Longer()).reset()[0]


def test_pictures_are_not_mentioned():
    env = AsText(gym.make("Pendulum-v1"), rules="system")
    assert "diagram" not in env.system_prompt.lower()


def test_the_rules_name_the_fallback_move():
    env = AsText(gym.make("Taxi-v4" if "Taxi-v4" in gym.registry else "Taxi-v3"))
    named = env.reset(seed=0)[0].partition("unusable reply I play ")[2].split(",")[0]
    for seed in range(10):
        env.reset(seed=seed)
        assert env.step("?!")[4]["fallback"] == named


def test_blackjack_ends_with_the_dealers_hand():
    env = AsText(gym.make("Blackjack-v1"), rules="system")
    env.reset(seed=1)
    text = env.step("stick")[0]
    hand = env.unwrapped.dealer
    assert f"{hand[0] if hand[0] > 1 else 'an ace'} and" in text
    assert " points. " in text.splitlines()[-1]
