"""Work out a number with the help of Python.

The problems are easy to program and long to work out by hand. A problem kind draws numbers, writes
the question, computes the answer, and writes a line of Python that finds it. Its ``read`` parses
the numbers back from the question, for the solver that sees only text.
"""

import math
import re
from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from llm_gym import ConfigError, Outcome, go_on, lose, reject, setting, win
from llm_gym.datasets.numbers import is_bare, parse_number
from llm_gym.envs.tool_use.tool_env import ToolEnv, parse_call
from llm_gym.reading.moves import find_numbers, judge
from llm_gym.tools.builtin.calculator import calculate
from llm_gym.tools.builtin.python import PythonTool
from llm_gym.tools.definition import Tool

Numbers = tuple[int, ...]

_NAMES = ("Ada", "Boris", "Chen", "Dara", "Emil", "Farah", "Goran", "Hana")
_THINGS = ("marbles", "stamps", "shells", "beads", "coins", "cards", "nuts", "buttons")
# A line of a story: how it is told and what it does, with the count so far as n.
_LINES = (
    ("{who} finds {a} more.", "(n + a)"),
    ("{who} buys {a} boxes of {b} {what} each.", "(n + a * b)"),
    ("A friend brings more, until there are {a} times as many.", "(n * a)"),
    ("{who} makes {a} equal piles, gives away what is left over and keeps one pile.", "(n // a)"),
    ("{who} packs them into boxes of {a} and keeps those that do not fill a box.", "(n % a)"),
)
_SIGNS = ("+", "-", "*", "//", "%")


def _pick(rng: np.random.Generator, low: int, high: int) -> int:
    return low + int(rng.random() * (high - low + 1))


# --- story and expression: a chain of steps -----------------------------------------------


def _draw_story(rng: np.random.Generator, steps: int, size: int) -> Numbers:
    numbers = [_pick(rng, 0, 7), _pick(rng, 0, 7), _pick(rng, size, 10 * size)]
    count = numbers[2]
    for _ in range(steps):
        # Increase a small count, so that no story reaches zero early.
        line = _pick(rng, 0, 2) if count < size else _pick(rng, 0, 4)
        a = _pick(rng, 2, 9) if line in (2, 3) else _pick(rng, 2, size)
        b = _pick(rng, 2, 12)
        numbers += [line, a, b]
        count = int(calculate(_story_sum(numbers)))
    return tuple(numbers)


def _ask_story(numbers: Numbers) -> str:
    who, what = _NAMES[numbers[0]], _THINGS[numbers[1]]
    sentences = [f"{who} has {numbers[2]} {what}."]
    for at in range(3, len(numbers), 3):
        line, a, b = numbers[at : at + 3]
        sentences.append(_LINES[line][0].format(who=who, what=what, a=a, b=b))
    return " ".join([*sentences, f"How many {what} does {who} have now?"])


def _story_sum(numbers: Sequence[int]) -> str:
    code = str(numbers[2])
    for at in range(3, len(numbers), 3):
        line, a, b = numbers[at : at + 3]
        shape = _LINES[line][1].replace("n", "{n}").replace("a", "{a}").replace("b", "{b}")
        code = shape.format(n=code, a=a, b=b)
    return code


_STORY_LINES = [
    re.compile(
        re.escape(text).replace(r"\{who\}", r"\w+").replace(r"\{what\}", r"\w+")
        .replace(r"\{a\}", r"(\d+)").replace(r"\{b\}", r"(\d+)")
    )
    for text, _ in _LINES
]  # fmt: skip


def _read_story(text: str) -> Numbers | None:
    start = re.search(r"(\w+) has (\d+) (\w+)\.", text)
    if start is None or "How many" not in text:
        return None
    who, count, what = start.groups()
    numbers = [_NAMES.index(who), _THINGS.index(what), int(count)]
    for sentence in re.findall(r"[^.?]+\.", text[start.end() :]):
        for line, shape in enumerate(_STORY_LINES):
            if found := shape.fullmatch(sentence.strip()):
                numbers += [line, int(found[1]), int(found[2]) if len(found.groups()) > 1 else 0]
    return tuple(numbers)


