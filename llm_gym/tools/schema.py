"""Checks values against the part of JSON Schema that tools use.

``fit`` checks a model's arguments, so it converts unambiguous values (``"5"`` or ``5.0`` to an
integer) and reports other problems in one sentence. It supports the keywords that ``@tool`` writes
and the common ones of other tools; an unknown or malformed keyword is ignored.

The package jsonschema is not used: it would be another dependency of the core, it does not convert
values, and its running time is not limited.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

_MAX_DEPTH = 20
_MAX_WORK = 50_000  # limit on checks: nested choices could take exponential time
_MAX_SHOWN = 60
_MAX_REASONS = 5
_MAX_PATH = 200
_TYPES: dict[str, tuple[str, tuple[type, ...]]] = {
    "string": ("a string", (str,)),
    "integer": ("a whole number", (int,)),
    "number": ("a number", (int, float)),
    "boolean": ("true or false", (bool,)),
    "array": ("a list", (list,)),
    "object": ("an object", (dict,)),
    "null": ("null", (type(None),)),
}
"""What each type is called, and its types in Python."""


class Fit(NamedTuple):
    """A value converted to its schema, or the first problem with it."""

    value: Any
    problem: str = ""


class _MisfitError(Exception):
    """Says what is wrong with a value."""


def fit(value: Any, schema: Mapping[str, Any], name: str = "the value") -> Fit:
    """Return ``value`` converted to ``schema``, or what is wrong with it.

    >>> fit({"n": "5"}, {"type": "object", "properties": {"n": {"type": "integer"}}})
    Fit(value={'n': 5}, problem='')
    >>> fit(-1, {"type": "integer", "minimum": 0}, "count").problem
    'count must be at least 0, got -1'
    """
    try:
        return Fit(_Fitter().fit(value, schema, name))
    except _MisfitError as error:
        return Fit(value, str(error))


class _Fitter:
    """Walks a value and its schema side by side."""

    def __init__(self) -> None:
        self.checks = 0

    def fit(self, value: Any, schema: Mapping[str, Any], name: str, depth: int = 0) -> Any:
        self.checks += 1
        if depth > _MAX_DEPTH:
            raise _MisfitError(f"{name} is nested too deeply")
        if self.checks > _MAX_WORK:
            raise _MisfitError(f"{name} has too many parts to check")
        for keyword in ("anyOf", "oneOf"):
            if isinstance(choices := schema.get(keyword), list) and choices:
                return self._fit_any(value, choices, name, depth)
        value = _as_type(value, schema.get("type"), name)
        _check_value(value, schema, name)
        if isinstance(value, dict):
            return self._fit_object(value, schema, name, depth)
        if isinstance(value, list) and isinstance(items := schema.get("items"), Mapping):
            return [
                self.fit(item, items, f"{name}[{at}]", depth + 1) for at, item in enumerate(value)
            ]
        return value

    def _fit_any(self, value: Any, choices: list[Any], name: str, depth: int) -> Any:
        reasons: dict[str, None] = {}
        converted = []
        for choice in choices:
            if isinstance(choice, Mapping):
                try:
                    found = self.fit(value, choice, name, depth + 1)
                except _MisfitError as error:
                    reasons[str(error)] = None
                    continue
                if _same(found, value):  # wins over a choice that would convert it
                    return found
                converted.append(found)
        if reasons and not converted:
            raise _MisfitError("; or ".join(list(reasons)[:_MAX_REASONS]))
        return converted[0] if converted else value

    def _fit_object(
        self, value: dict[str, Any], schema: Mapping[str, Any], name: str, depth: int
    ) -> dict[str, Any]:
        properties = schema.get("properties")
        properties = properties if isinstance(properties, Mapping) else {}
        required = schema.get("required")
        for key in required if isinstance(required, list | tuple) else ():
            if isinstance(key, str) and key not in value:
                raise _MisfitError(f"{_inside(name, key)} is missing")
        rest = schema.get("additionalProperties", True)
        fitted = {}
        for key, item in value.items():
            wanted = properties.get(key, rest)
            if wanted is False:
                known = ", ".join(properties) or "none"
                unknown = _inside(name, str(key)[:_MAX_SHOWN])
                raise _MisfitError(f"{unknown} is unknown; known: {known}")
            kind = wanted if isinstance(wanted, Mapping) else {}
            fitted[key] = self.fit(item, kind, _inside(name, key), depth + 1)
        return fitted


def show(value: Any) -> str:
    """Return ``value`` as JSON, short enough for a message.

    >>> show("x" * 500)[-8:]
    'xxxx..."'
    """
    if isinstance(value, str) and len(value) > _MAX_SHOWN:
        value = f"{value[:_MAX_SHOWN]}..."
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= 2 * _MAX_SHOWN else f"{text[: 2 * _MAX_SHOWN]}..."


def _inside(name: str, key: str) -> str:
    return key if name in ("", "the value") else f"{name}.{key}"[-_MAX_PATH:]


def _is_type(value: Any, kind: Any) -> bool:
    if not isinstance(kind, str) or kind not in _TYPES:
        return True  # a type that JSON Schema does not have restricts nothing
    if isinstance(value, bool):  # an int in Python, not in JSON
        return kind == "boolean"
    if isinstance(value, float) and not math.isfinite(value):
        return False
    return isinstance(value, _TYPES[kind][1])


def _as_type(value: Any, types: Any, name: str) -> Any:
    kinds = [types] if isinstance(types, str) else types if isinstance(types, list) else []
    if not kinds or any(_is_type(value, kind) for kind in kinds):
        return value
    if isinstance(value, float) and "integer" in kinds and value.is_integer():
        return int(value)
    if isinstance(value, str) and "string" not in kinds and len(value) <= 100_000:
        try:
            read = json.loads(value)
        except (ValueError, RecursionError):
            read = None
        if read is not None and any(_is_type(read, kind) for kind in kinds):
            return read
    wanted = " or ".join(_TYPES.get(kind, (str(kind),))[0] for kind in kinds)
    raise _MisfitError(f"{name} must be {wanted}, got {show(value)}")


def _same(value: Any, other: Any) -> bool:
    return type(value) is type(other) and bool(value == other)


def _check_value(value: Any, schema: Mapping[str, Any], name: str) -> None:
    """Raise ``_MisfitError`` for what ``enum``, ``const`` and the bounds do not allow."""
    allowed = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(allowed, list | tuple) and not any(_same(value, item) for item in allowed):
        listed = ", ".join(show(item) for item in allowed)
        choice = "one of " * (len(allowed) > 1)
        raise _MisfitError(f"{name} must be {choice}{listed}, got {show(value)}")
    if isinstance(value, bool) or not isinstance(value, str | list | int | float):
        return
    size: int | float
    if isinstance(value, str):
        low, high = schema.get("minLength"), schema.get("maxLength")
        size, verb, unit = len(value), "have", " characters"
    elif isinstance(value, list):
        low, high = schema.get("minItems"), schema.get("maxItems")
        size, verb, unit = len(value), "have", " items"
    else:
        low, high = schema.get("minimum"), schema.get("maximum")
        size, verb, unit = value, "be", ""
    if low is not None and _is_type(low, "number") and size < low:
        raise _MisfitError(f"{name} must {verb} at least {low}{unit}, got {show(size)}")
    if high is not None and _is_type(high, "number") and size > high:
        raise _MisfitError(f"{name} must {verb} at most {high}{unit}, got {show(size)}")
