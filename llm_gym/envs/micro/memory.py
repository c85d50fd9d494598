"""Say at the end the word that was shown at the start: the smallest game of memory."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import numpy as np

from llm_gym.core.env import CommonArgs, TextEnv
from llm_gym.core.outcome import Outcome, go_on, lose, reject, win
from llm_gym.envs.micro.echo import MOST_TURNS, WORDS, parse_word

_SHOWN = re.compile(r"Remember (\w+)\.")


class MemoryEnv(TextEnv):
    """Remember a word over a few turns of distraction.

    Description:
        The first observation shows a word. ``delay`` turns later the environment asks for it;
        in between it shows other words and does not look at the replies. Only a player that
        still sees the first observation, or carries the word along, can win.

    Actions:
        Anything while the word is to be kept, for example ``ok``; then a word, such as ``red``
        or ``say red``. A word outside the vocabulary is then unusable.

    Observations:
        The word at first, then words to ignore, then the question.

    Rewards:
        1 for the right word, otherwise 0: all of it at the last turn. A random player gets
        1 / ``words`` on average.

    Episode end:
        Terminates with the answer, after ``delay`` + 1 turns: won if it is right, otherwise
        lost.

    Args:
        words: Size of the vocabulary, 2 to 16.
        delay: Turns between the word and the question, at least 1.
        **common: See ``TextEnv``.
    """

    has_splits = False

    def __init__(self, *, words: int = 4, delay: int = 2, **common: Unpack[CommonArgs]) -> None:
        self.words, self.delay, self.max_turns = words, delay, delay + 1
        super().__init__(**common)

    def check_settings(self) -> None:
        self.check_range("words", 2, len(WORDS))
        self.check_range("delay", 1, MOST_TURNS)

    @classmethod
    def at_difficulty(cls, difficulty: float) -> Mapping[str, Any]:
        delay = round(1 + 9 * difficulty)
        return {"words": round(2 + 14 * difficulty), "delay": delay, "max_turns": delay + 1}

    def new_game(self, rng: np.random.Generator) -> None:
        word, *others = (WORDS[at] for at in rng.permutation(self.words))
        self._word = word
        # Never the word itself: saying what was shown last must not pay.
        self._noise = [others[at] for at in rng.integers(len(others), size=self.delay)]

    def rules_text(self) -> str:
        return (
            "Remember the first word and say it when I ask; until then say anything. "
            f"The words are: {', '.join(WORDS[: self.words])}."
        )

    def example_moves(self) -> Sequence[str]:
        return WORDS[: self.words]

    def describe(self) -> str:
        if self.turns_left <= 1:
            return "Which word was it?"
        turn = self.delay + 1 - self.turns_left
        return f"Ignore {self._noise[turn]}." if turn else f"Remember {self._word}."

    @property
    def free_text(self) -> bool:  # type: ignore[override]
        """Whether anything may be said, as before the question."""
        return self._base_stop is not None and self.turns_left > 1

    def apply(self, move: str) -> Outcome:
        if self.turns_left > 1:
            return go_on()
        word = parse_word(move, WORDS[: self.words])
        if word is None:
            return reject("I do not know that word.")
        return win("Yes.") if word == self._word else lose(f"No, it was {self._word}.")

    def instance(self) -> object:
        return (self.words, self._word, self._noise)

    def legal_moves(self) -> Sequence[str] | None:
        return WORDS[: self.words] if self.turns_left == 1 else None

    def random_move(self, rng: np.random.Generator) -> str:
        return WORDS[int(rng.integers(self.words))]

    def oracle_move(self) -> str:
        return self._word

    @staticmethod
    def solve(observations: Sequence[str], moves: Sequence[str]) -> str:
        """Say the word of the first observation."""
        return str(_SHOWN.findall(observations[0])[0])