def _draw_expression(rng: np.random.Generator, steps: int, size: int) -> Numbers:
    numbers = [_pick(rng, size, 10 * size)]
    for _ in range(steps):
        sign = _pick(rng, 0, 4)
        least, most = (2, 99) if sign >= 2 else (size, 10 * size)
        numbers += [sign, _pick(rng, least, most)]
    return tuple(numbers)


def _expression(numbers: Numbers) -> str:
    text = str(numbers[0])
    for sign, value in zip(numbers[1::2], numbers[2::2], strict=True):
        text = f"({text} {_SIGNS[sign]} {value})"
    return text[1:-1] if text.startswith("(") else text


def _read_expression(text: str) -> Numbers | None:
    found = re.search(r"What is ([-+*/%() \d]+)\? \(//", text)
    if found is None:
        return None
    first, *rest = found[1].replace("(", "").replace(")", "").split()
    numbers = [int(first)]
    for sign, value in zip(rest[::2], rest[1::2], strict=True):
        numbers += [_SIGNS.index(sign), int(value)]
    return tuple(numbers)


# --- sequences, counts, digits and primes -------------------------------------------------


def _sequence_value(numbers: Numbers) -> int:
    term, factor, step, modulus, index = numbers
    for _ in range(index - 1):
        term = (factor * term + step) % modulus
    return term


def _count_value(numbers: Numbers) -> int:
    low, high, a, b, c = numbers

    def multiples(of: int) -> int:
        return high // of - (low - 1) // of

    either = multiples(a) + multiples(b) - multiples(math.lcm(a, b))
    both = multiples(math.lcm(a, c)) + multiples(math.lcm(b, c)) - multiples(math.lcm(a, b, c))
    return either - both


@cache
def _prime_sums(most: int = 5000) -> list[int]:
    sieve = np.ones(most + 1, dtype=bool)
    sieve[:2] = False
    for n in range(2, math.isqrt(most) + 1):
        sieve[n * n :: n] = False
    return list(accumulate((n if prime else 0) for n, prime in enumerate(sieve.tolist())))


class ProblemKind(NamedTuple):
    """One kind of problem."""

    draw: Callable[[np.random.Generator, int, int], Numbers]
    """Arguments: random generator, number of steps, size of the numbers."""
    ask: Callable[[Numbers], str]
    value: Callable[[Numbers], int]
    code: Callable[[Numbers], str]
    read: Callable[[str], Numbers | None]
    """Parses the numbers from the question; None if it is of another kind."""


def _simple(
    draw: Callable[[np.random.Generator, int, int], Numbers],
    question: str,
    value: Callable[[Numbers], int],
    code: str,
) -> ProblemKind:
    """Return a kind whose question is one sentence with numbers in it."""
    pattern = re.compile(re.sub(r"\\\{\d\\\}", r"(\\d+)", re.escape(question)))

    def read(text: str) -> Numbers | None:
        found = pattern.search(text)
        return tuple(map(int, found.groups())) if found else None

    return ProblemKind(
        draw,
        lambda numbers: question.format(*numbers),
        value,
        lambda numbers: code.format(*numbers),
        read,
    )


