"""Values and fields of a record as strict JSON, and back.

Strict, because browsers, ``jq`` and Arrow reject Python's ``NaN`` literal. A value that JSON cannot
express becomes an object with a single key that begins with ``$``:

- ``{"$float": "NaN"}`` (or ``Infinity``, ``-Infinity``) is that float;
- ``{"$dict": [[key, value], ...]}`` is a dictionary whose keys are not all plain strings;
- ``{"$repr": "..."}`` is an ``Opaque``: only the ``repr`` of the value is kept.

Arrays, tuples and sets become lists, NumPy and tensor scalars Python numbers. ``encode`` never
raises, because one odd value in an ``info`` must not lose the episode.

The second half of this module defines the field types of a record: what each accepts, and how it is
written and read. An error names the field and the index: ``rewards[3] must be a number, got
'ten'``.
"""

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, get_args, get_type_hints

from llm_gym.core.errors import RecordError
from llm_gym.core.text import did_you_mean

MAX_REPR = 1000
_MAX_DEPTH = 50
_MAX_BITS = 10_000  # Python refuses to write a number of more than 4300 digits


@dataclass(frozen=True)
class Opaque:
    """Stands for a value that JSON cannot hold: its ``repr``, cut to 1000 characters."""

    text: str


def encode(value: object, depth: int = 0) -> Any:
    """Return ``value`` in a form that ``json`` writes as strict JSON.

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


_TAGS: dict[str, Callable[[Any], Any]] = {
    "$float": read_special,
    "$dict": lambda pairs: {_key(decode(key)): decode(item) for key, item in pairs},
    "$repr": lambda text: Opaque(_text(text)),
}


_ERRORS = (TypeError, ValueError, OverflowError, AttributeError, LookupError, RecursionError)


Way = Literal["to_json", "from_json"]


@dataclass(frozen=True)
class SingleField:
    """A single value."""

    expected: str
    to_json: Callable[[Any], Any]
    from_json: Callable[[Any], Any]

    def convert(self, way: Way, name: str, value: Any) -> Any:
        try:
            return getattr(self, way)(value)
        except RecordError:  # it says more than we could
            raise
        except _ERRORS as error:
            wanted = f"{name} must be {self.expected}, got {describe_value(value)}"
            raise RecordError(wanted) from error


@dataclass(frozen=True)
class ListField:
    """A list of values of one kind; NumPy arrays and tensors are lists too."""

    item: SingleField
    plural: str

    def convert(self, way: Way, name: str, value: Any) -> list[Any]:
        try:
            if isinstance(value, (str, bytes, Mapping)):
                raise TypeError
            to_list = getattr(value, "tolist", None)
            values = list(to_list() if callable(to_list) else value)
        except _ERRORS as error:
            wanted = f"{name} must be a list of {self.plural}, got {describe_value(value)}"
            raise RecordError(wanted) from error
        try:
            return list(map(getattr(self.item, way), values))
        except _ERRORS:  # find out which one only now: most lists are long and right
            named = enumerate(values)
            return [self.item.convert(way, f"{name}[{at}]", value) for at, value in named]


def describe_value(value: object) -> str:
    """Return any ``value`` as one short line for an error message."""
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
    if math.isnan(number):
        return None  # reads best where every item is a number: the value is not known
    return number if math.isfinite(number) else write_special(number)


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


def _text_or_null(value: Any) -> str | None:
    return None if value is None else _text(value)


TEXT = SingleField("a string", _text, _text)
NAME = SingleField("a string or a whole number", _name, _name)
WHOLE = SingleField("a whole number", _whole, _whole)
MAPPING = SingleField("an object", _write_mapping, _read_mapping)
TEXTS = ListField(TEXT, "strings")
TEXTS_OR_NULLS = ListField(
    SingleField("a string or null", _text_or_null, _text_or_null), "strings and nulls"
)
NUMBER = SingleField("a number", _write_number, _read_number)
NUMBERS = ListField(NUMBER, "numbers")
WHOLES = ListField(WHOLE, "whole numbers")
FLAG = SingleField("true or false", _flag, _flag)
FLAGS = ListField(FLAG, "true and false")
MAPPINGS = ListField(MAPPING, "objects")
MESSAGES = ListField(
    SingleField(
        "a message with role and content",
        lambda message: encode(_check_message(message)),
        lambda message: _check_message(_read_mapping(message)),
    ),
    "messages",
)


# --- records -------------------------------------------------------------------------------

Field = tuple[SingleField | ListField, bool]
"""The type of a field, and whether it may be None, which is written as ``null``."""
Fields = Mapping[str, Field]


_KINDS: dict[Any, SingleField | ListField] = {
    str: TEXT, int: WHOLE, str | int: NAME, dict[str, Any]: MAPPING,
    list[str]: TEXTS, list[str | None]: TEXTS_OR_NULLS, list[int]: WHOLES, list[float]: NUMBERS,
    list[bool]: FLAGS, list[dict[str, Any]]: MAPPINGS,
}  # fmt: skip
"""The field type of an annotation."""
_KINDS |= {hint | None: kind for hint, kind in _KINDS.items()}


def fields_of(record: type, **special: SingleField | ListField) -> Fields:
    """Return the written fields of a dataclass by name: the arguments of its constructor.

    ``special`` has the field types that the annotations do not tell.
    """
    hints = get_type_hints(record)
    names = [one.name for one in fields(record) if one.init]
    return {
        name: (special.get(name) or _KINDS[hints[name]], type(None) in get_args(hints[name]))
        for name in names
    }


def write_fields(record: object, fields: Fields, prefix: str = "") -> dict[str, Any]:
    """Return the fields of ``record`` as JSON values."""
    return {
        name: _convert("to_json", one, prefix + name, getattr(record, name))
        for name, one in fields.items()
    }


def read_fields(data: Mapping[str, Any], fields: Fields, prefix: str = "") -> dict[str, Any]:
    """Return the constructor arguments of a record from ``data``."""
    for name in data.keys() - fields.keys():
        hint = did_you_mean(name, fields)
        raise RecordError(f"{prefix}{name} is not a field of a record{hint}")
    return {
        name: _convert("from_json", fields[name], prefix + name, value)
        for name, value in data.items()
    }


def _convert(way: Way, one: Field, name: str, value: Any) -> Any:
    kind, may_be_none = one
    return None if value is None and may_be_none else kind.convert(way, name, value)
