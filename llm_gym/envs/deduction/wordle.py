"""Find a hidden word; each letter of a guess is marked as right, misplaced or wrong."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from llm_gym import Outcome, TextEnv, go_on, reject, setting, win
from llm_gym.envs.shared import word_list
from llm_gym.reading.moves import Find, find_with

_LIST = re.compile(r"one of (\d+) common English words of (\d+) letters")
_ROW = re.compile(r"^([A-Z ]+): ([GYX ]+)$", re.MULTILINE)
_LISTED = 100
"""The rules list all words if there are at most this many, so no English is needed."""
_MOST_TURNS = 100  # every observation lists the guesses
_WEIGHED = 60
"""The solver compares the information of guesses if at most this many words fit."""


def marks(guess: str, secret: str) -> str:
    """Return the mark of every letter of ``guess``, with spaces between them.

    A letter gets at most as many G and Y marks as the secret contains it; G comes first.

    >>> marks("crane", "caper"), marks("geese", "elope"), marks("allot", "llama")
    ('G Y Y X Y', 'X Y X X G', 'Y G Y X X')
    """
    rest = [theirs for mine, theirs in zip(guess, secret, strict=True) if mine != theirs]
    found = []
    for mine, theirs in zip(guess, secret, strict=True):
        if mine == theirs:
            found.append("G")
        elif mine in rest:
            rest.remove(mine)
            found.append("Y")
        else:
            found.append("X")
    return " ".join(found)


class WordleEnv(TextEnv):
    """Find a hidden word within a few guesses.

    Description:
        The environment hides a common English word. Every letter of a guess is marked: G if the
        letter is in the right place, Y if the word has it in another place, X if the word does
        not have it, or has it fewer times than the guess.

    Actions:
        A word of the right length, such as ``crane`` or ``[crane]``. Unless ``only_words`` is
        set, any letters are allowed. A guess may be repeated; it costs a turn.

    Observations:
        All guesses so far with their marks, and the turns left.

    Rewards:
        1 for the right word, otherwise 0. With ``shaping``, the potential is the largest share
        of G marks among the guesses so far.

    Episode end:
        Terminates on the right word (won) and after ``max_turns`` guesses (lost).

    Args:
        word_length: Letters of the word, 3 to 8.
        list_size: Number of words that may be hidden, spread evenly over llm_gym's list for this
            length; None takes all. The rules say how many there are, and list up to 100 of them.
        only_words: Whether a guess must be one of the words that may be hidden.
        max_turns: Guesses allowed, 1 to 100.
        **common: See ``TextEnv``.
    """

    move_name = "guess"
    is_markov = True

    word_length: int = setting(5, word_list.LENGTHS[0], word_list.LENGTHS[-1])
    list_size: int | None = setting(None)
    only_words: bool = setting(False)
    max_turns: int = setting(6, 1, _MOST_TURNS)

    def check_settings(self) -> None:
        most = len(word_list.words_of(self.word_length))
        self.check_range("list_size", 2, most)
        self.has_splits = (self.list_size or most) > _LISTED

    @classmethod
    def at_difficulty(cls, difficulty: float) -> Mapping[str, Any]:
        most = len(word_list.words_of(5))
        return {"word_length": 5, "list_size": round(10 * (most / 10) ** difficulty)}

    def _words(self) -> tuple[str, ...]:
        return word_list.some_words_of(self.word_length, self.list_size)

    def new_game(self, rng: np.random.Generator) -> None:
        words = self._words()
        self._secret = words[int(rng.random() * len(words))]
        self._answers: list[tuple[str, str]] = []

    def rules_text(self) -> str:
        words = self._words()
        listed = f": {', '.join(words)}" if len(words) <= _LISTED else ""
        any_letters = f"may be any {self.word_length} letters, a word or not"
        guess = "must be one of them" if self.only_words else any_letters
        return (
            f"I hide one of {len(words)} common English words of {self.word_length} letters"
            f"{listed}. Guess it; your guess {guess}. I mark every letter of your guess: G if it "
            "is right, Y if the word has it in another place, X if not. A letter that you guess "
            "more often than the word has it gets X for the rest."
        )

    def example_moves(self) -> Sequence[str]:
        words = self._words()
        return [words[len(words) // 3], words[-1]]

    def describe(self) -> str:
        rows = [f"{' '.join(guess.upper())}: {answer}\n" for guess, answer in self._answers]
        return f"{''.join(rows)}Turns left: {self.turns_left}."

    def apply(self, move: str) -> Outcome:
        guess = word_list.parse_word(move)
        if guess is None or len(guess) != self.word_length:
            return reject(f"Your guess must be one word of {self.word_length} letters from a to z.")
        if self.only_words and guess not in word_list.word_set(self.word_length, self.list_size):
            return reject(f"{guess} is not one of my words.")
        if guess == self._secret:
            return win(f"Yes, the word is {guess}.")
        self._answers.append((guess, marks(guess, self._secret)))
        return go_on()

    def reveal(self) -> str:
        return f"The word was {self._secret}."

    def instance(self) -> object:
        return self._secret

    def swap_secret(self, rng: np.random.Generator) -> bool:
        fitting = fitting_words(self._words(), self._answers)
        others = [word for word in fitting if word != self._secret]
        if others:
            self._secret = others[int(rng.integers(len(others)))]
        return bool(others)

    def random_move(self, rng: np.random.Generator) -> str:
        words = self._words()
        return words[int(rng.random() * len(words))]

    def finder(self) -> Find:
        return find_with(word_list.find_words, lengths=(self.word_length,))

    def move_pattern(self) -> str | None:
        return "|".join(self._words()) if self.only_words else f"[a-z]{{{self.word_length}}}"

    def oracle_move(self) -> str:
        return self._secret

    @staticmethod
    def solve(observations: Sequence[str], moves: Sequence[str]) -> str:
        """Guess the fitting word whose marks would tell most about the other fitting words."""
        count, length = map(int, _LIST.findall(observations[0])[0])
        rows = _ROW.findall(observations[-1])
        answers = [(guess.replace(" ", "").lower(), marked) for guess, marked in rows]
        words = fitting_words(word_list.some_words_of(length, count), answers)
        if len(words) > _WEIGHED:
            return _most_common(words)
        return min(words, key=lambda guess: _left_unknown(guess, words))

    def potential(self) -> float:
        rights = [marked.count("G") for _, marked in self._answers]
        return max(rights, default=0) / self.word_length


def fitting_words(words: Sequence[str], answers: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return the words that are consistent with the marks of all guesses.

    >>> fitting_words(["caper", "canoe", "cable"], [("crane", "G Y Y X Y")])
    ('caper',)
    """
    left = tuple(words)
    for guess, marked in answers:
        left = _narrowed(left, guess, marked)
    return left


@lru_cache(maxsize=256)  # every turn asks again about all turns before it
def _narrowed(words: tuple[str, ...], guess: str, marked: str) -> tuple[str, ...]:
    return tuple([word for word in words if marks(guess, word) == marked])


@lru_cache(maxsize=256)  # the same at the beginning of every game
def _most_common(words: tuple[str, ...]) -> str:
    shared = Counter(letter for word in words for letter in set(word))
    return max(words, key=lambda word: sum(shared[letter] for letter in set(word)))


def _left_unknown(guess: str, words: Sequence[str]) -> float:
    """Return the remaining entropy in bits after the marks of ``guess``, times the words."""
    groups = Counter(marks(guess, word) for word in words)
    return sum(count * math.log2(count) for count in groups.values())
