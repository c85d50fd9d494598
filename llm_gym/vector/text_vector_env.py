"""``TextVectorEnv``: a ``gymnasium.vector.VectorEnv`` that takes and returns lists of strings.

``step`` moves every row, with Gymnasium's autoreset. ``step_rows`` and ``reset_rows`` move only the
rows they are given, because a language model answers some rows sooner than others. Jobs run in this
process (``rows``) or in worker processes (``worker_pool``); this module works with both.
"""

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, SupportsFloat, SupportsIndex, TypeVar

import numpy as np
import numpy.typing as npt
from gymnasium import Space, spaces
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from llm_gym.core.errors import ConfigError
from llm_gym.core.infos import Info, Options
from llm_gym.core.outcome import refuse_step
from llm_gym.core.settings import check_type
from llm_gym.core.spaces import AnyText
from llm_gym.episodes.play import Beginning
from llm_gym.vector import rows as row_jobs

if TYPE_CHECKING:
    from llm_gym.vector.worker_pool import WorkerPool


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
        raise refuse_step(f"row {row}", action, None)


def batch_text(each: Sequence[Space[Any]]) -> tuple[Space[Any], Space[Any]]:
    """Return the space of one row and the space of all rows.

    If the rows have text spaces of different lengths, the space of one row is the longest.
    """
    for row, space in enumerate(each):
        if not isinstance(space, Space):
            raise ConfigError(f"an environment must have spaces, got {space!r:.100} in row {row}")
        # Other packages' string spaces are accepted; Gymnasium's other spaces batch into arrays.
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


Start = tuple[int | None, Options]
"""Seed and options of ``reset``."""
StepResult = tuple[str, SupportsFloat, bool, bool, Info]
Array = npt.NDArray[Any]
T = TypeVar("T")
# Why a row cannot be stepped, in words that follow its name. Empty while its episode goes on.
_NOT_BEGUN, _OVER = "has not begun", "is over"
_STEP_AND_RESET = "step, reset when over"


