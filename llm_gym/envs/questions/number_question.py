"""What questions with a number for an answer have in common."""

from abc import abstractmethod
from collections.abc import Iterator

from llm_gym.core.env import TextEnv
from llm_gym.core.outcome import Outcome, lose, reject, win
from llm_gym.datasets.numbers import is_bare, parse_number
from llm_gym.reading.moves import Named, find_numbers


class NumberQuestion(TextEnv):
    """One question, and one number that is right."""

    move_name = "answer"
    observation_says_all = True
    max_turns = 1

    @abstractmethod
    def right_answer(self) -> int:
        """Return the number that wins."""

    def apply(self, move: str) -> Outcome:
        number = parse_number(move) if self.strict or is_bare(move) else None
        if number is None:
            return reject("Your answer must be one number.")
        if number == self.right_answer():
            return win(f"Yes, it is {number}.")
        return lose(f"No. {self.reveal()}")

    def reveal(self) -> str:
        return f"The answer is {self.right_answer()}."

    def named_moves(self, text: str) -> Iterator[Named]:
        return find_numbers(text)

    def oracle_move(self) -> str:
        return str(self.right_answer())
