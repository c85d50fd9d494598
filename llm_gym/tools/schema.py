"""The part of JSON Schema that tools use: does a value fit, and if not, what is wrong with it?

``fit`` answers a model, so it forgives what is unambiguous (``"5"`` or ``5.0`` where a whole
number belongs) and says the rest in one sentence. It reads the keywords that ``@tool`` writes and
the common ones that other people's tools bring; a keyword that it does not know, or that is not
as the standard has it, restricts nothing.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

_MAX_DEPTH = 20
_MAX_WORK = 50_000  # looks at a value: choices inside choices could take for ever
_MAX_SHOWN = 60
_MAX_REASONS = 5
_MAX_PATH = 200
_NAMES = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


class Fit(NamedTuple):
    """A value as its schema wants it, or the first problem with it."""

    value: Any
    problem: str = ""


class _Work:
    """How often a value was looked at."""

    def __init__(self) -> None:
        self.done = 0


def fit(value: Any, schema: Mapping[str, Any], name: str = "the value") -> Fit:
    """Return ``value`` as ``schema`` wants it, or what is wrong with it.

    >>> fit({"n": "5"}, {"type": "object", "properties": {"n": {"type": "integer"}}})
    Fit(value={'n': 5}, problem='')
    >>> fit(-1, {"type": "integer", "minimum": 0}, "count").problem
    'count must be at least 0, got -1'
    """
    return _fit(value, schema, name, 0, _Work())


def _fit(value: Any, schema: Mapping[str, Any], name: str, depth: int, work: _Work) -> Fit:
    work.done += 1
    if depth > _MAX_DEPTH:
        return Fit(value, f"{name} is nested too deeply")
    if work.done > _MAX_WORK:
        return Fit(value, f"{name} has too many parts to check")
    for keyword in ("anyOf", "oneOf"):
        if isinstance(choices := schema.get(keyword), list) and choices:
            return _fit_any(value, choices, name, depth, work)
    types = schema.get("type")
    if isinstance(types, str | list) and types:
        types = [types] if isinstance(types, str) else types
        value, matched = _as_type(value, types)
        if not matched:
            wanted = " or ".join(_NAMES.get(kind, str(kind)) for kind in types)
            return Fit(value, f"{name} must be {wanted}, got {show(value)}")
    if problem := _not_allowed(value, schema, name) or _out_of_bounds(value, schema, name):
        return Fit(value, problem)
    if isinstance(value, dict):
        return _fit_object(value, schema, name, depth, work)
    if isinstance(value, list) and isinstance(items := schema.get("items"), Mapping):
        return _fit_list(value, items, name, depth, work)
    return Fit(value)


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


def _fit_any(value: Any, choices: list[Any], name: str, depth: int, work: _Work) -> Fit:
    kinds = [one for one in choices if isinstance(one, Mapping)]
    tried = [_fit(value, one, name, depth + 1, work) for one in kinds]
    # A value that one of them takes as it is wins over one that another would convert.
    good = [found for found in tried if not found.problem]
    exact = [found for found in good if _same(found.value, value)]
    if exact or good or not tried:
        return (exact or good or [Fit(value)])[0]
    reasons = dict.fromkeys(found.problem for found in tried)
    return Fit(value, "; or ".join(list(reasons)[:_MAX_REASONS]))


def _fit_object(
    value: dict[str, Any], schema: Mapping[str, Any], name: str, depth: int, work: _Work
) -> Fit:
    properties = schema.get("properties")
    properties = properties if isinstance(properties, Mapping) else {}
    required = schema.get("required")
    for key in required if isinstance(required, list | tuple) else ():
        if isinstance(key, str) and key not in value:
            return Fit(value, f"{_inside(name, key)} is missing")
    rest = schema.get("additionalProperties", True)
    fitted = {}
    for key, item in value.items():
        wanted = properties.get(key, rest)
        if wanted is False:
            known = ", ".join(properties) or "none"
            return Fit(value, f"{_inside(name, str(key)[:_MAX_SHOWN])} is unknown; known: {known}")
        kind = wanted if isinstance(wanted, Mapping) else {}
        found = _fit(item, kind, _inside(name, key), depth + 1, work)
        if found.problem:
            return Fit(value, found.problem)
        fitted[key] = found.value
    return Fit(fitted)


def _fit_list(
    value: list[Any], items: Mapping[str, Any], name: str, depth: int, work: _Work
) -> Fit:
    fitted = []
    for at, item in enumerate(value):
        found = _fit(item, items, f"{name}[{at}]", depth + 1, work)
        if found.problem:
            return Fit(value, found.problem)
        fitted.append(found.value)
    return Fit(fitted)


def _inside(name: str, key: str) -> str:
    return key if name in ("", "the value") else f"{name}.{key}"[-_MAX_PATH:]


def _is_type(value: Any, kind: str) -> bool:
    if not isinstance(kind, str) or kind not in _NAMES:
        return True  # a type that JSON Schema does not have restricts nothing
    if kind == "boolean" or isinstance(value, bool):  # True is an int in Python, not in JSON
        return kind == "boolean" and isinstance(value, bool)
    if kind == "integer":
        return isinstance(value, int)
    if kind == "number":
        return isinstance(value, int | float) and not (
            isinstance(value, float) and not math.isfinite(value)
        )
    if kind == "null":
        return value is None
    kinds: dict[str, type] = {"string": str, "array": list, "object": dict}
    return isinstance(value, kinds[kind])


def _as_type(value: Any, types: list[str]) -> tuple[Any, bool]:
    """Return ``value`` as one of ``types``, and whether it is one."""
    if any(_is_type(value, kind) for kind in types):
        return value, True
    if isinstance(value, float) and "integer" in types and value.is_integer():
        return int(value), True
    if isinstance(value, str) and "string" not in types and len(value) <= 100_000:
        try:
            read = json.loads(value)
        except (ValueError, RecursionError):
            return value, False
        if any(_is_type(read, kind) for kind in types if kind != "null"):
            return read, True
    return value, False


def _same(value: Any, other: Any) -> bool:
    return type(value) is type(other) and bool(value == other)


def _not_allowed(value: Any, schema: Mapping[str, Any], name: str) -> str:
    allowed = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if not isinstance(allowed, list | tuple) or any(_same(value, item) for item in allowed):
        return ""
    listed = ", ".join(show(item) for item in allowed)
    return f"{name} must be {'one of ' * (len(allowed) > 1)}{listed}, got {show(value)}"


def _out_of_bounds(value: Any, schema: Mapping[str, Any], name: str) -> str:
    if isinstance(value, str | list):
        unit, size = ("characters" if isinstance(value, str) else "items"), len(value)
        low, high = _bounds(schema, "Length" if isinstance(value, str) else "Items")
        if size < low:
            return f"{name} must have at least {low:g} {unit}, got {size}"
        if size > high:
            return f"{name} must have at most {high:g} {unit}, got {size}"
    if isinstance(value, int | float) and not isinstance(value, bool):
        low, high = _bounds(schema, "imum")
        if value < low:
            return f"{name} must be at least {low}, got {show(value)}"
        if value > high:
            return f"{name} must be at most {high}, got {show(value)}"
    return ""


def _bounds(schema: Mapping[str, Any], of: str) -> tuple[float, float]:
    """Return the bounds that ``min...`` and ``max...`` set; what is no number sets none."""
    low: Any = schema.get(f"min{of}")
    high: Any = schema.get(f"max{of}")
    return (
        low if _is_type(low, "number") else -math.inf,
        high if _is_type(high, "number") else math.inf,
    )
