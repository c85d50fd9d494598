"""Constructor arguments are checked against their type hints before anything is built.

Without this ``max_turns=2.5`` makes a game without an end, ``strict="no"`` a strict one, and
``size="4"`` an error about ``<=`` somewhere below. NumPy numbers arrive as Python's own.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from numbers import Integral, Real
from typing import Any, Literal, Self, Union, get_args, get_origin, get_type_hints

import numpy as np

from llm_gym.core.errors import ConfigError
from llm_gym.reading.formats import FORMATS, ActionFormat

_NAMES = {
    int: "a whole number", float: "a number", bool: "True or False", str: "a text",
    Callable: "a function", Sequence: "a list",
}  # fmt: skip
_NONE = type(None)


class TypedSettings:
    """A base whose subclasses get settings of the types that their constructors declare."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Give the constructor plain numbers."""
        super().__init_subclass__(**kwargs)
        if isinstance(make := vars(cls).get("__init__"), types.FunctionType):
            type.__setattr__(cls, "__init__", _with_plain_numbers(make))

    def __new__(cls, *args: Any, **settings: Any) -> Self:
        """Look at the settings before anything is built of them."""
        check_types(cls, _named(cls, args) | settings)
        return super().__new__(cls)


def get_format(name: str) -> ActionFormat:
    """Return the format called ``name``."""
    if not isinstance(name, str) or name not in FORMATS:
        raise ConfigError(f"action_format must be one of {', '.join(FORMATS)}, got {name!r}")
    return FORMATS[name]


def plain(value: Any) -> Any:
    """Return ``value``, and for a number of another kind the number of Python's own.

    >>> plain(np.int64(3)), plain(np.float32(0.5)), plain("3"), plain(True)
    (3, 0.5, '3', True)
    """
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, int | float) or not isinstance(value, Real):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def _with_plain_numbers(make: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(make)
    def built(self: Any, *args: Any, **settings: Any) -> None:
        given = {name: plain(value) for name, value in settings.items()}
        make(self, *map(plain, args), **given)

    return built


def _named(cls: type, args: tuple[Any, ...]) -> dict[str, Any]:
    """Return arguments that were given by their place, by their names."""
    if not args:
        return {}
    names = list(inspect.signature(cls).parameters)
    return dict(zip(names, args, strict=False))


def check_types(cls: type, given: Mapping[str, Any]) -> None:
    """Raise ``ConfigError`` for a setting of ``cls`` that is not what its constructor asks for.

    >>> class Game:
    ...     def __init__(self, size: int = 3, *, slip: float | None = None) -> None: ...
    >>> check_types(Game, {"size": 4, "slip": 1})
    >>> check_types(Game, {"size": 2.5})
    Traceback (most recent call last):
    llm_gym.core.errors.ConfigError: size must be a whole number, got 2.5
    """
    kinds = _kinds(cls)
    for name, value in given.items():
        kind = kinds.get(name)
        if kind is not None and not _is(value, kind):
            raise ConfigError(f"{name} must be {_said(kind)}, got {value!r:.200}")


@lru_cache(maxsize=256)
def _kinds(cls: type) -> dict[str, Any]:
    """Return the type of each argument, of the class itself and of those it is built on."""
    found: dict[str, Any] = {}
    for each in reversed(cls.__mro__):
        if isinstance(make := vars(each).get("__init__"), types.FunctionType):
            try:
                hints = get_type_hints(make)
            except Exception:  # noqa: BLE001 - a name of the author's that is not there at run time
                continue
            found |= hints
    return {name: kind for name, kind in found.items() if name != "return"}


def _options(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def _is(value: Any, kind: Any) -> bool:
    return any(_is_one(value, option) for option in _options(kind))


def _is_one(value: Any, kind: Any) -> bool:
    if kind is bool:
        return isinstance(value, bool | np.bool_)
    if isinstance(value, bool | np.bool_) and kind in (int, float):
        return False
    if kind is int:
        return isinstance(value, Integral)
    if kind is float:
        return isinstance(value, Real)
    if kind in (str, _NONE):
        return isinstance(value, kind)
    if get_origin(kind) is Literal:
        return any(
            value is one or (type(value) is type(one) and value == one) for one in get_args(kind)
        )
    if get_origin(kind) is Sequence:
        is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
        return is_list and all(_is(one, get_args(kind)[0]) for one in value)
    if get_origin(kind) is Callable:
        return callable(value)
    return True  # what is more than that, its owner looks at


def _said(kind: Any) -> str:
    words = []
    for option in _options(kind):
        if get_origin(option) is Literal:
            words += [repr(one) for one in get_args(option)]
        else:
            usual = _NAMES.get(get_origin(option) or option, str(option))
            words.append("None" if option is _NONE else usual)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"
