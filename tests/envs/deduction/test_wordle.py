"""Wordle: the rules, one test per rule."""

import pytest

from llm_gym.envs.deduction.wordle import WordleEnv, marks
from llm_gym.envs.shared.word_list import some_words_of, words_of


@pytest.mark.parametrize(
    ("guess", "secret", "expected"),
    [
        ("crane", "crane", "GGGGG"),
        ("crane", "moist", "XXXXX"),
        ("trace", "crate", "YGGYG"),
        # A letter twice in the guess and once in the word: one mark, the right place first.
        ("geese", "elope", "XYXXG"),
        ("speed", "abide", "XXYXY"),
        ("allow", "cloud", "XGXYX"),
        ("eerie", "three", "YXGXG"),
        # Once in the guess and twice in the word; twice in both.
        ("table", "eagle", "XGXGG"),
        ("abbey", "babes", "YYGGX"),
        ("llama", "small", "YYGYX"),
    ],
)
def test_marks_of_known_guesses(guess, secret, expected):
    assert marks(guess, secret) == " ".join(expected)


def test_no_letter_gets_more_marks_than_the_word_has_of_it():
    words = words_of(5)
    for guess in words[::97]:
        for secret in words[::89]:
            given = marks(guess, secret).split()
            for letter in set(guess):
                marked = sum(m != "X" for g, m in zip(guess, given, strict=True) if g == letter)
                assert marked == min(guess.count(letter), secret.count(letter))


def test_a_short_word_list_is_in_the_rules_and_holds_every_secret():
    env = WordleEnv(list_size=20)
    words = some_words_of(5, 20)
    rules, _ = env.reset(seed=0)
    assert f"one of 20 common English words of 5 letters: {', '.join(words)}." in rules
    assert {env.reset() and env._secret for _ in range(300)} == set(words)
