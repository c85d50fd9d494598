"""Arithmetic for Countdown: a parser for expressions without ``eval``, and a solver.

The parser turns an expression into postfix order (operands first) with a stack and no recursion, so
deep nesting cannot overflow. Values are exact: whole numbers, or fractions.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from operator import add, mul, sub

Value = int | Fraction
Tree = int | tuple[str, "Tree", "Tree"]
"""A number, or an operator between two trees."""
Found = dict[int, Tree]

# The product of five numbers up to 1000 has at most 16 digits; a sixth number can follow.
_TOKEN = re.compile(r"[0-9]{1,18}|[-+*/()]")
_TEXT = re.compile(r"(?:\s*(?:[0-9]{1,18}(?![0-9])|[-+*/()]))+")
_PAIR = re.compile(r"([0-9]{1,18}) ([-+*/]) ([0-9]{1,18})")
_OPERATORS: dict[str, Callable[[Value, Value], Value]] = {"+": add, "-": sub, "*": mul}
_RANK = {"(": 0, ")": 1, "+": 2, "-": 2, "*": 3, "/": 3}
# Typographic signs: times, middle dot, divide, minus, en dash; and square brackets.
_SIGNS = str.maketrans("\u00d7\u00b7\u00f7\u2212\u2013[]", "**/--()")
_SMALL = 3  # list all values of groups up to this size; larger ones meet in the middle


_RUN = re.compile(r"(?<![\w.])[0-9(][0-9+*/() \u00d7\u00b7\u00f7\u2212\u2013-]*[0-9)](?![\w.]\d)")
_OPERATOR = re.compile(r"[-+*/\u00d7\u00b7\u00f7\u2212\u2013]")


def find_expressions(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the expressions in a sentence, without the result after an equals sign.

    >>> [move for *_, move in find_expressions("With 3 numbers: (1 + 2) * 30 = 90.")]
    ['(1 + 2) * 30']
    """
    for one in _RUN.finditer(text):
        if _OPERATOR.search(one[0]) and parse_expression(one[0]) is not None:
            yield one.start(), one.end(), one[0]


def parse_expression(text: str) -> list[int | str] | None:
    """Return the expression in postfix order, or None if it is not one.

    Each number is at most 18 digits long. Text after an equals sign is ignored.

    >>> parse_expression("(1 + 2) * 30 = 90")
    [1, 2, '+', 30, '*']
    >>> parse_expression("1 + "), parse_expression("-1"), parse_expression("2 3")
    (None, None, None)
    """
    if found := _PAIR.fullmatch(text):  # what stepwise players mostly write
        return [int(found[1]), int(found[3]), found[2]]
    text = text.partition("=")[0].translate(_SIGNS).rstrip()
    if not _TEXT.fullmatch(text):
        return None
    postfix: list[int | str] = []
    waiting: list[str] = []
    operand_next = True
    for token in _TOKEN.findall(text):
        if operand_next != (token == "(" or token.isdigit()):
            return None
        if token == "(":
            waiting.append(token)
        elif operand_next:
            postfix.append(int(token))
            operand_next = False
        else:
            while waiting and _RANK[waiting[-1]] >= _RANK[token]:
                postfix.append(waiting.pop())
            if token != ")":
                waiting.append(token)
                operand_next = True
            elif not waiting:
                return None
            else:
                waiting.pop()
    return None if operand_next or "(" in waiting else [*postfix, *waiting[::-1]]


def evaluate(postfix: Sequence[int | str]) -> Value | None:
    """Return the exact value, or None for a division by zero.

    >>> evaluate([8, 3, 8, 3, "/", "-", "/"])
    24
    >>> evaluate([1, 3, "/"]), evaluate([1, 0, "/"])
    (Fraction(1, 3), None)
    """
    stack: list[Value] = []
    for token in postfix:
        if isinstance(token, int):
            stack.append(token)
            continue
        right, left = stack.pop(), stack.pop()
        if token in _OPERATORS:
            stack.append(_OPERATORS[token](left, right))
        elif right == 0:
            return None
        else:
            whole, rest = divmod(left, right)
            stack.append(whole if rest == 0 else Fraction(left) / right)
    return stack[0]


