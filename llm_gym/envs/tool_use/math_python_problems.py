"""Arithmetic problems that are quick to program and slow to work out by hand.

A kind draws numbers, words a question, knows the answer, and writes a line of Python that finds
it. ``read`` gets the numbers back from the question: what a player who reads only text can do.
"""

import math
import re
from collections.abc import Callable
from functools import cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np

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
        # Grow what has become small, so that no story ends early.
        line = _pick(rng, 0, 2) if count < size else _pick(rng, 0, 4)
        a = _pick(rng, 2, 9) if line in (2, 3) else _pick(rng, 2, size)
        b = _pick(rng, 2, 12)
        numbers += [line, a, b]
        count = _story_step(count, line, a, b)
    return tuple(numbers)


def _story_step(n: int, line: int, a: int, b: int) -> int:
    return (n + a, n + a * b, n * a, n // a, n % a)[line]


def _story_value(numbers: Numbers) -> int:
    count = numbers[2]
    for at in range(3, len(numbers), 3):
        count = _story_step(count, *numbers[at : at + 3])
    return count


def _ask_story(numbers: Numbers) -> str:
    who, what = _NAMES[numbers[0]], _THINGS[numbers[1]]
    told = [f"{who} has {numbers[2]} {what}."]
    for at in range(3, len(numbers), 3):
        line, a, b = numbers[at : at + 3]
        told.append(_LINES[line][0].format(who=who, what=what, a=a, b=b))
    return " ".join([*told, f"How many {what} does {who} have now?"])


def _story_code(numbers: Numbers) -> str:
    code = str(numbers[2])
    for at in range(3, len(numbers), 3):
        line, a, b = numbers[at : at + 3]
        shape = _LINES[line][1].replace("n", "{n}").replace("a", "{a}").replace("b", "{b}")
        code = shape.format(n=code, a=a, b=b)
    return f"print({code})"


_STORY_LINES = [
    re.compile(
        re.escape(text).replace(r"\{who\}", r"\w+").replace(r"\{what\}", r"\w+")
        .replace(r"\{a\}", r"(\d+)").replace(r"\{b\}", r"(\d+)")
    )
    for text, _ in _LINES
]  # fmt: skip


def _read_story(text: str) -> Numbers | None:
    begun = re.search(r"(\w+) has (\d+) (\w+)\.", text)
    if begun is None or "How many" not in text:
        return None
    who, count, what = begun.groups()
    numbers = [_NAMES.index(who), _THINGS.index(what), int(count)]
    for sentence in re.findall(r"[^.?]+\.", text[begun.end() :]):
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


def _expression_value(numbers: Numbers) -> int:
    value = numbers[0]
    for sign, n in zip(numbers[1::2], numbers[2::2], strict=True):
        value = (value + n, value - n, value * n, value // n, value % n)[sign]
    return value


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
    """From a generator, a number of steps and a size of numbers."""
    ask: Callable[[Numbers], str]
    value: Callable[[Numbers], int]
    code: Callable[[Numbers], str]
    read: Callable[[str], Numbers | None]
    """Gets the numbers back from the question, None if it is of another kind."""


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
    "story": ProblemKind(_draw_story, _ask_story, _story_value, _story_code, _read_story),
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
        _expression_value,
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