KINDS: dict[str, ProblemKind] = {
    "story": ProblemKind(
        _draw_story,
        _ask_story,
        lambda numbers: int(calculate(_story_sum(numbers))),
        lambda numbers: f"print({_story_sum(numbers)})",
        _read_story,
    ),
    "sequence": _simple(
        lambda rng, steps, size: (
            *(_pick(rng, 1, 9), _pick(rng, 2, size), _pick(rng, 1, size)),
            *(_pick(rng, size, 10 * size), _pick(rng, 4 * steps, 12 * steps)),
        ),
        "A sequence begins with {0}. To get the next term, multiply by {1}, add {2} and take the "
        "remainder on division by {3}. What is term number {4}?",
        _sequence_value,
        "from functools import reduce; "
        "print(reduce(lambda t, _: ({1} * t + {2}) % {3}, range({4} - 1), {0}))",
    ),
    "digits": _simple(
        lambda rng, steps, size: (_pick(rng, 2, min(10 * size, 999)), _pick(rng, 5, 10 * steps)),
        "What is the sum of the digits of {0} to the power of {1}?",
        lambda numbers: sum(map(int, str(numbers[0] ** numbers[1]))),
        "print(sum(map(int, str({0} ** {1}))))",
    ),
    "expression": ProblemKind(
        _draw_expression,
        lambda numbers: (
            f"What is {_expression(numbers)}? (// divides and rounds down, % is the remainder.)"
        ),
        lambda numbers: int(calculate(_expression(numbers))),
        lambda numbers: f"print({_expression(numbers)})",
        _read_expression,
    ),
    "count": _simple(
        lambda rng, steps, size: (
            *(_pick(rng, 1, size), _pick(rng, 2 * size, 20 * size)),
            *(_pick(rng, 2, 9), _pick(rng, 10, 19), _pick(rng, 20, 29)),
        ),
        "How many whole numbers from {0} to {1} are multiples of {2} or of {3}, but not of {4}?",
        _count_value,
        "print(sum((n % {2} == 0 or n % {3} == 0) and n % {4} != 0 for n in range({0}, {1} + 1)))",
    ),
    "primes": _simple(
        lambda rng, steps, size: (_pick(rng, 1, 50), _pick(rng, 60, min(60 + 10 * size, 5000))),
        "What is the sum of the prime numbers from {0} to {1}?",
        lambda numbers: _prime_sums()[numbers[1]] - _prime_sums()[numbers[0] - 1],
        "print(sum(n for n in range({0}, {1} + 1) if n > 1 and all(n % d for d in range(2, n))))",
    ),
}

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
        The answer of each problem is a whole number. A problem is a story in several steps, an
        expression, a term of a sequence, a count, the digits of a power or a sum of primes. It is
        long to solve by hand and takes one line of Python.

    Actions:
        ``python: code`` runs code in a sandbox; ``answer: 42`` or the number alone answers. With
        the action format ``plain``, a reply that ends in a fenced python block is code too. On a
        machine that cannot isolate code, the tool returns a message instead of running it.

    Observations:
        The output of the code, the value of its last expression and its errors; then the problem
        and the turns left.

    Rewards:
        1 for the right number, otherwise 0.

    Episode end:
        Terminates with the answer, won or lost, and after ``max_turns`` moves (lost).

    Args:
        steps: Steps of a story or an expression, 1 to 12; sequences and powers grow with it.
        digits: Digits of the numbers, 1 to 6.
        kinds: Which kinds of problems: story, sequence, digits, expression, count, primes.
        stateful: Whether Python keeps its variables from turn to turn.
        timeout: Time limit of one run of code in seconds.
        max_turns: Moves allowed, answers included.
        **common: See ``ToolEnv`` and ``TextEnv``.
    """

    usage = "Your move must be 'python: code' or 'answer: number'."

    steps: int = setting(4, 1, 12, levels=(2, 12))
    digits: int = setting(3, 1, 6, levels=(2, 6))
    kinds: Sequence[str] = setting(tuple(KINDS))
    stateful: bool = setting(False)
    timeout: float = setting(5.0)
    max_turns: int = setting(4, 1)

    def check_settings(self) -> None:
        if not self.kinds or set(self.kinds) - KINDS.keys():
            raise ConfigError(f"kinds must be some of {', '.join(KINDS)}, got {self.kinds}")

    def new_game(self, rng: np.random.Generator) -> None:
        self.forget()
        self._kind = self.kinds[int(rng.random() * len(self.kinds))]
        self._numbers = KINDS[self._kind].draw(rng, self.steps, 10 ** (self.digits - 1))
        self._problem = KINDS[self._kind].ask(self._numbers)

    def tools(self) -> list[Tool]:
        return [PythonTool(stateful=self.stateful, timeout=self.timeout)]

    def rules_text(self) -> str:
        kept = "Variables are kept from turn to turn. " if self.stateful else ""
        return (
            "Answer the question with a whole number. A move is either 'python: code', which runs "
            f"Python code for up to {self.timeout:g} seconds and shows what it prints, or "
            f"'answer: number', which ends the game. {kept}"
        ).rstrip(" ")

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
        # The output of the solver's program is known; a process would take a thousand times longer.
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
            return f"answer: {KINDS[name].value(numbers)}"  # Python is unavailable
        return f"python: {KINDS[name].code(numbers)}"