class TextVectorEnv(VectorEnv[list[str], Sequence[str], Array]):
    """A vector environment of text environments; ``make_vec`` builds it.

    If a row raises, hangs or dies, ``RowsError`` is raised with the results of the other rows.
    These rows are not affected. A reset repairs the failed row.

    Args:
        factories: One function for each row that builds its environment.
        autoreset_mode: What ``step`` does after the end of an episode, as in Gymnasium.
        workers: Processes to spread the rows over; 0 keeps them in this one.
        timeout: Seconds that one row may take in its worker; None waits for ever.
    """

    def __init__(
        self,
        factories: Sequence[row_jobs.Factory],
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        workers: int = 0,
        timeout: float | None = None,
    ) -> None:
        try:
            self.autoreset_mode = AutoresetMode(autoreset_mode)
        except ValueError:
            names = ", ".join(known.value for known in AutoresetMode)
            raise ConfigError(
                f"autoreset_mode must be one of {names}, got {autoreset_mode!r}"
            ) from None
        check_type("workers", workers, int)
        self.num_envs = len(factories)
        if not 0 <= workers <= self.num_envs:
            raise ConfigError(
                f"workers must be from 0 to the number of environments, got workers={workers} "
                f"for {self.num_envs}"
            )
        if timeout is not None and not (workers and timeout > 0):
            raise ConfigError(
                f"timeout must be positive and needs workers, got timeout={timeout} with "
                f"workers={workers}"
            )
        self._rows: row_jobs.LocalRows | WorkerPool
        if workers:
            from llm_gym.vector import worker_pool  # late: most uses need no processes

            self._rows = worker_pool.WorkerPool(factories, workers, timeout)
        else:
            self._rows = row_jobs.LocalRows(factories)
        self._waiting = [_NOT_BEGUN] * self.num_envs
        self._observations = [""] * self.num_envs
        try:
            self._describe()
        except BaseException:
            self.close()
            raise

    def _describe(self) -> None:
        names = ("observation_space", "action_space", "metadata", "render_mode")
        each = self.apply(operator.attrgetter(*names))
        observation_spaces, action_spaces, metadatas, render_modes = zip(*each, strict=True)
        self.metadata = {**metadatas[0], "autoreset_mode": self.autoreset_mode}
        self.render_mode = render_modes[0]
        self.single_observation_space, self.observation_space = batch_text(observation_spaces)
        self.single_action_space, self.action_space = batch_text(action_spaces)

    # --- Gymnasium -----------------------------------------------------------------------

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Options = None,
    ) -> tuple[list[str], Info]:
        """Begin a new episode in every row, or where ``options["reset_mask"]`` says so.

        Args:
            seed: Row ``i`` gets ``seed + i``, or ``seed[i]`` if it is a list.
            options: Passed to every environment, without the mask.
        """
        seeds = spread_seeds(self.num_envs, seed)
        rows: Sequence[int] = range(self.num_envs)
        if options is not None and "reset_mask" in options:
            rows = masked_rows(self.num_envs, options["reset_mask"])
            # Left in the caller's dictionary, where a wrapper outside looks for it too.
            options = {key: value for key, value in options.items() if key != "reset_mask"}
        started = self.reset_rows({row: seeds[row] for row in rows}, options)
        infos = [info for _, info in started.values()]
        return list(self._observations), row_jobs.stack_infos(self.num_envs, rows, infos)

    def step(self, actions: Sequence[str]) -> tuple[list[str], Array, Array, Array, Info]:
        """Play one action in every row, and reset rows as ``autoreset_mode`` says."""
        check_actions(self.num_envs, actions)
        same_step = self.autoreset_mode is AutoresetMode.SAME_STEP
        operation = _STEP_AND_RESET if same_step else "step"
        jobs: list[row_jobs.Job] = [(row, operation, action) for row, action in enumerate(actions)]
        if any(self._waiting):
            for row, why in enumerate(self._waiting):
                if why == _OVER and self.autoreset_mode is AutoresetMode.NEXT_STEP:
                    jobs[row] = (row, "reset", {})
                elif why:
                    raise self._refusal(row)
        answers = self._run(jobs)
        texts, rewards, terminated, truncated, infos = zip(*answers, strict=True)
        terminations = np.fromiter(terminated, np.bool_, self.num_envs)
        truncations = np.fromiter(truncated, np.bool_, self.num_envs)
        self._note(dict(enumerate(answers)), operation)
        return (
            list(texts),
            np.fromiter(rewards, np.float64, self.num_envs),
            terminations,
            truncations,
            row_jobs.stack_infos(self.num_envs, range(self.num_envs), infos),
        )

    def render(self) -> tuple[Any, ...]:
        return self.call("render")

    def close_extras(self, **kwargs: Any) -> None:
        self.closed = True  # also when an environment raises on the way
        self._rows.close()

    # --- some rows -----------------------------------------------------------------------

    def step_rows(self, actions: Mapping[int, str]) -> dict[int, StepResult]:
        """Play one action in each row of ``actions``; the other rows do not move.

        ``autoreset_mode`` has no effect here: a row whose episode is over waits for ``reset_rows``,
        ``reset``, or, with NEXT_STEP, the next ``step``.
        """
        for row, action in actions.items():
            self._check_row(row)
            check_action(row, action)
            if self._waiting[row]:
                raise self._refusal(row)
        answers = self._run([(row, "step", action) for row, action in actions.items()])
        results = dict(zip(actions, answers, strict=True))
        self._note(results, "step")
        return results

    def reset_rows(
        self, seeds: Mapping[int, int | None], options: Options = None
    ) -> dict[int, tuple[str, Info]]:
        """Begin a new episode in each row of ``seeds``; the other rows do not move.

        This also repairs rows that raised, and restarts a worker that hung or died.
        """
        starts = {row: (seed, options) for row, seed in seeds.items()}
        return self._reset_rows("reset", starts, operator.itemgetter(0, -1))

    def begin_rows(self, starts: Mapping[int, Start]) -> dict[int, Beginning]:
        """Begin episodes, each with its seed and options; return the start of each record."""
        return self._reset_rows("begin", starts, operator.itemgetter(-1))

    def _reset_rows(
        self, operation: str, starts: Mapping[int, Start], read: Callable[[Any], T]
    ) -> dict[int, T]:
        for row in starts:
            self._check_row(row)
        jobs = [
            (row, operation, {"seed": seed, "options": options})
            for row, (seed, options) in starts.items()
        ]
        try:
            answers = self._run(jobs)
        except row_jobs.RowsError as error:
            error.results = {row: read(one) for row, one in error.results.items()}
            raise
        self._note(dict(zip(starts, answers, strict=True)), operation)
        return {row: read(one) for row, one in zip(starts, answers, strict=True)}

    # --- the environments themselves -----------------------------------------------------

    @property
    def envs(self) -> list[row_jobs.TextualEnv]:
        """The environments, if they run in this process."""
        if isinstance(self._rows, row_jobs.LocalRows):
            return self._rows.envs
        raise AttributeError("the environments are in workers: use call, get_attr and set_attr")

    def apply(self, function: Callable[[row_jobs.TextualEnv], T]) -> list[T]:
        """Return ``function(env)`` of each row; a worker process imports the function's module."""
        return self._run([(row, "apply", function) for row in range(self.num_envs)])

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Return ``env.name(*args, **kwargs)`` of each row, or ``env.name`` if not callable."""
        return tuple(self.apply(functools.partial(_call, name=name, args=args, kwargs=kwargs)))

    get_attr = call

    def set_attr(self, name: str, values: Any) -> None:
        """Set ``env.name`` in each row: to its own value from a list or tuple, or to one value."""
        if not isinstance(values, list | tuple):
            values = [values] * self.num_envs
        if len(values) != self.num_envs:
            raise ConfigError(f"values must have {self.num_envs} entries, got {len(values)}")
        setters = [operator.methodcaller("set_wrapper_attr", name, value) for value in values]
        self._run([(row, "apply", setter) for row, setter in enumerate(setters)])

    @property  # type: ignore[misc]
    def np_random(self) -> tuple[np.random.Generator, ...]:  # type: ignore[override]
        return self.get_attr("np_random")

    @property
    def np_random_seed(self) -> tuple[int, ...]:  # type: ignore[override]
        """The seed of each row, even if none was given."""
        return self.get_attr("np_random_seed")

    # --- inside --------------------------------------------------------------------------

    def _run(self, jobs: list[row_jobs.Job]) -> list[Any]:
        if self.closed:
            raise _closed()
        answers, failures = self._rows.run(jobs)
        if not failures:
            return answers
        playing = bool(jobs) and jobs[0][1] != "apply"
        for row, failure in failures.items():
            if playing or failure.lost:
                self._waiting[row] = failure.what
        results = {
            job[0]: answer
            for job, answer in zip(jobs, answers, strict=True)
            if job[0] not in failures
        }
        if playing:
            self._note(results, jobs[0][1])
        raise row_jobs.rows_error(failures, results)

    def _note(self, results: Mapping[int, StepResult], operation: str) -> None:
        for row, (text, _, terminated, truncated, _) in results.items():
            self._observations[row] = text
            over = (terminated or truncated) and operation != _STEP_AND_RESET
            self._waiting[row] = _OVER if over else ""

    def _check_row(self, row: int) -> None:
        if not 0 <= row < self.num_envs:
            raise ConfigError(f"row must be from 0 to {self.num_envs - 1}, got {row}")

    def _refusal(self, row: int) -> Exception:
        if self.closed:
            return _closed()
        return ResetNeeded(
            f"row {row} {self._waiting[row]}; begin an episode there with "
            f"reset_rows({{{row}: None}}) before you step it"
        )


def _call(
    env: row_jobs.TextualEnv, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> Any:
    found = env.get_wrapper_attr(name)
    return found(*args, **kwargs) if callable(found) else found


def _closed() -> ClosedEnvironmentError:
    return ClosedEnvironmentError("this vector environment is closed; make a new one")
