"""Describe a value of any Gymnasium space in words.

Small values are described in full. Large arrays are summarised by shape and range, pictures and
boards also by a coarse grid. Values outside their space, NaN and infinity included, are described
as they are: no value that an environment returns raises an exception.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import Space, spaces

from llm_gym.core.text import clip

FEW = 128
"""An array of more numbers than this is summarised."""
GRID = 16
"""Rows and columns that a coarse grid has at most."""
_MOST_ITEMS = 32
_LARGE = 1e150
_NOTHING = 1e-9
"""A number below this is what is left of rounding."""
_Array = npt.NDArray[Any]


def say(space: Space[Any], value: Any, labels: Sequence[str] = ()) -> str:
    r"""Return ``value`` of ``space`` in words.

    >>> say(spaces.Discrete(5), 3)
    '3'
    >>> say(spaces.Dict(speed=spaces.Box(0, 9, (2,)), lamp=spaces.Discrete(2)),
    ...     {"speed": np.array([0.5, np.nan]), "lamp": 1})
    'speed: 0.5 nan\nlamp: 1'
    """
    for kind in type(space).__mro__:
        if kind in _SAYERS:
            try:
                return _SAYERS[kind](space, value, labels)
            except (TypeError, ValueError, LookupError, AttributeError, OverflowError):
                break  # not what its space promises
    return clip(str(value), 1000)


def number(value: float) -> str:
    """Return a number short and readable.

    >>> number(0.123456), number(-0.0), number(1e9), number(float("-inf")), number(6.1e-17)
    ('0.1235', '0', '1e+09', '-inf', '0')
    """
    return "0" if abs(value) < _NOTHING else f"{value:.4g}"


def label_numbers(labels: Sequence[str], numbers: Sequence[float]) -> str:
    """Return each number after its label.

    >>> label_numbers(["Angle", "speed"], [0.5, 2])
    'Angle 0.5, speed 2'
    """
    return ", ".join([f"{name} {number(x)}" for name, x in zip(labels, numbers, strict=True)])


def _say_array(space: Space[Any], value: Any, labels: Sequence[str]) -> str:
    array = np.asarray(value)
    if array.size > FEW:
        return summarise(array)
    if array.ndim <= 1:
        numbers = [array.item()] if array.ndim == 0 else array.tolist()
        if len(labels) == len(numbers):
            return label_numbers(labels, numbers)
        return " ".join([number(x) for x in numbers])
    rows = array.reshape(-1, array.shape[-1]).tolist()
    return "\n".join(" ".join(number(x) for x in row) for row in rows)


def _say_dict(space: Any, value: Any, labels: Sequence[str]) -> str:
    parts = [(str(key), say(part, value[key])) for key, part in space.spaces.items()]
    return "\n".join(_entry(key, text) for key, text in parts)


def _say_tuple(space: Any, value: Any, labels: Sequence[str]) -> str:
    parts = [say(part, x) for part, x in zip(space.spaces, value, strict=True)]
    return "\n".join(_entry(str(at), text) for at, text in enumerate(parts, 1))


def _say_sequence(space: Any, value: Any, labels: Sequence[str]) -> str:
    if space.stack:
        return say(space.stacked_feature_space, value)
    shown = [_entry(str(at), say(space.feature_space, x)) for at, x in enumerate(value, 1)]
    more = [f"... {len(shown) - _MOST_ITEMS} more"] if len(shown) > _MOST_ITEMS else []
    return "\n".join(shown[:_MOST_ITEMS] + more) or "nothing"


def _entry(name: str, text: str) -> str:
    if "\n" not in text:
        return f"{name}: {text}"
    return f"{name}:\n  " + text.replace("\n", "\n  ")


_SAYERS: Mapping[type, Callable[[Any, Any, Sequence[str]], str]] = {
    spaces.Discrete: lambda space, value, labels: str(int(value)),
    spaces.MultiDiscrete: _say_array,
    spaces.MultiBinary: _say_array,
    spaces.Box: _say_array,
    spaces.Text: lambda space, value, labels: str(value),
    spaces.Dict: _say_dict,
    spaces.Tuple: _say_tuple,
    spaces.Sequence: _say_sequence,
}


# --- large arrays ------------------------------------------------------------------------


def summarise(array: _Array) -> str:
    r"""Return what can be said of a large array in a few lines.

    >>> print(summarise(np.arange(600).reshape(20, 30)).splitlines()[0])
    20 by 30 numbers, 0 to 599, mean 299.5
    """
    shape = " by ".join(map(str, array.shape))
    values = array.astype(np.float64, copy=False)
    sound = np.issubdtype(array.dtype, np.integer) or bool(np.isfinite(values).all())
    finite = values if sound else values[np.isfinite(values)]
    if not finite.size:
        return f"{shape} numbers, none of them finite"
    low, high = float(finite.min()), float(finite.max())
    large = max(-low, high) > _LARGE  # their sum may not be finite
    mean = float((finite / finite.size).sum() if large else finite.mean())
    head = f"{shape} numbers, {number(low)} to {number(high)}, mean {number(mean)}"
    if odd := values.size - finite.size:
        head += f", {odd} not finite"
    if array.ndim == 1:
        return f"{head}; the first are {' '.join(number(x) for x in array[:8].tolist())}"
    grid = coarse_grid(values, low, high)
    what = f"Averages on a grid of {len(grid)} by {len(grid[0])}, 0 lowest to 9 highest"
    return "\n".join([head, f"{what}:", *grid])


def coarse_grid(values: _Array, low: float, high: float) -> list[str]:
    """Return a picture of ``values`` in digits, at most ``GRID`` rows and columns.

    >>> coarse_grid(np.eye(3), 0.0, 1.0)
    ['900', '090', '009']
    """
    grid = values if np.isfinite(values).all() else np.nan_to_num(values, True, low, high, low)
    if max(-low, high) > _LARGE:
        grid, low, high = grid / _LARGE, low / _LARGE, high / _LARGE
    while grid.ndim > 2:  # the shortest axis is that of the channels, first or last
        channels = np.moveaxis(grid, int(np.argmin(grid.shape)), 0)
        grid = sum(channels[1:], start=channels[0]) / len(channels)
    for axis in (0, 1):
        size = grid.shape[axis]
        if size > GRID:
            edges = np.linspace(0, size, GRID + 1).astype(int)
            widths = np.diff(edges)
            sums = np.add.reduceat(grid, edges[:-1], axis=axis)
            grid = sums / (widths[:, None] if axis == 0 else widths)
    levels = (grid - low) * (9 / ((high - low) or 1.0))
    digits = np.clip(np.round(levels), 0, 9).astype(int)
    return ["".join(map(str, row)) for row in digits.tolist()]
