"""Work out a number with the help of Python."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from llm_gym.core.errors import ConfigError
from llm_gym.core.outcome import Outcome, go_on, lose, reject, win
from llm_gym.core.settings import setting
from llm_gym.datasets.numbers import is_bare, parse_number
from llm_gym.envs.tool_use.math_python_problems import KINDS, Numbers
from llm_gym.envs.tool_use.tool_env import ToolEnv, parse_call
from llm_gym.reading.moves import find_numbers, judge
from llm_gym.tools.builtin.python import PythonTool
from llm_gym.tools.definition import Tool

_TOKEN = re.compile(r"\w+|==|!=|//|\S")


def read_problem(text: str) -> tuple[str, Numbers] | None:
    """Return the kind of the problem in ``text`` and its numbers.

    >>> read_problem("What is the sum of the digits of 12 to the power of 34?")
    ('digits', (12, 34))
    """
    for name, kind in KINDS.items():
        if (numbers := kind.read(text)) is not None:
            return name, numbers
    return None


class MathPythonEnv(ToolEnv):
    """Work out a number, with Python at hand.

    Description:
        A problem is drawn whose answer is a whole number: a story in several steps, an
        expression, a term of a sequence, a count, the digits of a power or a sum of primes. By
        hand it is long; in Python it is a line.

    Actions:
        ``python: code`` runs code in a sandbox, ``answer: 42`` or the number alone answers. With
        the action format plain, a reply that ends in a block fenced as python is code too. Where
        the machine cannot isolate code, the tool says so instead of running it.

    Observations:
        What the code printed or the value of its last expression, errors included; then the
        problem and the turns left.

    Rewards:
        1 for the right number, otherwise 0.

    Episode end:
        Terminates with the answer, won or lost, and after ``max_turns`` moves (lost).

    Args:
        steps: Steps of a story or an expression, 1 to 12; sequences and powers grow with it.
        digits: Digits of the numbers, 1 to 6.
        kinds: Which kinds of problems: story, sequence, digits, expression, count, primes.
        stateful: Whether Python keeps its variables from turn to turn.
        timeout: Seconds that a run of code may take.
        max_turns: Moves allowed, answers included.
        **common: See ``ToolEnv`` and ``TextEnv``.
    """

    steps: int = setting(4, 1, 12)
    digits: int = setting(3, 1, 6)
    kinds: Sequence[str] = setting(tuple(KINDS))
    stateful: bool = setting(False)
    timeout: float = setting(5.0)
    max_turns: int = setting(4, 1)

    def check_settings(self) -> None:
        if not self.kinds or set(self.kinds) - KINDS.keys():
            raise ConfigError(f"kinds must be some of {', '.join(KINDS)}, got {self.kinds}")

    @classmethod
    def at_difficulty(cls, difficulty: float) -> Mapping[str, Any]:
        return {"steps": round(2 + 10 * difficulty), "digits": round(2 + 4 * difficulty)}

    def new_game(self, rng: np.random.Generator) -> None:
        self.forget()
        self._kind = self.kinds[int(rng.random() * len(self.kinds))]
        self._numbers = KINDS[self._kind].draw(rng, self.steps, 10 ** (self.digits - 1))
        self._problem = KINDS[self._kind].ask(self._numbers)

    def tools(self) -> list[Tool]:
        return [PythonTool(stateful=self.stateful, timeout=self.timeout)]

    def sample_tools(self) -> list[Tool]:
        return self.tools()

    def rules_text(self) -> str:
        kept = "Variables are kept from turn to turn. " if self.stateful else ""
        return (
            "Answer the question with a whole number. A move is either 'python: code', which runs "
            f"Python code for up to {self.timeout:g} seconds and shows what it prints, or "
            f"'answer: number', which ends the game. {kept}"
        ).rstrip(" ")

    @property
    def usage(self) -> str:
        return "Your move must be 'python: code' or 'answer: number'."

    def example_moves(self) -> Sequence[str]:
        return ["python: print(6 * 7)", "answer: 42", "42"]

    def question(self) -> str:
        return self._problem

    def is_bare_answer(self, text: str) -> bool:
        return text.lstrip("+-").isdecimal()

    def answer(self, text: str) -> Outcome:
        if not self.strict and not is_bare(text):
            text = judge(text, find_numbers).move or ""
        number = parse_number(text)
        if number is None:
            return reject("Your answer must be one number.")
        value = KINDS[self._kind].value(self._numbers)
        if number == value:
            return win(f"Yes, it is {value}.")
        return lose(f"No, it is {value}.")

    def apply(self, move: str) -> Outcome:
        name, code = parse_call(move)
        kind = KINDS[self._kind]
        # What the solver's program prints is known, and a process takes a thousand times as long.
        known = name == "python" and not self.stateful
        if known and _TOKEN.findall(code) == _TOKEN.findall(kind.code(self._numbers)):
            return go_on(str(kind.value(self._numbers)))
        return super().apply(move)

    def reveal(self) -> str:
        return f"The answer was {KINDS[self._kind].value(self._numbers)}."

    def instance(self) -> object:
        return (self._kind, self._numbers)

    def random_move(self, rng: np.random.Generator) -> str:
        number = int(rng.random() * 10 ** (self.digits + 1))
        return f"answer: {number}" if rng.random() < 0.5 else f"python: {number} * {number}"

    def move_pattern(self) -> str | None:
        return r"(?:python: [^\n]{1,4000}|answer: -?[0-9]{1,40}|-?[0-9]{1,40})"

    def oracle_move(self) -> str:
        kind = KINDS[self._kind]
        if self._base_turn == 0 and self.max_turns > 1:
            return f"python: {kind.code(self._numbers)}"
        return f"answer: {kind.value(self._numbers)}"

    @staticmethod
    def solve(observations: Sequence[str], moves: Sequence[str]) -> str:
        """Write a program for the problem, run it and answer what it prints."""
        problem = read_problem(observations[0])
        assert problem is not None, "the first observation holds the problem"
        name, numbers = problem
        if moves and "".join(moves[-1].split()).startswith("python:"):
            printed = observations[-1].partition("\n")[0]
            if printed.lstrip("-").isdecimal():
                return f"answer: {printed}"
            return f"answer: {KINDS[name].value(numbers)}"  # no Python: in its head
        return f"python: {KINDS[name].code(numbers)}"
