"""What a setting may hold: types with bounds, and the one place that checks a value against one.

A field is annotated with what it takes, such as ``Annotated[float, Bounds(above=0)]``. From that
annotation come the check, the words of the error and the command line's help, so none of them
can disagree.
"""

from __future__ import annotations

import copy
import json
import math
import numbers
import operator
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Protocol, Union, get_args, get_origin

import numpy as np

from llm_gym.core.text import did_you_mean
from llm_gym.errors import ConfigError


class Constraint(Protocol):
    """What a type alone cannot say."""

    def accepts(self, value: Any) -> bool: ...

    def words(self, kind: str) -> str:
        """Return what is accepted, as it stands after "must be"; ``kind`` names the type."""
        ...


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """A range of numbers, open at ``above`` and ``below``, closed at ``least`` and ``most``."""

    above: float | None = None
    least: float | None = None
    below: float | None = None
    most: float | None = None

    def accepts(self, value: Any) -> bool:
        """Whether ``value`` is inside."""
        return (
            (self.above is None or value > self.above)
            and (self.least is None or value >= self.least)
            and (self.below is None or value < self.below)
            and (self.most is None or value <= self.most)
        )

    def words(self, kind: str) -> str:
        """The bounds as text.

        >>> Bounds(above=0, most=1).words("a number")
        'a number above 0 and at most 1'
        """
        ends = (
            ("above", self.above),
            ("of at least", self.least),
            ("below", self.below),
            ("at most", self.most),
        )
        given = [f"{word} {end:g}" for word, end in ends if end is not None]
        return f"{kind} {' and '.join(given)}"


@dataclass(frozen=True)
class Pattern:
    """Text of one form."""

    regex: str
    meaning: str

    def accepts(self, value: Any) -> bool:
        """Whether all of ``value`` has the form."""
        return re.fullmatch(self.regex, value) is not None

    def words(self, kind: str) -> str:
        """The form in words."""
        return self.meaning


@dataclass(frozen=True)
class Registered:
    """The name of something in a registry of ``llm_gym_agents.algo``.

    The registry lies behind torch, which takes seconds to import, so it is asked only when a
    name is not the ``default``: the help of the command line stays quick.
    """

    registry: str
    default: str

    def accepts(self, value: Any) -> bool:
        """Whether ``value`` is registered."""
        return value == self.default or value in self.names()

    def words(self, kind: str) -> str:
        """The registered names."""
        return f"one of {', '.join(self.names())}"

    def names(self) -> tuple[str, ...]:
        """Every registered name."""
        from llm_gym_agents import algo

        found: tuple[str, ...] = getattr(algo, self.registry).names()
        return found


Count = Annotated[int, Bounds(least=1)]
Whole = Annotated[int, Bounds(least=0)]
Positive = Annotated[float, Bounds(above=0)]
NotNegative = Annotated[float, Bounds(least=0)]
Fraction = Annotated[float, Bounds(least=0, most=1)]
Text = Annotated[str, Pattern(r"(?s).*\S.*", "text that is not blank")]
Settings = dict[str, Any]
_SHOWN = 200
"""Characters of a value that an error repeats."""

_KINDS = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "text",
    dict: "a dictionary of JSON values",
    NoneType: "None",
}


def checked(name: str, hint: Any, value: Any) -> Any:
    """Return ``value`` as the type ``hint`` says, or raise one sentence that names ``name``.

    A whole number passes where any number is expected, and numpy's scalars and paths pass as
    what they stand for. True and False are no numbers, and text is not read as one.

    >>> checked("training.gamma", Fraction, 1)
    1.0
    >>> checked("training.gamma", Fraction, 2)
    Traceback (most recent call last):
        ...
    llm_gym.errors.ConfigError: training.gamma must be a number of at least 0 and at most 1, got 2
    """
    for option in _options(hint):
        accepted, found = _accept(option, value)
        if accepted:
            return found
    meant = did_you_mean(value, _choices(hint)) if isinstance(value, str) else ""
    raise ConfigError(f"{name} must be {describe(hint)}, got {value!r:.{_SHOWN}}{meant}")


def describe(hint: Any) -> str:
    """Return what ``hint`` accepts, in words.

    >>> describe(Literal["token", "turn"] | None)
    'one of token, turn or None'
    """
    return " or ".join(_describe_one(option) for option in _options(hint))


def _options(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _describe_one(hint: Any) -> str:
    if get_origin(hint) is Annotated:
        base, constraint = get_args(hint)
        words: str = constraint.words(_describe_one(base))
        return words
    if get_origin(hint) is Literal:
        return f"one of {', '.join(map(str, get_args(hint)))}"
    return _KINDS[get_origin(hint) or hint]


def _choices(hint: Any) -> list[str]:
    found: list[str] = []
    for option in _options(hint):
        if get_origin(option) is Literal:
            found += get_args(option)
        elif get_origin(option) is Annotated and isinstance(get_args(option)[1], Registered):
            found += get_args(option)[1].names()
    return found


def _accept(hint: Any, value: Any) -> tuple[bool, Any]:
    """Whether ``value`` fits one type, and what it becomes."""
    if get_origin(hint) is Annotated:
        base, constraint = get_args(hint)
        accepted, found = _accept(base, value)
        return accepted and constraint.accepts(found), found
    if get_origin(hint) is Literal:
        return isinstance(value, str) and value in get_args(hint), value
    if isinstance(value, bool | np.bool_):
        return hint is bool, bool(value)
    return _accept_plain(get_origin(hint) or hint, value)


def _accept_plain(kind: type, value: Any) -> tuple[bool, Any]:
    if kind is NoneType:
        return value is None, None
    if kind is int and isinstance(value, numbers.Integral):
        return True, operator.index(value)
    if kind is float and isinstance(value, numbers.Real):
        try:
            return math.isfinite(value), float(value)
        except OverflowError:  # a whole number of hundreds of digits
            return False, value
    if kind is str and isinstance(value, str | os.PathLike):
        return True, os.fspath(value)
    if kind is dict and isinstance(value, Mapping):
        return _is_json(value), copy.deepcopy(dict(value))
    return False, value


def _is_json(value: Mapping[Any, Any]) -> bool:
    """Whether ``value`` is the same after a way through a JSON file."""
    try:
        return bool(json.loads(json.dumps(value, allow_nan=False)) == value)
    except (TypeError, ValueError):
        return False
