"""``calculator``: arithmetic, without running code.

Python's parser parses the expression; only numbers, operators and listed functions are evaluated.
Sizes are checked before a result is computed, so every expression takes microseconds.
"""

import ast
import math
import operator
from collections.abc import Callable
from typing import Any

from llm_gym.tools.definition import Tool, ToolError, text_definition

MAX_CHARS = 500
MAX_BITS = 10_000  # of a whole number, about 3,000 digits
Number = int | float

# Signs of print, and the power sign of most calculators.
_SIGNS = str.maketrans({"\u00d7": "*", "\u00b7": "*", "\u00f7": "/", "\u2212": "-", "^": " ** "})
_CONSTANTS = {"pi": math.pi, "e": math.e, "tau": math.tau}
_FUNCTIONS: dict[str, Callable[..., Number]] = {
    "abs": abs, "round": round, "min": min, "max": max, "floor": math.floor, "ceil": math.ceil,
    "sqrt": math.sqrt, "isqrt": math.isqrt, "cbrt": math.cbrt, "exp": math.exp, "log": math.log,
    "ln": math.log, "log2": math.log2, "log10": math.log10, "sin": math.sin, "cos": math.cos,
    "tan": math.tan, "asin": math.asin, "acos": math.acos, "atan": math.atan,
    "atan2": math.atan2, "hypot": math.hypot, "degrees": math.degrees, "radians": math.radians,
    "gcd": math.gcd, "lcm": math.lcm,
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip


def calculate(expression: str) -> str:
    """Return the value of ``expression`` as text; raises ``ToolError`` with the reason.

    >>> calculate("2 * (3 + 4) ** 2"), calculate("10 / 4"), calculate("sqrt(2) ^ 2")
    ('98', '2.5', '2')
    >>> calculate("2 ** 100")
    '1267650600228229401496703205376'
    """
    if len(expression) > MAX_CHARS:
        raise ToolError(f"An expression has at most {MAX_CHARS} characters.")
    try:
        value = value_of(ast.parse(expression.translate(_SIGNS).strip(), mode="eval").body)
        return str(value) if isinstance(value, int) else f"{value:.12g}"
    except ZeroDivisionError:
        raise ToolError("Division by zero.") from None
    except (SyntaxError, RecursionError, MemoryError):
        raise ToolError("This is not an arithmetic expression.") from None
    except (ArithmeticError, ValueError, TypeError) as error:
        raise ToolError(f"It has no value: {error}.") from None


def value_of(node: ast.expr) -> Number:
    """Return the value of a parsed expression as in Python; raises ``ToolError``."""
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return _check_number(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub):
        value = value_of(node.operand)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp):
        left, right = value_of(node.left), value_of(node.right)
        if isinstance(node.op, ast.Pow):
            return _power(left, right)
        if type(node.op) in _OPERATORS:
            return _check_number(_OPERATORS[type(node.op)](left, right))
    if isinstance(node, ast.Name) and node.id.lower() in _CONSTANTS:
        return _CONSTANTS[node.id.lower()]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        return _call(node.func.id.lower(), [value_of(argument) for argument in node.args])
    known = ", ".join([*_CONSTANTS, *_FUNCTIONS, "factorial", "comb", "perm"])
    raise ToolError(f"Use numbers, + - * / // % ** ( ) and {known}.")


def _call(name: str, values: list[Number]) -> Number:
    if name == "round" and len(values) == 2 and abs(values[1]) > 300:
        raise ToolError("round takes up to 300 digits.")  # it would write them all out
    if name in _FUNCTIONS:
        return _check_number(_FUNCTIONS[name](*values))
    if name not in ("factorial", "comb", "perm"):
        raise ToolError(f"There is no function {name}.")
    if any(abs(value) > 1000 for value in values):  # larger ones would take long
        raise ToolError(f"{name} takes numbers up to 1000.")
    counted: Callable[..., int] = getattr(math, name)
    return counted(*values)


def _power(base: Number, exponent: Number) -> Number:
    whole = isinstance(base, int) and isinstance(exponent, int)
    if whole and int(base).bit_length() * exponent > MAX_BITS:
        raise ToolError(f"The result would have more than {MAX_BITS} bits.")
    return _check_number(base**exponent)


def _check_number(value: Any) -> Number:
    if isinstance(value, complex) or not isinstance(value, int | float):
        raise ToolError("The result is not a real number.")
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise ToolError(f"A whole number has at most {MAX_BITS} bits.")
    if isinstance(value, float) and not math.isfinite(value):
        raise ToolError("The result is too large.")
    return value


class CalculatorTool(Tool):
    """Computes an arithmetic expression.

    >>> CalculatorTool().execute(expression="7 * 6")
    '42'
    """

    definition = text_definition(
        "calculator",
        "Compute an arithmetic expression such as 2 * (3 + 4) ** 2 or sqrt(2) / 3.",
        "expression",
        "What to compute.",
    )
    timeout = None  # every expression is quick

    def execute(self, /, **params: Any) -> str:
        return calculate(params["expression"])


_MAX_PYTHON_CHARS = 300
_NOTHING = dict.fromkeys(map(ord, "0123456789.+-*/%() "))


def arithmetic(code: str) -> str | None:
    """Return what Python would print for ``code``, or None if it is not plain arithmetic.

    >>> arithmetic("print((3 + 4) * 6)"), arithmetic("7 / 2"), arithmetic("2 ** 64 % 1000")
    ('42', '3.5', '616')
    >>> arithmetic("1 / 0"), arithmetic("x = 1"), arithmetic("9 ** 9 ** 9")
    (None, None, None)
    """
    if len(code) > _MAX_PYTHON_CHARS or not code.isascii() or "\n" in code.strip():
        return None
    text = code.strip()
    if text.startswith("print(") and text.endswith(")"):
        text = text[6:-1].strip()
    if not text or text.translate(_NOTHING):
        return None  # most code: the parser need not be asked
    try:
        return repr(value_of(ast.parse(text, mode="eval").body))
    except (ToolError, ArithmeticError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
