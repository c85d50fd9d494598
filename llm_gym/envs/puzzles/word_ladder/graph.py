"""The words of one length as a graph: neighbours differ in one letter.

Almost all words of a length hang together; ladders are drawn from those. Words are handled by
their number in the list.
"""

from __future__ import annotations

from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from llm_gym.envs.shared.word_list import words_of

FARTHEST = {3: 6, 4: 9, 5: 16}
"""Steps that, by word length, every word of the graph is away from some other one.

Longer words have too few neighbours for ladders.
"""


class WordGraph(NamedTuple):
    """All words of one length and who is next to whom."""

    words: tuple[str, ...]
    number: dict[str, int]
    steps: dict[str, tuple[str, ...]]
    """The neighbours of each word, in alphabetical order."""
    near: npt.NDArray[np.int16]
    """The same by number, a row for each word, filled up with the word itself."""
    linked: tuple[int, ...]
    """The words that hang together."""


@cache
def ladder_words(length: int) -> tuple[str, ...]:
    """Return the words of ``length`` letters that a ladder may step on, in alphabetical order.

    They are those of the shared list, which games hide, and forms of them that nobody would hide
    but everybody knows: ``moved``, ``tunes``.

    >>> "moved" in ladder_words(5), "moved" in words_of(5)
    (True, False)
    """
    text = files("llm_gym.envs.puzzles.word_ladder").joinpath("more_words.txt").read_text("ascii")
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    more = (word for line in lines for word in line.split() if len(word) == length)
    return tuple(sorted({*words_of(length), *more}))


@cache
def word_graph(length: int) -> WordGraph:
    """Return the graph of the words of ``length`` letters.

    >>> word_graph(4).steps["warm"]
    ('farm', 'harm', 'ward', 'ware', 'warn', 'warp', 'wars', 'wart', 'wary', 'worm')
    """
    words = ladder_words(length)
    alike: dict[str, list[str]] = {}
    for word in words:
        for gap in _gaps(word):
            alike.setdefault(gap, []).append(word)
    steps = {
        word: tuple(sorted(near for gap in _gaps(word) for near in alike[gap] if near != word))
        for word in words
    }
    number = {word: at for at, word in enumerate(words)}
    width = max(map(len, steps.values()))
    near = np.array(
        [
            [*map(number.__getitem__, steps[word])] + [at] * (width - len(steps[word]))
            for at, word in enumerate(words)
        ],
        dtype=np.int16,
    )
    # The word with most neighbours is inside the part that hangs together.
    hub = max(range(len(words)), key=lambda at: len(steps[words[at]]))
    linked = np.flatnonzero(_spread(near, hub) >= 0)
    return WordGraph(words, number, steps, near, tuple(linked.tolist()))


def _gaps(word: str) -> list[str]:
    return [f"{word[:at]}_{word[at + 1 :]}" for at in range(len(word))]


def _spread(near: npt.NDArray[np.int16], centre: int) -> npt.NDArray[np.int8]:
    away = np.full(len(near), -1, dtype=np.int8)
    away[centre] = steps = 0
    while (ring := np.flatnonzero(away == steps)).size:  # breadth first, a ring at a time
        around = near[ring]
        steps += 1
        away[around[away[around] < 0]] = steps
    return away


@lru_cache(maxsize=2048)
def distances(length: int, target: int) -> npt.NDArray[np.int8]:
    """Return how many steps each word is away from word number ``target``, or -1.

    The cache keeps them out of the environment, so that snapshots and pickles stay small; a word
    that was a target before costs nothing, and all of one length take three megabytes.
    """
    return _spread(word_graph(length).near, target)


def steps_between(word: str, other: str) -> int:
    """Return the length of a shortest ladder between two words that hang together.

    >>> steps_between("cat", "cat"), steps_between("cat", "dog")
    (0, 3)
    """
    number = word_graph(len(word)).number
    return int(distances(len(word), number[other])[number[word]])


def step_towards(word: str, target: str) -> str:
    """Return the first neighbour of ``word`` on a shortest ladder to ``target``.

    >>> step_towards("cat", "cot")
    'cot'
    """
    return min(word_graph(len(word)).steps[word], key=lambda step: steps_between(step, target))
