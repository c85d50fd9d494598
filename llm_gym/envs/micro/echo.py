"""Repeat the word that is shown: the smallest game that pays every turn."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from llm_gym.core.env import TextEnv
from llm_gym.core.outcome import Outcome, go_on, reject, win
from llm_gym.core.settings import setting

WORDS = (
    *("red", "blue", "green", "gold", "cat", "dog", "bird", "fish"),
    *("sun", "moon", "star", "tree", "king", "ship", "book", "rain"),
)
"""Short common words, each a single token of the usual tokenizers."""
MOST_TURNS = 10_000
"""All words of an episode are drawn at its start."""
_SHOWN = re.compile(r"Say (\w+)\.")


def parse_word(move: str, words: Sequence[str]) -> str | None:
    """Return the one of ``words`` that ``move`` says, or None.

    >>> parse_word("Red.", WORDS), parse_word("say red", WORDS), parse_word("red or blue", WORDS)
    ('red', 'red', None)
    """
    word = move.lower().removeprefix("say ").strip(" .!\"'")
    return word if word in words else None


class EchoEnv(TextEnv):
    """Repeat the word that is shown, turn after turn.

    Description:
        Every turn shows a word, drawn afresh, and asks for the same word. What is right in one
        turn does not depend on any other, so the game shows whether a trainer credits each turn
        with its own reward.

    Actions:
        A word, such as ``red`` or ``say red``. A word outside the vocabulary is unusable: it
        costs a turn and the same word is asked for again.

    Observations:
        Whether the last word was right, and the next one.

    Rewards:
        1 / ``max_turns`` for each right word, paid in its turn: 1 for a faultless episode. A
        random player gets 1 / ``words`` on average and is faultless with probability
        ``words`` ** -``max_turns``.

    Episode end:
        Terminates after ``max_turns`` turns: won if every word was right, otherwise lost.

    Args:
        words: Size of the vocabulary, 2 to 16.
        max_turns: Words asked for.
        **common: See ``TextEnv``.
    """

    observation_says_all = True
    has_splits = False

    words: int = setting(4, 2, len(WORDS))
    max_turns: int = setting(4, 1, MOST_TURNS)

    @classmethod
    def at_difficulty(cls, difficulty: float) -> Mapping[str, Any]:
        return {"words": round(2 + 14 * difficulty), "max_turns": round(1 + 7 * difficulty)}

    def new_game(self, rng: np.random.Generator) -> None:
        self._asked: list[int] = rng.integers(self.words, size=self.max_turns).tolist()
        self._round = self._right = 0

    def rules_text(self) -> str:
        words = ", ".join(self.legal_moves())
        return f"Your move is the word that I show, and no other. The words are: {words}."

    def example_moves(self) -> Sequence[str]:
        return self.legal_moves()

    def describe(self) -> str:
        return f"Say {self.oracle_move()}." if self._round < self.max_turns else "That is all."

    def apply(self, move: str) -> Outcome:
        word = parse_word(move, self.legal_moves())
        if word is None:
            return reject("I do not know that word.")
        right = word == self.oracle_move()
        self._round += 1
        if not right:
            return go_on("No.")
        self._right += 1
        answer = win if self._right == self.max_turns else go_on
        return answer("Yes.", 1 / self.max_turns)

    def instance(self) -> object:
        return (self.words, self._asked)

    def swap_secret(self, rng: np.random.Generator) -> bool:
        # The words still to come are hidden; the one being shown is not.
        coming = len(self._asked) - self._round - 1
        shift = rng.integers(1, self.words, size=max(coming, 0)).tolist()
        for at, by in enumerate(shift, start=self._round + 1):
            self._asked[at] = (self._asked[at] + by) % self.words
        return coming > 0

    def legal_moves(self) -> Sequence[str]:
        return WORDS[: self.words]

    def oracle_move(self) -> str:
        return WORDS[self._asked[self._round]]

    def oracle_value(self) -> float:
        return float(self._right == self.max_turns - self.turns_left)

    @staticmethod
    def solve(observations: Sequence[str], moves: Sequence[str]) -> str:
        """Say what is shown."""
        return str(_SHOWN.findall(observations[-1])[-1])
