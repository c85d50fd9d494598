"""Python code that is nothing but arithmetic, which needs no process to be safe.

Models ask for it all the time, and a cell in the sandbox costs a thousand times as much. What
this cannot answer exactly as Python would, it leaves to Python.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

MAX_CHARS = 300
_MAX_BITS = 4096
Number = int | float

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


_NOTHING = dict.fromkeys(map(ord, "0123456789.+-*/%() "))


class _Unsure(Exception):
    """This is for Python to decide."""


def arithmetic(code: str) -> str | None:
    """Return what Python would print for ``code``, or None if it is not plain arithmetic.

    >>> arithmetic("print((3 + 4) * 6)"), arithmetic("7 / 2"), arithmetic("2 ** 64 % 1000")
    ('42', '3.5', '616')
    >>> arithmetic("1 / 0"), arithmetic("x = 1"), arithmetic("9 ** 9 ** 9")
    (None, None, None)
    """
    if len(code) > MAX_CHARS or not code.isascii() or "\n" in code.strip():
        return None
    text = code.strip()
    if text.startswith("print(") and text.endswith(")"):
        text = text[6:-1].strip()
    if not text or text.translate(_NOTHING):
        return None  # most code: the parser need not be asked
    try:
        return repr(_value(ast.parse(text, mode="eval").body))
    except (_Unsure, ArithmeticError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _value(node: ast.expr) -> Number:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return _checked(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub):
        value = _value(node.operand)
        return -value if isinstance(node.op, ast.USub) else +value
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left), _value(node.right)
        if not isinstance(node.op, ast.Pow):
            return _checked(_OPERATORS[type(node.op)](left, right))
        whole = isinstance(left, int) and isinstance(right, int)
        if whole and 0 <= int(left).bit_length() * right <= _MAX_BITS and right >= 0:
            return _checked(left**right)
    raise _Unsure


def _checked(value: Any) -> Number:
    if isinstance(value, int):
        if value.bit_length() <= _MAX_BITS:
            return value
    elif isinstance(value, float):
        return value
    raise _Unsure
