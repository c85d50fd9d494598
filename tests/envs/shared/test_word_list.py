"""The word list: clean, large enough, and read once."""

from importlib.resources import files

import pytest

from llm_gym.envs.shared.word_list import LENGTHS, some_words_of, words_of


def raw():
    text = files("llm_gym.envs.shared").joinpath("word_list.txt").read_text("utf-8")
    return [word for line in text.splitlines() if line[:1] != "#" for word in line.split()]


def test_the_words_are_clean_in_order_and_licensed():
    assert [w for w in raw() if not (w.isascii() and w.isalpha() and w.islower())] == []
    assert {len(word) for word in raw()} == set(LENGTHS)
    words = raw()
    assert len(set(words)) == len(words)
    assert words == sorted(words, key=lambda word: (len(word), word))
    text = files("llm_gym.envs.shared").joinpath("word_list.txt").read_text("utf-8")
    assert "Apache 2.0" in text.split("\n\n")[0]


@pytest.mark.parametrize(
    ("length", "least"), [(3, 400), (4, 1500), (5, 2000), (6, 1000), (7, 800), (8, 500)]
)
def test_there_are_enough_words_of_every_length(length, least):
    assert len(words_of(length)) >= least
    assert all(len(word) == length for word in words_of(length))


@pytest.mark.parametrize("count", [1, 2, 7, 100])
def test_some_words_are_different_words_of_the_list(count):
    some = some_words_of(4, count)
    assert len(set(some)) == len(some) == count
    assert set(some) <= set(words_of(4))
