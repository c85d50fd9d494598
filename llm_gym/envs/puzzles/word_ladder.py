"""Change one word into another, one letter at a time."""

import operator
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from llm_gym import Outcome, TextEnv, go_on, progress, reject, setting, win
from llm_gym.envs.shared.word_list import all_words, find_words, parse_word, words_of
from llm_gym.reading.moves import Find, Named, find_with

FARTHEST = {3: 6, 4: 9, 5: 16}
"""By word length: a distance at which every word of the graph has some other word.

Longer words have too few neighbours for ladders.
"""


class WordGraph(NamedTuple):
    """All words of one length; neighbours differ in one letter."""

    words: tuple[str, ...]
    number: dict[str, int]
    steps: dict[str, tuple[str, ...]]
    """The neighbours of each word, in alphabetical order."""
    near: npt.NDArray[np.int16]
    """The neighbours as word numbers, a row for each word, padded with the word itself."""
    linked: tuple[int, ...]
    """The numbers of the words in the largest connected component."""


@cache
def ladder_words(length: int) -> tuple[str, ...]:
    """Return the words of ``length`` letters that a ladder may step on, in alphabetical order.

    They are the words of the shared list, which games hide, and inflected forms of them, such as
    ``moved`` and ``tunes``, which games do not hide.

    >>> "moved" in ladder_words(5), "moved" in words_of(5)
    (True, False)
    """
    more = (word for word in all_words("more_words.txt") if len(word) == length)
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
    # The word with most neighbours is in the largest connected component.
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

    The cache keeps the distances out of the environment, so that snapshots and pickles stay small,
    and makes repeated targets free. All targets of one length take three megabytes.
    """
    return _spread(word_graph(length).near, target)


def steps_between(word: str, other: str) -> int:
    """Return the length of a shortest ladder between two connected words.

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


_STATE = re.compile(r"Word: ([a-z]+)\. Target: ([a-z]+)\.")


def find_other_words(text: str, word: str) -> Iterator[Named]:
    """Yield the words in ``text`` that are as long as ``word``.

    >>> [move for *_, move in find_other_words("blob -> blot", "blob")]
    ['blot']
    """
    return (one for one in find_words(text, (len(word),)) if one[2] != word)


class WordLadderEnv(TextEnv):
    """Change one word into another, one letter at a time.

    Description:
        The environment names a word and a target of the same length. Every step replaces one
        letter and must make a common English word. There is always a ladder of ``min_distance``
        to ``max_distance`` steps, and none that is shorter.

    Actions:
        The next word, such as ``cord`` or ``[cord]``. A word that is not in llm_gym's list, or
        that does not differ from the current word in exactly one letter, is unusable.

    Observations:
        The current word, the target and the turns left; with ``hints`` also the possible next
        words.

    Rewards:
        1 for reaching the target, otherwise 0. With ``shaping``, the potential is the
        ``progress`` along the shortest ladder.

    Episode end:
        Terminates at the target (won) and after ``max_turns`` steps (lost).

    Args:
        word_length: Letters of the words, 3 to 5.
        min_distance: Smallest length of the shortest ladder between the two words; at most 6, 9
            and 16 for words of 3, 4 and 5 letters.
        max_distance: Largest length of the shortest ladder.
        hints: Show the possible next words.
        max_turns: Steps allowed, at least ``max_distance``.
        **common: See ``TextEnv``.
    """

    is_markov = True

    word_length: int = setting(4, min(FARTHEST), max(FARTHEST))
    min_distance: int = setting(5)
    max_distance: int = setting(7)
    hints: bool = setting(False)
    max_turns: int = setting(100)

    def check_settings(self) -> None:
        self.check_range("min_distance", 1, FARTHEST[self.word_length])
        self.check_range("max_distance", self.min_distance)
        self.check_range("max_turns", self.max_distance)

    @classmethod
    def at_difficulty(cls, difficulty: float) -> Mapping[str, Any]:
        distance = round(1 + 8 * difficulty)
        return {
            "word_length": 4,
            "min_distance": distance,
            "max_distance": distance,
            "max_turns": 4 * distance,
        }

    def new_game(self, rng: np.random.Generator) -> None:
        graph = word_graph(self.word_length)
        target = graph.linked[int(rng.random() * len(graph.linked))]
        away = distances(self.word_length, target)
        # Draw the distance uniformly; a uniform word would mostly be far away.
        longest = min(self.max_distance, int(away.max()))
        distance = self.min_distance + int(rng.random() * (longest - self.min_distance + 1))
        starts = np.flatnonzero(away == distance)
        self._start = self._word = graph.words[starts[int(rng.random() * len(starts))]]
        self._target = graph.words[target]

    def rules_text(self) -> str:
        hints = " I show the words that you can reach." if self.hints else ""
        return (
            "Change the word into the target. Your move is the next word: it replaces one letter "
            f"and must be a common English word; I know {len(ladder_words(self.word_length))} "
            f"words of {self.word_length} letters. A word that I do not know, or that is not "
            f"exactly one letter away, is unusable.{hints} There is always a way of at most "
            f"{self.max_distance} step{'s' * (self.max_distance > 1)}."
        )

    def example_moves(self) -> Sequence[str]:
        words = ladder_words(self.word_length)
        return [words[len(words) // 4], words[len(words) // 2]]

    def describe(self) -> str:
        word = self._word
        hints = ""
        if self.hints:
            hints = f" One step leads to: {', '.join(word_graph(len(word)).steps[word])}."
        return f"Word: {word}. Target: {self._target}.{hints} Turns left: {self.turns_left}."

    def apply(self, move: str) -> Outcome:
        word = parse_word(move)
        if word is None or len(word) != self.word_length:
            return reject(f"Your move must be one word of {self.word_length} letters.")
        steps = word_graph(self.word_length).steps
        if word not in steps[self._word]:
            if word not in steps:
                return reject(f"I do not know the word {word}.")
            return reject(f"{word} is not exactly one letter away from {self._word}.")
        self._word = word
        if word == self._target:
            return win(f"Yes, you have reached {word}.")
        return go_on()

    def instance(self) -> object:
        return (self._start, self._target)

    def finder(self) -> Find:
        return find_with(find_other_words, word=self._word)

    def legal_moves(self) -> Sequence[str]:
        return word_graph(self.word_length).steps[self._word]

    def reflex_move(self, rng: np.random.Generator) -> str:
        """Take a word that shares the most letters with the target."""
        alike = {word: sum(map(operator.eq, word, self._target)) for word in self.legal_moves()}
        best = [word for word, same in alike.items() if same == max(alike.values())]
        return best[int(rng.random() * len(best))]

    def oracle_move(self) -> str:
        return step_towards(self._word, self._target)

    @staticmethod
    def solve(observations: Sequence[str], moves: Sequence[str]) -> str:
        """Search the word list: a good player knows English."""
        word, target = _STATE.findall(observations[-1])[-1]
        return step_towards(word, target)

    def potential(self) -> float:
        whole = steps_between(self._start, self._target)
        return progress(steps_between(self._word, self._target), whole)
