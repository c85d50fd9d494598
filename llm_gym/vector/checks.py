"""What a caller gives to a vector environment, checked before any row moves."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex

import numpy as np
from gymnasium import Space, spaces
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from llm_gym.core.spaces import AnyText
from llm_gym.errors import ActionTypeError, ConfigError


def parse_autoreset_mode(mode: AutoresetMode | str) -> AutoresetMode:
    """Return the mode that ``mode`` is or names.

    >>> parse_autoreset_mode("SameStep")
    <AutoresetMode.SAME_STEP: 'SameStep'>
    """
    try:
        return AutoresetMode(mode)
    except ValueError:
        names = ", ".join(known.value for known in AutoresetMode)
        raise ConfigError(f"autoreset_mode must be one of {names}, got {mode!r}") from None


def spread_seeds(n: int, seed: int | Sequence[int | None] | None) -> Sequence[int | None]:
    """Return one seed for each of ``n`` rows.

    >>> spread_seeds(3, 7)
    [7, 8, 9]
    """
    if seed is None:
        return [None] * n
    if isinstance(seed, np.ndarray):
        seed = seed.tolist()
    if isinstance(seed, SupportsIndex):
        return [operator.index(seed) + row for row in range(n)]
    if isinstance(seed, str) or not isinstance(seed, Sequence):
        raise ConfigError(f"seed must be a whole number or a list of them, got {seed!r:.100}")
    if len(seed) != n:
        raise ConfigError(f"a list of seeds must have one for each of {n} rows, got {len(seed)}")
    return seed


def check_size(n: object, workers: object) -> None:
    """Raise unless the number of environments is one, and ``workers`` a number or their maker."""
    if n is not None and (isinstance(n, bool) or not isinstance(n, SupportsIndex)):
        raise ConfigError(f"n must be a whole number, got {n!r:.100}")
    if not callable(workers) and (isinstance(workers, bool) or not isinstance(workers, int)):
        raise ConfigError(f"workers must be a whole number, got {workers!r:.100}")


def masked_rows(n: int, mask: Any) -> list[int]:
    """Return the rows where a reset mask is true.

    >>> masked_rows(3, np.array([True, False, True]))
    [0, 2]
    """
    fits = isinstance(mask, np.ndarray) and mask.dtype == np.bool_ and mask.shape == (n,)
    if not fits or not mask.any():
        raise ConfigError(
            f"options['reset_mask'] must be a boolean array of shape ({n},) with a True in it, "
            f"got {mask!r}"
        )
    return [int(row) for row in np.flatnonzero(mask)]


def check_actions(n: int, actions: Sequence[str]) -> None:
    """Raise unless ``actions`` are ``n`` strings."""
    listed = isinstance(actions, Sequence | np.ndarray) and not isinstance(actions, str)
    if not listed or len(actions) != n:
        got = len(actions) if listed else f"a {type(actions).__name__}"
        raise ConfigError(f"actions must be a list of {n} strings, got {got}")
    if set(map(type, actions)) != {str}:  # the usual case is soon known
        for row, action in enumerate(actions):
            check_action(row, action)


def check_action(row: int, action: object) -> None:
    """Raise unless ``action`` is a string."""
    if not isinstance(action, str):
        raise ActionTypeError(
            f"row {row} takes a str action, got {type(action).__name__}; decode token ids before "
            "calling step"
        )


def batch_text(each: Sequence[Space[Any]]) -> tuple[Space[Any], Space[Any]]:
    """Return the space of one row and the space of all rows.

    Games of different lengths may stand side by side: the space of one row is then the widest.
    """
    for row, space in enumerate(each):
        if not isinstance(space, Space):
            raise ConfigError(f"an environment must have spaces, got {space!r:.100} in row {row}")
        # A string space of somebody else's is welcome; Gymnasium's own have a batch of arrays.
        if type(space).__module__.startswith("gymnasium.") and not isinstance(space, spaces.Text):
            raise ConfigError(
                f"make_vec takes environments of text, got {space} in row {row}; use gym.make_vec"
            )
    if all(space == each[0] for space in each):
        return each[0], batch_space(each[0], len(each))
    lengths = [space.max_length for space in each if isinstance(space, spaces.Text)]
    if len(lengths) < len(each):
        raise ConfigError(f"spaces that differ must all be spaces.Text, got {list(each)}")
    return AnyText(max(lengths)), spaces.Tuple(each)
