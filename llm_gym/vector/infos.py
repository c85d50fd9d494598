"""The infos of many environments, in Gymnasium's vector layout.

``VectorEnv._add_info`` adds one environment at a time and costs more than a step of a light
game. Here the columns are built in one pass over all of them. The result is the same wherever
Gymnasium has one; where it fails on values that do not fit together, the column holds the values
themselves, as objects.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Info = dict[str, Any]
_SCALARS = {bool, int, float}


def stack_infos(num_envs: int, rows: Sequence[int], infos: Sequence[Info]) -> Info:
    """Return every key of ``infos`` as a column, and as ``_key`` the mask of rows that have it.

    ``rows`` says which environment each info belongs to, in ascending order.

    >>> stack_infos(3, [0, 2], [{"turn": 1}, {"turn": 5}])
    {'turn': array([1, 0, 5]), '_turn': array([ True, False,  True])}
    """
    stacked: Info = {}
    whole = _mask(num_envs, rows)
    for key, where, values in _columns(rows, infos):
        stacked[key] = _column(key, num_envs, where, values)
        stacked[f"_{key}"] = whole.copy() if where is rows else _mask(num_envs, where)
    return stacked


def _mask(num_envs: int, rows: Sequence[int]) -> npt.NDArray[np.bool_]:
    if len(rows) == num_envs:
        return np.ones(num_envs, dtype=np.bool_)
    mask = np.zeros(num_envs, dtype=np.bool_)
    mask[rows] = True
    return mask


def _columns(
    rows: Sequence[int], infos: Sequence[Info]
) -> Iterator[tuple[str, Sequence[int], list[Any]]]:
    if len(set(map(len, infos))) == 1:
        try:
            found = [(key, rows, [info[key] for info in infos]) for key in infos[0]]
        except KeyError:
            pass
        else:
            yield from found
            return
    for key in dict.fromkeys(itertools.chain.from_iterable(infos)):
        having = [row for row, info in zip(rows, infos, strict=True) if key in info]
        yield key, having, [info[key] for info in infos if key in info]


def _column(key: str, num_envs: int, where: Sequence[int], values: list[Any]) -> Any:
    if key == "final_obs":
        return _objects(num_envs, where, values)
    kinds = set(map(type, values))
    dicts = [issubclass(kind, dict) for kind in kinds]
    if all(dicts):
        return stack_infos(num_envs, where, values)
    try:
        if len(kinds) == 1 and (kinds <= _SCALARS or isinstance(values[0], np.number)):
            return _scalars(num_envs, where, values)
        if not any(dicts):
            return _like_the_first(num_envs, where, values)
    except (TypeError, ValueError, OverflowError):
        pass  # Gymnasium stops here; values that do not fit together are kept as they are
    return _objects(num_envs, where, values)


def _scalars(num_envs: int, where: Sequence[int], values: list[Any]) -> npt.NDArray[Any]:
    column = np.fromiter(values, type(values[0]), len(values))
    if len(where) == num_envs:
        return column
    spread = np.zeros(num_envs, dtype=column.dtype)
    spread[where] = column
    return spread


def _like_the_first(num_envs: int, where: Sequence[int], values: list[Any]) -> npt.NDArray[Any]:
    # Gymnasium gives a column the type of its first value and casts the others to it.
    first = values[0]
    if isinstance(first, np.ndarray):
        column = np.zeros((num_envs, *first.shape), dtype=first.dtype)
    elif type(first) in _SCALARS or isinstance(first, np.number):
        column = np.zeros(num_envs, dtype=type(first))
    else:
        return _objects(num_envs, where, values)
    for row, value in zip(where, values, strict=True):
        column[row] = value
    return column


def _objects(num_envs: int, where: Sequence[int], values: list[Any]) -> npt.NDArray[Any]:
    column = np.fromiter(values, object, len(values))
    if len(where) == num_envs:
        return column
    spread = np.full(num_envs, None, dtype=object)
    spread[where] = column
    return spread
