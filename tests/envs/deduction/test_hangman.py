"""Hangman: the rules, one test per rule."""

import pytest

from llm_gym.envs.deduction.hangman import HangmanEnv, fitting_words
from llm_gym.envs.shared.word_list import words_of


def make(secret="level", **kwargs):
    env = HangmanEnv(word_length=len(secret), **kwargs)
    env.reset(seed=0)
    env._secret = secret
    return env


def test_a_wrong_word_costs_a_life_and_the_last_one_loses():
    env = make(lives=2)
    obs, *_ = env.step("lever")
    assert (
        obs == "The word is not lever.\nWord: _ _ _ _ _\nWrong: lever.\nLives: 1. Turns left: 19."
    )
    assert env.step("lever")[4]["stop_reason"] == "lost"
    obs, reward, terminated, truncated, info = make(lives=1).step("x")
    assert obs == "There is no x. No lives left: you lost. The word was level."
    assert (reward, terminated, truncated, info["stop_reason"]) == (0.0, True, False, "lost")


@pytest.mark.parametrize("letter", ["e", "x"])
def test_a_letter_tried_before_is_unusable_and_costs_a_turn_but_no_life(letter):
    env = make()
    env.step(letter)
    lives = len(env._wrong)
    obs, *_, info = env.step(letter)
    assert obs.startswith(f"You tried {letter} before.")
    assert not info["valid_action"]
    assert (len(env._wrong), info["turn"]) == (lives, 2)


@pytest.mark.parametrize("length", range(3, 9))
def test_words_have_the_length_that_was_asked_for(length):
    env = HangmanEnv(word_length=length)
    obs, _ = env.reset(seed=1)
    assert env._secret in words_of(length)
    assert f"one of {len(words_of(length))} common English words of {length} letters" in obs


def test_words_that_fit_have_no_shown_letter_behind_a_blank():
    fits = fitting_words("_e_e_", ["x", "never"])
    assert "level" in fits
    assert "never" not in fits, "it was tried as a word"
    assert "eerie" not in fits
    assert "tepee" not in fits
    assert all(w[1] == w[3] == "e" and w.count("e") == 2 and "x" not in w for w in fits)
