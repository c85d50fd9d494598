"""The infos of many environments, in Gymnasium's vector layout.

``VectorEnv._add_info`` adds one environment at a time and costs more than a step of a light
game. Here the columns are built in one pass over all of them. The result is the same wherever
Gymnasium has one; where it fails on values that do not fit together, the column holds the values
themselves, as objects.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Info = dict[str, Any]
Mask = npt.NDArray[np.bool_]
_SCALARS = {bool, int, float}


def stack_infos(num_envs: int, rows: Sequence[int], infos: Sequence[Info]) -> Info:
    """Return every key of ``infos`` as a column, and as ``_key`` the mask of rows that have it.

    ``rows`` says which environment each info belongs to, in ascending order.

    >>> stack_infos(3, [0, 2], [{"turn": 1}, {"turn": 5}])
    {'turn': array([1, 0, 5]), '_turn': array([ True, False,  True])}
    """
    mask = np.ones(num_envs, dtype=np.bool_)
    if len(rows) < num_envs:
        mask[:] = False
        mask[rows] = True
    return _stack(mask, infos)


def _stack(mask: Mask, infos: Sequence[Info]) -> Info:
    stacked: Info = {}
    for key, values in _values(infos):
        where = mask.copy()
        if len(values) < len(infos):
            where[mask] = [key in info for info in infos]
        stacked[key], stacked[f"_{key}"] = _column(key, where, values), where
    return stacked


def _values(infos: Sequence[Info]) -> Iterator[tuple[str, list[Any]]]:
    first: Info = infos[0] if infos else {}
    others = infos
    with contextlib.suppress(KeyError):  # when the first has a key that another one lacks
        yield from [(key, [info[key] for info in infos]) for key in first]
        others = [info for info in infos if len(info) > len(first)]
    keys: Info = {}
    for info in others:
        keys.update(info)
    for key in keys:
        if others is infos or key not in first:
            yield key, [info[key] for info in infos if key in info]


def _column(key: str, where: Mask, values: list[Any]) -> Any:
    first = values[0]
    if key == "final_obs" or first is None or isinstance(first, str):
        return _spread(where, values, object)
    kinds = set(map(type, values))
    kind = kinds.pop() if len(kinds) == 1 else object
    if kind is dict:
        return _stack(where, values)
    try:
        if kind in _SCALARS or issubclass(kind, np.number):
            return _spread(where, values, kind)
        dicts = [isinstance(value, dict) for value in values]
        if all(dicts):
            return _stack(where, values)
        if not any(dicts):
            return _like_the_first(where, values)
    except (TypeError, ValueError, OverflowError):
        pass  # Gymnasium stops here; values that do not fit together are kept as they are
    return _spread(where, values, object)


def _spread(where: Mask, values: list[Any], kind: Any) -> npt.NDArray[Any]:
    column = np.fromiter(values, kind, len(values))
    if len(values) == len(where):
        return column
    spread = (np.empty if kind is object else np.zeros)(len(where), column.dtype)
    spread[where] = column
    return spread


def _like_the_first(where: Mask, values: list[Any]) -> npt.NDArray[Any]:
    # Gymnasium gives a column the type of its first value and casts the others to it.
    first = values[0]
    if isinstance(first, np.ndarray):
        column = np.zeros((len(where), *first.shape), dtype=first.dtype)
    elif type(first) in _SCALARS or isinstance(first, np.number):
        column = np.zeros(len(where), dtype=type(first))
    else:
        return _spread(where, values, object)
    for row, value in zip(np.flatnonzero(where), values, strict=True):
        column[row] = value
    return column
