"""Hangman: the rules, one test per rule."""

import pytest

from llm_gym.envs.deduction.hangman import HangmanEnv, fitting_words
from llm_gym.envs.shared.word_list import words_of


@pytest.mark.parametrize("length", range(3, 9))
def test_words_have_the_length_of_the_setting(length):
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