def write(tree: Tree, nested: bool = False) -> str:
    """Return ``tree`` as text, with brackets around everything but the whole.

    >>> write(("*", ("-", 75, 4), 3))
    '(75 - 4) * 3'
    """
    if isinstance(tree, int):
        return str(tree)
    text = f"{write(tree[1], True)} {tree[0]} {write(tree[2], True)}"
    return f"({text})" if nested else text


def combine(a: int, b: int) -> list[tuple[int, str, bool]]:
    """Return the results of two positive numbers: value, operator, and whether b comes first.

    >>> combine(2, 6)
    [(8, '+', False), (12, '*', False), (4, '-', True), (3, '/', True)]
    """
    made = [(a + b, "+", False), (a * b, "*", False)]
    if a != b:
        made.append((abs(a - b), "-", b > a))
    if a % b == 0:
        made.append((a // b, "/", False))
    elif b % a == 0:
        made.append((b // a, "/", True))
    return made


def partners(a: int, target: int) -> Iterator[tuple[int, str, bool]]:
    """Yield the positive numbers that make ``target`` with ``a``, in the form of ``combine``."""
    yield a + target, "-", True
    yield a * target, "/", True
    if target > a:
        yield target - a, "+", False
    if a > target:
        yield a - target, "-", False
    if target % a == 0:
        yield target // a, "*", False
    if a % target == 0:
        yield a // target, "/", False


@lru_cache(maxsize=64)
def search(numbers: tuple[int, ...], target: int, use_all: bool) -> Tree | None:
    """Return an expression of positive whole numbers that makes ``target``, or None.

    None proves that there is none. Without ``use_all``, expressions with fewer numbers come first.
    """
    looking, everything = _Search(numbers), (1 << len(numbers)) - 1
    groups = [everything] if use_all else sorted(range(1, everything + 1), key=int.bit_count)
    for group in groups:
        if (tree := looking.make(group, target)) is not None:
            return tree
    return None


class _Search:
    """The values that groups of the numbers can make; a group has one bit per number.

    The last operation splits a group in two. All values of the smaller part are listed, and the
    other part has to make the partner: six numbers take milliseconds instead of minutes.
    """

    def __init__(self, numbers: tuple[int, ...]) -> None:
        self._lists: dict[int, Found] = {1 << at: {n: n} for at, n in enumerate(numbers)}
        self._tried: dict[tuple[int, int], Tree | None] = {}

    def make(self, group: int, value: int) -> Tree | None:
        """Return an expression of all numbers of ``group`` that makes ``value``, or None."""
        if group.bit_count() <= _SMALL:
            return self._values(group).get(value)
        if (group, value) not in self._tried:
            self._tried[group, value] = self._split(group, value)
        return self._tried[group, value]

    def _split(self, group: int, value: int) -> Tree | None:
        for part, rest in _halves(group):
            for a, left in self._values(part).items():
                for b, sign, swap in partners(a, value):
                    if (right := self.make(rest, b)) is not None:
                        return _join(sign, left, right, swap)
        return None

    def _values(self, group: int) -> Found:
        if group not in self._lists:
            self._lists[group] = {
                value: _join(sign, left, right, swap)
                for part, rest in _halves(group)
                for a, left in self._values(part).items()
                for b, right in self._values(rest).items()
                for value, sign, swap in combine(a, b)
            }
        return self._lists[group]


def _halves(group: int) -> Iterator[tuple[int, int]]:
    """Yield every way to split ``group`` in two, the part with fewer numbers first."""
    part = group - 1 & group
    while part:
        if 2 * part.bit_count() <= group.bit_count():
            yield part, group ^ part
        part = part - 1 & group


def _join(sign: str, left: Tree, right: Tree, swap: bool) -> Tree:
    return (sign, right, left) if swap else (sign, left, right)


def first_step(tree: Tree) -> Tree:
    """Return an innermost operation of ``tree``: one whose operands are both numbers.

    >>> first_step(("*", ("-", 75, 4), 3))
    ('-', 75, 4)
    """
    while isinstance(tree, tuple):
        if isinstance(tree[1], tuple):
            tree = tree[1]
        elif isinstance(tree[2], tuple):
            tree = tree[2]
        else:
            break
    return tree
