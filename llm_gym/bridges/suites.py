"""Small help for the bridges: finding a suite, naming what it has, copying and describing it."""

from __future__ import annotations

import copy
import difflib
import importlib
import re
from collections.abc import Collection, Iterable, Mapping
from types import ModuleType
from typing import Any

import numpy as np

from llm_gym.bridges.foreign import untouched
from llm_gym.errors import ConfigError
from llm_gym.registry.bridges import install_line

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_WORD_LIST = 1000


def need_package(package: str, module: str = "") -> ModuleType:
    """Return a module of a suite, or raise a sentence with the line that installs the suite."""
    try:
        with untouched():
            return importlib.import_module(module or package)
    except ImportError as error:
        suite, missing = package.split(".")[0], (error.name or "").split(".")[0]
        why = "" if missing == suite else f" in working order ({error})"
        raise ConfigError(
            f"this bridge needs {suite}{why}. Install it with: {install_line(package)}"
        ) from error


def choose(name: str, given: str, known: Iterable[str]) -> str:
    """Return ``given`` if it is among ``known``; else raise with those that resemble it."""
    names = sorted(known)
    if given in names:
        return given
    near = difflib.get_close_matches(str(given), names, 3) or names[:3]
    raise ConfigError(
        f"{name} must be one of {len(names)} names, such as {', '.join(near)}, got {given!r}"
    )


def fresh_copy(made: Any) -> Any:
    """Return a copy of an environment as it was made, for one episode.

    Many keep something of the last episode, a deck that was shuffled where it lay, so that a seed
    alone does not decide the next. Word lists are shared: they are large, and nobody writes there.
    """
    shared: dict[int, Any] = {}
    for value in vars(made).values():
        for inner in (value, *getattr(value, "__dict__", {}).values()):
            if isinstance(inner, Collection) and len(inner) >= _WORD_LIST:
                shared[id(inner)] = inner
    return copy.deepcopy(made, shared)


def stable(value: object, depth: int = 6) -> str:
    """Return a text of ``value`` that is alike in every process.

    >>> stable({"b": {2, 1}, "a": (1.5, None)})
    "{'a': [1.5, None], 'b': [1, 2]}"
    """
    if isinstance(value, Mapping) and depth:
        parts = sorted((stable(k, depth - 1), stable(v, depth - 1)) for k, v in value.items())
        return "{" + ", ".join(f"{k}: {v}" for k, v in parts) + "}"
    if isinstance(value, set | frozenset) and depth:
        return "[" + ", ".join(sorted(stable(item, depth - 1) for item in value)) + "]"
    if isinstance(value, list | tuple) and depth:
        return "[" + ", ".join(stable(item, depth - 1) for item in value) + "]"
    if isinstance(value, np.ndarray | np.generic):
        return stable(value.tolist(), depth)
    return _ADDRESS.sub("", repr(value))
