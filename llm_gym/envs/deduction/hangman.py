"""Find a hidden word letter by letter before the lives run out."""

import re
from collections import Counter
from collections.abc import Sequence
from string import ascii_lowercase

import numpy as np

from llm_gym import Outcome, TextEnv, go_on, lose, reject, setting, win
from llm_gym.envs.shared.word_list import LENGTHS, find_words, parse_word, words_of
from llm_gym.reading.moves import Find, find_with

_WORD = re.compile(r"^Word: ([a-z_ ]+)$", re.MULTILINE)
_WRONG = re.compile(r"^Wrong: ([a-z, ]+)\.$", re.MULTILINE)
_MOST_LIVES = 100  # every observation lists the wrong guesses


class HangmanEnv(TextEnv):
    """Find a hidden word letter by letter before the lives run out.

    Description:
        The environment hides a common English word and shows a blank for every letter. A right
        letter is filled in at all its positions; a wrong letter, or a wrong guess at the whole
        word, costs a life.

    Actions:
        A letter, such as ``e``, or a whole word of the right length, such as ``crane``. ``[e]``
        and ``guess e`` also work. A letter that was tried before is unusable: it costs a turn, not
        a life. A guess at the whole word need not be an English word.

    Observations:
        The result of the last guess, the word with its blanks, the wrong guesses so far, and the
        lives and turns left.

    Rewards:
        1 for finding the word, letter by letter or by one guess, otherwise 0. With ``shaping``,
        the potential is the share of the letters that are filled in.

    Episode end:
        Terminates when the word is found (won), when no life is left (lost) and after
        ``max_turns`` guesses (lost).

    Args:
        word_length: Letters of the word, 3 to 8.
        lives: Wrong guesses after which the game is lost, 1 to 100.
        max_turns: Guesses allowed.
        **common: See ``TextEnv``.
    """

    move_name = "guess"
    is_markov = True

    # Short words are harder: each right letter reveals less.
    word_length: int = setting(5, LENGTHS[0], LENGTHS[-1], levels=(8, 4))
    lives: int = setting(6, 1, _MOST_LIVES, levels=(10, 4))
    max_turns: int = setting(20, 1)

    def new_game(self, rng: np.random.Generator) -> None:
        words = words_of(self.word_length)
        rng.random()  # without this draw, Wordle would hide the same word for the same seed
        self._secret = words[int(rng.random() * len(words))]
        self._shown = "_" * self.word_length
        self._tried = ""
        self._wrong: list[str] = []

    def rules_text(self) -> str:
        return (
            f"I hide one of {len(words_of(self.word_length))} common English words of "
            f"{self.word_length} letters. Guess a letter, and I show every place where the word "
            "has it; or guess the whole word. You win when you have the word. A wrong letter or a "
            f"wrong word costs a life; you have {self.lives}, and lose with the last one. A letter "
            "that you tried before is unusable."
        )

    def example_moves(self) -> Sequence[str]:
        return ["e", words_of(self.word_length)[0]]

    def describe(self) -> str:
        wrong = f"\nWrong: {', '.join(self._wrong)}." if self._wrong else ""
        lives = self.lives - len(self._wrong)
        word = " ".join(self._shown)
        return f"Word: {word}{wrong}\nLives: {lives}. Turns left: {self.turns_left}."

    def apply(self, move: str) -> Outcome:
        guess = parse_word(move)
        if guess is None or len(guess) not in (1, self.word_length):
            return reject(f"Your guess must be one letter or a word of {self.word_length} letters.")
        if guess == self._secret:
            return win(f"Yes, the word is {guess}.")
        if len(guess) > 1:
            return self._miss(guess, f"The word is not {guess}.")
        if guess in self._tried:
            return reject(f"You tried {guess} before.")
        self._tried += guess
        if guess not in self._secret:
            return self._miss(guess, f"There is no {guess}.")
        self._shown = "".join([c if c in self._tried else "_" for c in self._secret])
        if self._shown == self._secret:
            return win(f"Yes, the word is {self._secret}.")
        return go_on(f"Yes, there is {guess}.")

    def _miss(self, guess: str, text: str) -> Outcome:
        self._wrong.append(guess)
        if len(self._wrong) == self.lives:
            return lose(f"{text} No lives left: you lost. {self.reveal()}")
        return go_on(text)

    def reveal(self) -> str:
        return f"The word was {self._secret}."

    def instance(self) -> object:
        return self._secret

    def reflex_move(self, rng: np.random.Generator) -> str:
        """Guess the most frequent letter of English that was not tried."""
        return next(letter for letter in "etaoinshrdlucmfywgpbvkxqjz" if letter not in self._tried)

    def swap_secret(self, rng: np.random.Generator) -> bool:
        others = fitting_words(self._shown, self._wrong)
        others.remove(self._secret)
        if others:
            self._secret = others[int(rng.integers(len(others)))]
        return bool(others)

    def random_move(self, rng: np.random.Generator) -> str:
        letters = [letter for letter in ascii_lowercase if letter not in self._tried]
        return letters[int(rng.random() * len(letters))]  # with all letters tried, it is won

    def finder(self) -> Find:
        return find_with(find_words, lengths=(1, self.word_length))

    def move_pattern(self) -> str | None:
        return rf"[a-z]|[a-z]{{{self.word_length}}}"

    def oracle_move(self) -> str:
        return self._secret

    @staticmethod
    def solve(observations: Sequence[str], moves: Sequence[str]) -> str:
        """Guess the letter that occurs in most of the words that fit.

        It never guesses a whole word. A known word costs no life letter by letter, and a model that
        imitates these moves does not know the word list.
        """
        known = _WORD.findall(observations[-1])[0].replace(" ", "")
        wrong = _WRONG.findall(observations[-1])
        words = fitting_words(known, wrong[0].split(", ") if wrong else [])
        had = Counter(letter for word in words for letter in set(word) - set(known))
        return max(sorted(had), key=had.__getitem__)

    def potential(self) -> float:
        return 1 - self._shown.count("_") / self.word_length


def fitting_words(shown: str, wrong: Sequence[str]) -> list[str]:
    """Return the words that may stand behind the blanks of ``shown`` after the ``wrong`` guesses.

    >>> fitting_words("cr_ne", ["o"])
    ['crane']
    """
    # A right letter is shown at all its positions, so no blank hides it.
    tried = "".join([*set(shown) - {"_"}, *(guess for guess in wrong if len(guess) == 1)])
    blank = f"[^{tried}]" if tried else "."
    fits = re.compile(shown.replace("_", blank)).fullmatch
    return [word for word in words_of(len(shown)) if fits(word) and word not in wrong]
