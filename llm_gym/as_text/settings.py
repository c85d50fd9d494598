"""The settings of ``AsText``, checked, and the size of an action."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gymnasium import Space, spaces

from llm_gym.errors import ConfigError

_ONE_OF: Mapping[str, tuple[str | None, ...]] = {
    "rules": ("observation", "system", None),
    "invalid": ("fallback", "feedback", "terminate"),
    "masked": ("play", "refuse"),
}
_AT_LEAST = {"retries": 0, "max_invalid": 1, "max_observation_chars": 200}


def check_settings(settings: Mapping[str, Any]) -> None:
    """Raise ``ConfigError`` for a setting that cannot be honoured."""
    for name, known in _ONE_OF.items():
        if settings[name] not in known:
            words = " or ".join(repr(word) for word in known if word is not None)
            raise ConfigError(f"{name} must be {words}, got {settings[name]!r}")
    _check_counts(settings)
    penalty = settings["penalty"]
    if not isinstance(penalty, (int, float)) or not 0.0 <= penalty < math.inf:
        raise ConfigError(f"penalty must be a number of at least 0, got {penalty!r}")
    for name in ("system_prompt", "fallback"):
        if not isinstance(settings[name], str | None):
            raise ConfigError(f"{name} must be a str, got {settings[name]!r}")
    for name in ("describe", "parse"):
        if settings[name] is not None and not callable(settings[name]):
            raise ConfigError(f"{name} must be a function, got {settings[name]!r}")
    if settings["parse"] is not None and settings["masked"] == "refuse":
        raise ConfigError("masked='refuse' needs no parse; return None in parse to refuse a move")


def _check_counts(settings: Mapping[str, Any]) -> None:
    for name, least in _AT_LEAST.items():
        value = settings[name]
        if name == "max_invalid" and value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ConfigError(f"{name} must be a whole number of at least {least}, got {value!r}")


def numbers_in(space: Space[Any]) -> int:
    """Return how many numbers, or characters, an action of ``space`` has at most.

    >>> numbers_in(spaces.Dict(arm=spaces.Box(-1, 1, (2, 3)), say=spaces.Text(10)))
    16
    """
    if isinstance(space, spaces.Dict):
        return sum(map(numbers_in, space.spaces.values()))
    if isinstance(space, spaces.Tuple):
        return sum(map(numbers_in, space.spaces))
    if isinstance(space, spaces.Text):
        return int(space.max_length)
    return math.prod(space.shape or ())


def path_of(phrasebook: Any) -> Any:
    """Return a class as ``module:Class``, which JSON can hold, where it can be found by that."""
    if isinstance(phrasebook, type) and "<locals>" not in phrasebook.__qualname__:
        return f"{phrasebook.__module__}:{phrasebook.__qualname__}"
    return phrasebook
