"""Runs jobs on the rows of a vector environment, and stacks what they return.

A job names a row, an operation and its argument. ``run_jobs`` runs the jobs, in this process and in
every worker process. If a row raises, the other rows go on, and the error carries their results.
``stack_infos`` builds Gymnasium's vector layout of infos in one pass, which is faster than
``VectorEnv._add_info``; values that do not fit together are kept as objects.
"""

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from llm_gym.core.errors import ConfigError, WorkerError, error_words
from llm_gym.core.infos import Info
from llm_gym.episodes.play import begin, play_reset, play_step

TextualEnv = gym.Env[str, str]
Factory = Callable[[], TextualEnv]
Job = tuple[int, str, Any]
"""Row, operation (one of ``_OPERATIONS``), argument."""
_NAMED_ROWS = 3


class RowsError(WorkerError):
    """Some rows of a vector environment failed; the other rows did their jobs.

    ``rows`` maps each failed row to its failure; such a row needs a reset before its next step.
    ``results`` holds what the other rows returned. The exception of a row in this process is the
    ``__cause__``; the exception of a row in a worker process is added as a note.
    """

    rows: Mapping[int, str] = {}
    results: Mapping[int, Any] = {}


class Failure(NamedTuple):
    """What went wrong in a row: the rest of a sentence that begins with the row's name."""

    what: str
    lost: bool = False
    """True when the environment itself is gone, not only its episode."""
    error: BaseException | None = None
    traceback: str = ""


class LocalRows:
    """Environments in this process, one after the other."""

    def __init__(self, factories: Sequence[Factory]) -> None:
        self.envs: list[TextualEnv] = []
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            for row, factory in enumerate(factories):
                self.envs.append(build(row, factory))
            if len(set(map(id, self.envs))) < len(self.envs):
                raise ConfigError("a factory must make a new environment at every call")
            undo.pop_all()
        self.run = functools.partial(run_jobs, self.envs)

    def close(self) -> None:
        close_all(self.envs)


def build(row: int, factory: Factory) -> TextualEnv:
    """Build the environment of ``row`` and check that it is one."""
    env = factory()
    if not isinstance(env, gym.Env):
        raise ConfigError(f"the factory of row {row} must return a gymnasium.Env, got {env!r}")
    return env


def close_all(envs: Sequence[TextualEnv]) -> None:
    """Close every environment, also when one of them raises."""
    with contextlib.ExitStack() as stack:
        for env in envs:
            stack.callback(env.close)


def run_jobs(
    envs: Sequence[TextualEnv] | Mapping[int, TextualEnv], jobs: Sequence[Job]
) -> tuple[list[Any], dict[int, Failure]]:
    """Do the jobs in order and return their answers, with None where a row raised."""
    answers: list[Any] = []
    failures: dict[int, Failure] = {}
    for row, operation, argument in jobs:
        try:
            answers.append(_OPERATIONS[operation](envs[row], argument))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - the other rows go on
            answers.append(None)
            failures[row] = Failure(f"raised {error_words(error)}", error=error)
    return answers, failures


# --- the operations: all that begins or continues an episode answers with a 5-tuple ------


def _step_and_reset(env: TextualEnv, action: str) -> Any:
    answer = play_step(env, action)
    final_obs, reward, terminated, truncated, final_info = answer
    if not (terminated or truncated):
        return answer
    observation, *_, info = _reset(env, {})
    info = {"final_obs": final_obs, "final_info": final_info, **info}
    return observation, reward, terminated, truncated, info


def _reset(env: TextualEnv, arguments: Mapping[str, Any]) -> Any:
    observation, info = play_reset(env, **arguments)
    return observation, 0.0, False, False, info


def _begin(env: TextualEnv, arguments: Mapping[str, Any]) -> Any:
    beginning = begin(env, **arguments)
    return beginning.observation, 0.0, False, False, beginning


_OPERATIONS: Mapping[str, Callable[[TextualEnv, Any], Any]] = {
    "step": play_step,
    "step, reset when over": _step_and_reset,
    "reset": _reset,
    "begin": _begin,
    "apply": lambda env, function: function(env),
}


def rows_error(failures: Mapping[int, Failure], results: Mapping[int, Any]) -> RowsError:
    """Return the error that lists the failure of each failed row."""
    same: dict[str, list[int]] = {}
    for row, failure in sorted(failures.items()):
        same.setdefault(failure.what, []).append(row)
    error = RowsError("; ".join(f"{_name(rows)} {what}" for what, rows in same.items()))
    error.rows = {row: failure.what for row, failure in sorted(failures.items())}
    error.results = dict(results)
    for failure in failures.values():
        error.__cause__ = error.__cause__ or failure.error
        if failure.traceback:
            error.add_note(f"In the worker process:\n{failure.traceback}")
            break
    return error


def _name(rows: list[int]) -> str:
    named = ", ".join(map(str, rows[:_NAMED_ROWS]))
    more = f" and {len(rows) - _NAMED_ROWS} more" if len(rows) > _NAMED_ROWS else ""
    return f"row {named}" if len(rows) == 1 else f"rows {named}{more}"


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
    for key in dict.fromkeys(chain.from_iterable(infos)):
        values = [info[key] for info in infos if key in info]
        where = mask.copy()
        if len(values) < len(infos):
            where[mask] = [key in info for info in infos]
        stacked[key], stacked[f"_{key}"] = _column(key, where, values), where
    return stacked


def _column(key: str, where: Mask, values: list[Any]) -> Any:
    first = values[0]
    if key == "final_obs" or first is None or isinstance(first, str):
        return _spread(where, values, object)
    dicts = [isinstance(value, dict) for value in values]
    if all(dicts):
        return _stack(where, values)
    if not any(dicts):
        # Gymnasium stops at values that do not fit together; here they are kept as they are.
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            return _like_the_first(where, values)
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
    if not isinstance(first, np.ndarray):
        is_number = type(first) in _SCALARS or isinstance(first, np.number)
        return _spread(where, values, type(first) if is_number else object)
    column = np.zeros((len(where), *first.shape), dtype=first.dtype)
    for row, value in zip(np.flatnonzero(where), values, strict=True):
        column[row] = value
    return column
