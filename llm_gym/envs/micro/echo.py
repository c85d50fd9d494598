"""Echo and Memory: the smallest games that test credit assignment and memory."""

import re
from collections.abc import Sequence

import numpy as np

from llm_gym import Outcome, TextEnv, go_on, lose, reject, setting, win

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
        Every turn shows a new random word and asks for the same word. The right answer of one turn
        does not depend on other turns, so the game shows whether a trainer credits each turn with
        its own reward.

    Actions:
        A word, such as ``red`` or ``say red``. A word outside the vocabulary is unusable: it
        costs a turn and the same word is asked for again.

    Observations:
        Whether the last word was right, and the next word.

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

    is_markov = True
    has_splits = False

    words: int = setting(4, 2, len(WORDS), levels=(2, 16))
    max_turns: int = setting(4, 1, MOST_TURNS, levels=(1, 8))

    def new_game(self, rng: np.random.Generator) -> None:
        self._asked: list[int] = rng.integers(self.words, size=self.max_turns).tolist()
        self._round = self._right = 0

    def rules_text(self) -> str:
        words = ", ".join(self.legal_moves())
        return f"Your move is the word that I show, and no other. The words are: {words}."

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

    example_moves = legal_moves

    def oracle_move(self) -> str:
        return WORDS[self._asked[self._round]]

    def oracle_value(self) -> float:
        return float(self._right == self.max_turns - self.turns_left)

    @staticmethod
    def solve(observations: Sequence[str], moves: Sequence[str]) -> str:
        """Say the word that is shown."""
        return str(_SHOWN.findall(observations[-1])[-1])


_REMEMBERED = re.compile(r"Remember (\w+)\.")


class MemoryEnv(TextEnv):
    """Remember a word over a few turns of distraction.

    Description:
        The first observation shows a word. ``delay`` turns later the environment asks for it;
        in between it shows other words and ignores the replies. Only a player that still sees the
        first observation, or repeats the word in its replies, can win.

    Actions:
        Before the question anything, for example ``ok``; then a word, such as ``red`` or
        ``say red``. A word outside the vocabulary is then unusable.

    Observations:
        The word at first, then words to ignore, then the question.

    Rewards:
        1 for the right word, otherwise 0; paid in the last turn. A random player gets
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

    words: int = setting(4, 2, len(WORDS), levels=(2, 16))
    delay: int = setting(2, 1, MOST_TURNS, levels=(1, 10))

    def check_settings(self) -> None:
        self.max_turns = self.delay + 1

    def new_game(self, rng: np.random.Generator) -> None:
        word, *others = (WORDS[at] for at in rng.permutation(self.words))
        self._word = word
        # The noise never contains the word: repeating the last word shown must not pay.
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
        """Whether any reply is accepted: true before the question."""
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
        return str(_REMEMBERED.findall(observations[0])[0])
