"""The words that the word games know: a list of our own, read once and shared by all of them.

The list is plain text beside this file, so that the games need no network and no other package.
A game that draws a word tells the player how many there are to choose from.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

LENGTHS = range(3, 9)
"""Lengths of the words in the list."""

_WORD = re.compile(r"\[?(?:guess )?([a-z]+)\]?\.?")


@cache
def all_words() -> tuple[str, ...]:
    """Return all words, by length and then by alphabet."""
    text = files("llm_gym.envs.shared").joinpath("word_list.txt").read_text("ascii")
    return tuple(
        word for line in text.splitlines() if not line.startswith("#") for word in line.split()
    )


@cache
def words_of(length: int) -> tuple[str, ...]:
    """Return all words of ``length`` letters, in alphabetical order.

    >>> words_of(5)[0], len(words_of(5)) > 2000
    ('about', True)
    """
    return tuple(word for word in all_words() if len(word) == length)


@cache
def some_words_of(length: int, count: int | None) -> tuple[str, ...]:
    """Return ``count`` words of ``length`` letters, evenly spread over the list; None for all.

    >>> len(some_words_of(5, 10)), some_words_of(5, None) is words_of(5)
    (10, True)
    """
    words = words_of(length)
    return words if count is None else tuple(words[i * len(words) // count] for i in range(count))


@cache
def word_set(length: int, count: int | None) -> frozenset[str]:
    """Return the words of ``some_words_of`` as a set, to look one up.

    >>> "about" in word_set(5, None), "abuot" in word_set(5, None)
    (True, False)
    """
    return frozenset(some_words_of(length, count))


def parse_word(move: str) -> str | None:
    """Return the word in ``move`` in lower case, or None if it is anything but one word.

    >>> parse_word("Crane"), parse_word("[crane]"), parse_word("guess crane.")
    ('crane', 'crane', 'crane')
    >>> parse_word("crane or slate"), parse_word("crâne"), parse_word("5")
    (None, None, None)
    """
    word = move.lower()
    if word.isascii() and word.isalpha():  # what players mostly write
        return word
    found = _WORD.fullmatch(word)
    return found[1] if found else None
