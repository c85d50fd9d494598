"""Settings that were typed on a command line, held against the types that a game declares.

In a program a wrong type is found by a type checker. On a command line ``rooms=many`` and
``shaping=yes`` are both text, of which one is an error deep inside and the other passes for True.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from gymnasium.envs.registration import EnvSpec

from llm_gym.errors import ConfigError
from llm_gym.registry.classes import creator

_WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    NoneType: "null",
}


def check_types(spec: EnvSpec, settings: Mapping[str, Any]) -> None:
    """Raise ``ConfigError`` for a setting of a game of ours that is not of its type.

    What others annotate may not be what they mean, so theirs are let through.
    """
    made = creator(spec)
    if not (isinstance(made, type) and made.__module__.startswith("llm_gym.envs.")):
        return
    hints: dict[str, Any] = {}
    for each in reversed(made.__mro__):
        if "__init__" in vars(each):
            hints |= get_type_hints(vars(each)["__init__"]) if each is not object else {}
    for name, value in settings.items():
        options = _options(hints.get(name, Any))
        if options and not any(_fits(value, option) for option in options):
            must = " or ".join(_WORDS.get(option, repr(option)) for option in options)
            raise ConfigError(f"{name} must be {must}, got {value!r}")


def _options(hint: Any) -> tuple[Any, ...]:
    """Return the plain types and texts that ``hint`` takes; nothing where it takes others too."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    if get_origin(hint) in (Union, UnionType):
        parts = [_options(part) for part in get_args(hint)]
        return tuple(each for part in parts for each in part) if all(parts) else ()
    return (hint,) if hint in _WORDS else ()


def _fits(value: Any, option: Any) -> bool:
    if option not in _WORDS:
        return bool(value == option)
    if isinstance(value, bool):
        return option is bool
    return isinstance(value, (int, float) if option is float else option)
