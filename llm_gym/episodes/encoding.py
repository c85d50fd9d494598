"""Free-form values as strict JSON, and back: what ``info`` dictionaries hold.

Strict, because Python's ``NaN`` literal stops a browser, ``jq`` and Arrow. What JSON has no word
for travels in an object with a single key that begins with ``$``:

- ``{"$float": "NaN"}`` (or ``Infinity``, ``-Infinity``) is that float;
- ``{"$dict": [[key, value], ...]}`` is a dictionary whose keys are not all plain strings;
- ``{"$repr": "..."}`` is an ``Opaque``: a value of which only a description survives.

Arrays, tuples and sets become lists, NumPy and tensor scalars Python numbers. One odd value in an
``info`` must never cost the episode it is in, so ``encode`` raises for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from llm_gym.errors import RecordError

MAX_REPR = 1000
_MAX_DEPTH = 50
_MAX_BITS = 10_000  # Python refuses to write a number of more than 4300 digits


@dataclass(frozen=True)
class Opaque:
    """Stands for a value that JSON cannot hold: its ``repr``, cut to 1000 characters."""

    text: str


def encode(value: object, depth: int = 0) -> Any:
    """Return ``value`` as something that ``json`` writes strictly.

    >>> encode({"cells": (1, 2), "score": float("-inf"), (0, 1): "north"})["$dict"][1]
    ['score', {'$float': '-Infinity'}]
    """
    try:
        return _encode(value, depth)
    except Exception:  # noqa: BLE001 - a foreign object may raise anything from anywhere
        return _opaque(value)


def _encode(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)  # an enum that is a str has a __str__ of its own
    if isinstance(value, int):
        return int(value) if value.bit_length() <= _MAX_BITS else _opaque(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"$float": write_special(value)}
    if isinstance(value, Opaque):
        return {"$repr": value.text}
    return _encode_container(value, depth + 1)


def _encode_container(value: Any, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        return _opaque(value)
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {str.__str__(key): encode(item, depth) for key, item in value.items()}
        return {"$dict": [[encode(key, depth), encode(item, depth)] for key, item in value.items()]}
    if isinstance(value, (set, frozenset)):
        value = sorted(value, key=repr)  # the order of a set differs between processes
    if isinstance(value, (list, tuple)):
        return [encode(item, depth) for item in value]
    if callable(to_list := getattr(value, "tolist", None)):  # NumPy, and tensors without torch
        return encode(to_list(), depth)
    return _opaque(value)


def _opaque(value: object) -> dict[str, str]:
    try:
        text = hex(value) if isinstance(value, int) else repr(value)
    except Exception:  # noqa: BLE001 - a foreign __repr__ may raise anything
        text = f"<{type(value).__name__} without a repr>"
    return {"$repr": text if len(text) <= MAX_REPR else f"{text[: MAX_REPR - 3]}..."}


def decode(value: Any) -> Any:
    """Return what ``encode`` was given. Raises ``RecordError`` for a ``$`` key it does not know.

    >>> decode(encode({1: float("inf"), "at": [object]}))
    {1: inf, 'at': [Opaque(text="<class 'object'>")]}
    """
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1 and (tag := next(iter(value))).startswith("$"):
        if tag not in _TAGS:
            raise RecordError(f"an object with {tag} cannot be read, only {', '.join(_TAGS)}")
        return _TAGS[tag](value[tag])
    return {key: decode(item) for key, item in value.items()}


def write_special(number: float) -> str:
    """Return the JSON string for a number that JSON has no literal for."""
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def read_special(text: Any) -> float:
    """Return the number that ``write_special`` wrote."""
    if text not in ("NaN", "Infinity", "-Infinity"):
        raise ValueError(f"{text!r} is not NaN, Infinity or -Infinity")
    return float(text)


def _key(value: Any) -> Any:
    # A tuple was written as a list, and a key has to be hashable.
    return tuple(_key(item) for item in value) if isinstance(value, list) else value


def _read_opaque(text: Any) -> Opaque:
    if not isinstance(text, str):
        raise TypeError("$repr holds a string")
    return Opaque(text)


_TAGS: dict[str, Callable[[Any], Any]] = {
    "$float": read_special,
    "$dict": lambda pairs: {_key(decode(key)): decode(item) for key, item in pairs},
    "$repr": _read_opaque,
}
