"""The kinds of fields a record has: what each accepts, how it is written, how it is read.

Each record class has a table from field to kind; ``write_fields`` and ``read_fields`` do the
rest. An error names the field, and in a list the place in it: ``rewards[3] must be a number, got
'ten'``.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from llm_gym.core.text import closest
from llm_gym.episodes.encoding import decode, encode, read_special, write_special
from llm_gym.errors import RecordError

_ERRORS = (TypeError, ValueError, OverflowError, AttributeError, LookupError, RecursionError)


class Kind(Protocol):
    """Writes and reads one field; ``name`` is for the error message."""

    def write(self, name: str, value: Any) -> Any:
        """Return the JSON form of ``value``."""

    def read(self, name: str, value: Any) -> Any:
        """Return the Python form of ``value``."""


@dataclass(frozen=True)
class One:
    """A single value."""

    expected: str
    to_json: Callable[[Any], Any]
    from_json: Callable[[Any], Any]

    def write(self, name: str, value: Any) -> Any:
        try:
            return self.to_json(value)
        except RecordError:  # it says more than we could
            raise
        except _ERRORS as error:
            raise self.refuse(name, value) from error

    def read(self, name: str, value: Any) -> Any:
        try:
            return self.from_json(value)
        except RecordError:  # it says more than we could
            raise
        except _ERRORS as error:
            raise self.refuse(name, value) from error

    def refuse(self, name: str, value: Any) -> RecordError:
        return RecordError(f"{name} must be {self.expected}, got {shorten(value)}")


@dataclass(frozen=True)
class Many:
    """A list of values of one kind; NumPy arrays and tensors are lists too."""

    item: One
    plural: str

    def write(self, name: str, value: Any) -> list[Any]:
        try:
            if isinstance(value, (str, bytes, Mapping)):
                raise TypeError
            to_list = getattr(value, "tolist", None)
            values = list(to_list() if callable(to_list) else value)
        except _ERRORS as error:
            raise self._refuse(name, value) from error
        try:
            return [self.item.to_json(value) for value in values]
        except _ERRORS:  # find out which one only now: most lists are long and right
            return [self.item.write(f"{name}[{at}]", value) for at, value in enumerate(values)]

    def read(self, name: str, value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise self._refuse(name, value)
        try:
            return [self.item.from_json(value) for value in value]
        except _ERRORS:
            return [self.item.read(f"{name}[{at}]", value) for at, value in enumerate(value)]

    def _refuse(self, name: str, value: Any) -> RecordError:
        return RecordError(f"{name} must be a list of {self.plural}, got {shorten(value)}")


@dataclass(frozen=True)
class Maybe:
    """A field that may be None, which is written as ``null``."""

    kind: Kind

    def write(self, name: str, value: Any) -> Any:
        return None if value is None else self.kind.write(name, value)

    def read(self, name: str, value: Any) -> Any:
        return None if value is None else self.kind.read(name, value)


def shorten(value: object) -> str:
    """Return ``value`` for an error message: short, on one line, whatever it is."""
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - a foreign __repr__ may raise anything
        text = ""
    if isinstance(value, str) and len(text) <= 60:
        return text
    return type(value).__name__ if len(text) > 60 or not text else f"{type(value).__name__} {text}"


# --- values --------------------------------------------------------------------------------


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return str.__str__(value)


def _name(value: Any) -> str | int:
    return _text(value) if isinstance(value, str) else _whole(value)


def _whole(value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError
    return operator.index(value)


def _flag(value: Any) -> bool:
    if value not in (0, 1):  # a mask may come as numbers
        raise ValueError
    return bool(value)


def _write_number(value: Any) -> float | str | None:
    if isinstance(value, (str, bytes)):
        raise TypeError
    number = float(value)
    # null is how NaN reads best where every item is a number: nothing is known here.
    return number if math.isfinite(number) else None if number != number else write_special(number)


def _read_number(value: Any) -> float:
    if value is None:
        return math.nan
    return read_special(value) if isinstance(value, str) else float(value)


def _write_mapping(value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise TypeError
    return encode(value)


def _read_mapping(value: Any) -> dict[Any, Any]:
    if not isinstance(mapping := decode(value), dict):
        raise TypeError
    return mapping


def _check_message(message: Any) -> Any:
    if not isinstance(message["role"], str):
        raise TypeError
    if not isinstance(message["content"], str | None):  # a bare tool call has no content
        raise TypeError
    return message


def _write_message(message: Any) -> Any:
    return encode(_check_message(message))


def _read_message(message: Any) -> Any:
    return _check_message(_read_mapping(message))


def _text_or_null(value: Any) -> str | None:
    return None if value is None else _text(value)


TEXT = One("a string", _text, _text)
NAME = One("a string or a whole number", _name, _name)
WHOLE = One("a whole number", _whole, _whole)
MAPPING = One("an object", _write_mapping, _read_mapping)
TEXTS = Many(TEXT, "strings")
TEXTS_OR_NULLS = Many(One("a string or null", _text_or_null, _text_or_null), "strings and nulls")
NUMBERS = Many(One("a number", _write_number, _read_number), "numbers")
WHOLES = Many(WHOLE, "whole numbers")
FLAGS = Many(One("true or false", _flag, _flag), "true and false")
MAPPINGS = Many(MAPPING, "objects")
MESSAGES = Many(One("a message with role and content", _write_message, _read_message), "messages")


# --- records -------------------------------------------------------------------------------

Fields = Mapping[str, Kind]


def write_fields(record: object, fields: Fields, prefix: str = "") -> dict[str, Any]:
    """Return the fields of ``record`` as JSON values."""
    return {name: kind.write(prefix + name, getattr(record, name)) for name, kind in fields.items()}


def read_fields(data: Mapping[str, Any], fields: Fields, prefix: str = "") -> dict[str, Any]:
    """Return the arguments that build a record out of ``data``."""
    for name in data.keys() - fields.keys():
        meant = closest(name, fields)
        hint = f"; did you mean {prefix}{meant}?" if meant else ""
        raise RecordError(f"{prefix}{name} is not a field of a record{hint}")
    return {name: fields[name].read(prefix + name, value) for name, value in data.items()}
