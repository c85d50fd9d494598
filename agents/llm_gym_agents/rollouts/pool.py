"""``TextEnvPool``: many text environments as one batched TorchRL environment.

``assign`` takes named tasks (id, seed, group), and a row takes the next one when it is reset. So
a batch contains exactly the requested episodes, in whatever order they end, and groups stay whole.
A row without a task is idle: its episode is -1 and it is done at once. A row that waits for its
reply (``ReplyStatus.PENDING``) does not step while others do.

A TensorDict step takes time for each leaf and each string, so text travels as int64 handles into
``texts``. All text of an episode ends up in its ``Trajectory``.

Shapes: N rows.
"""

import functools
import itertools
import logging
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode
from tensordict import TensorDict, TensorDictBase
from torchrl.data import Binary, Composite, Unbounded
from torchrl.envs import EnvBase

from llm_gym.core.errors import ConfigError, error_words
from llm_gym.core.infos import find_attribute
from llm_gym.core.outcome import StopReason, stop_reason
from llm_gym.episodes import Trajectory, play
from llm_gym.registry.sources import EnvSource, env_source
from llm_gym.vector import RowsError, make_vec
from llm_gym.wrappers.as_text import make_text
from llm_gym_agents.rollouts.mix import ENV, without_env
from llm_gym_agents.rollouts.tasks import IDLE, EpisodeTask, Prefix, ReplyStatus, episode_name

T = TypeVar("T")


class ObjectTable(dict[int, T]):
    """Python objects behind int64 handles, which are never reused; handle 0 is the empty entry.

    >>> texts = ObjectTable("")
    >>> handle = texts.add("go north")
    >>> texts.read([handle, 0])
    ['go north', '']
    """

    def __init__(self, empty: T) -> None:
        super().__init__({0: empty})
        self._last = 0

    def add(self, entry: T) -> int:
        self._last += 1
        self[self._last] = entry
        return self._last

    def read(self, handles: Iterable[int]) -> list[T]:
        return [self[handle] for handle in handles]

    def clear(self) -> None:
        """Remove every entry but the empty one, so that an old handle raises ``KeyError``."""
        empty = self[0]
        super().clear()
        self[0] = empty


_log = logging.getLogger(__name__)


class TextEnvPool(EnvBase):
    """N text environments behind one ``EnvBase``.

    Args:
        env: A registered id, an ``EnvSpec``, a factory, or an environment (rebuilt from its spec or
            copied). ``AsText`` wraps an environment that is not text.
        n: Number of rows.
        workers: Worker processes for slow environments; 0 for none.
        timeout: Maximum seconds of a step in a worker; then the episode is dropped.
        patterns: Also return each row's ``action_pattern()``, for constrained decoding.
        wrappers: Applied to each text environment, the first one innermost.
        **kwargs: Settings of the environment and of ``AsText``.
    """

    def __init__(
        self,
        env: EnvSource,
        n: int,
        *,
        workers: int = 0,
        timeout: float | None = None,
        patterns: bool = False,
        wrappers: Sequence[Callable[[Any], Any]] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(device=None, batch_size=torch.Size([n]))
        mode = AutoresetMode.DISABLED
        source = env_source(env)
        self.env_id = source.id if isinstance(source, EnvSpec) else None
        self._rows = make_vec(
            functools.partial(make_text, source, **kwargs),
            n,
            autoreset_mode=mode,
            workers=workers,
            timeout=timeout,
            wrappers=wrappers,
        )
        self._described_N = self._rows.apply(play.describe_env)
        splits_N = self._rows.apply(functools.partial(find_attribute, name="has_splits"))
        self.takes_any_split = None in splits_N  # not an environment of ours: unknown
        self.has_splits = all(splits_N)
        self.texts: ObjectTable[str] = ObjectTable("")
        self.failures: list[str] = []
        """Environment failures, one sentence each."""
        self._agenda: Iterator[EpisodeTask]
        self._set_seed(None)
        self._playing: list[Trajectory | None] = [None] * n
        self._finished: dict[int, Trajectory] = {}
        self._gone: dict[int, str] = {}
        """Rows that went down in the middle of an episode, with the worker of another row."""
        self._episode_N = np.full(n, IDLE, dtype=np.int64)
        self._observation_N = np.zeros(n, dtype=np.int64)
        self._system_N = np.zeros(n, dtype=np.int64)
        self._patterns = patterns
        number = Unbounded(shape=(n,), dtype=torch.int64)
        flag = Binary(shape=(n, 1), n=None, dtype=torch.bool)
        seen = ("observation", "episode", "system", *["pattern"] * patterns)
        self.observation_spec = Composite({name: number.clone() for name in seen}, shape=(n,))
        self.full_action_spec = Composite(action=number.clone(), status=number, shape=(n,))
        self.reward_spec = Unbounded(shape=(n, 1))
        self.full_done_spec = Composite({name: flag.clone() for name in _FLAGS}, shape=(n,))
        # TorchRL starts with True, and would then not close the worker processes.
        self.is_closed = False

    # --- which episodes ------------------------------------------------------------------

    def assign(self, tasks: Iterable[EpisodeTask]) -> None:
        """Play these episodes next, and no others; without a call the pool plays forever."""
        self._agenda = iter(tasks)

    def abandon(self) -> None:
        """Drop assigned, running and finished episodes; call ``reset`` next."""
        self.assign(())
        self._finished.clear()
        self._gone.clear()
        self._playing = [None] * len(self._playing)

    def take_finished(self) -> dict[int, Trajectory]:
        """Return the episodes that ended since the last call, by id."""
        finished, self._finished = self._finished, {}
        return finished

    # --- TorchRL -------------------------------------------------------------------------

    def _set_seed(self, seed: int | None) -> None:
        first = seed or 0
        self._agenda = (EpisodeTask(at, first + at) for at in itertools.count())

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDict:
        mask = None if tensordict is None else tensordict.get("_reset", None)
        rows = (
            range(len(self._playing)) if mask is None else mask.view(-1).nonzero().view(-1).tolist()
        )
        waiting = list(rows)
        self._vacate(waiting)
        while waiting and (tasks := dict(zip(waiting, self._agenda, strict=False))):
            waiting = self._begin(tasks)
        flags = {name: torch.zeros(len(self._playing), 1, dtype=torch.bool) for name in _FLAGS}
        return TensorDict({**self._state(), **flags}, self.batch_size)

    def _vacate(self, rows: Sequence[int]) -> None:
        self._episode_N[rows] = IDLE
        self._observation_N[rows] = self._system_N[rows] = 0
        for row in rows:
            self._playing[row] = None

    def _begin(self, tasks: Mapping[int, EpisodeTask]) -> list[int]:
        """Begin episodes; return the rows whose environment failed and that need another task."""
        lost: dict[int, str] = {}
        try:
            started = self._rows.begin_rows(
                {row: (task.seed, task.options) for row, task in tasks.items()}
            )
        except RowsError as error:
            started, lost = dict(error.results), self._lose(error, tasks)
        for row, beginning in started.items():
            if what := play.invalid_env_output(beginning.observation):
                lost[row] = what
            else:
                self._enter(row, tasks[row], beginning)
                prefix = tasks[row].prefix
                if prefix and (what := self._repeat(row, prefix)):
                    lost[row] = what
        for row, what in lost.items():  # the record of an episode that never began
            task = tasks[row]
            self._report(task.id, what)
            env_id = (task.options or {}).get(ENV)
            described = {"env_id": env_id} if env_id else self._described_N[row]
            episode = Trajectory(seed=task.seed, options=without_env(task.options), **described)
            episode.episode_id, episode.group = task.id, task.group
            self._playing[row] = episode
            self._end(row, StopReason.ERROR)
        self._vacate(list(lost))
        return list(lost)

    def _enter(self, row: int, task: EpisodeTask, beginning: play.Beginning) -> None:
        options = without_env(task.options)
        episode = play.open_record(beginning, self._described_N[row], task.seed, options)
        episode.episode_id, episode.group = task.id, task.group
        self._playing[row] = episode
        self._episode_N[row] = task.id
        self._observation_N[row] = self.texts.add(episode.states[0])
        system = beginning.system_prompt
        self._system_N[row] = self.texts.add(system) if system else 0

    def _repeat(self, row: int, prefix: Prefix) -> str:
        """Play the turns of ``prefix``; return what went wrong, or ""."""
        episode = self._playing[row]
        assert episode is not None
        for at, action in enumerate(prefix.actions):
            try:
                play.add_turn(episode, action, self._rows.step_rows({row: action})[row])
            except RowsError as error:
                return self._lose(error, [row])[row]
            if episode.dones[-1] or episode.states[-1] != prefix.observations[at + 1]:
                return "did not repeat the episode that is branched from: it is not deterministic"
            self._observation_N[row] = self.texts.add(episode.states[-1])
        return ""

    def _step(self, tensordict: TensorDictBase) -> TensorDict:
        handles, cuts = tensordict["action"].tolist(), tensordict["status"].tolist()
        n = len(self._playing)
        reward_N = np.zeros(n, dtype=np.float32)
        terminated_N, truncated_N = np.zeros(n, dtype=np.bool_), np.zeros(n, dtype=np.bool_)
        live = [row for row in range(n) if self._playing[row] is not None]
        idle_N = self._episode_N == IDLE
        ready = {row: self.texts[handles[row]] for row in live if cuts[row] == ReplyStatus.READY}
        replies = {row: reply for row, reply in ready.items() if row not in self._gone}
        try:
            results = self._rows.step_rows(replies)
            lost: dict[int, str] = {}
        except RowsError as error:
            results, lost = dict(error.results), self._lose(error, replies)
        for row, result in results.items():
            if what := play.invalid_env_output(*result[:2]):
                lost[row] = what
                continue
            episode = self._playing[row]
            assert episode is not None
            play.add_turn(episode, replies[row], result)
            self._observation_N[row] = self.texts.add(episode.states[-1])
            if episode.dones[-1]:
                flags = episode.terminated[-1], episode.truncated[-1]
                self._end(row, stop_reason(*flags, episode.infos[-1]))
            reward_N[row] = episode.rewards[-1]
            terminated_N[row], truncated_N[row] = episode.terminated[-1], episode.truncated[-1]
        for row, what in (lost | self._gone).items():
            self._fail(row, ready.get(row), what)
            truncated_N[row] = True
        self._gone.clear()
        for row in live:
            if cuts[row] == ReplyStatus.NO_ROOM and self._playing[row] is not None:
                self._end(row, StopReason.CONTEXT)
                truncated_N[row] = True
        terminated_N |= idle_N
        return TensorDict(
            {
                **self._state(),
                "reward": torch.from_numpy(reward_N).unsqueeze(-1),
                "terminated": torch.from_numpy(terminated_N).unsqueeze(-1),
                "truncated": torch.from_numpy(truncated_N).unsqueeze(-1),
                "done": torch.from_numpy(terminated_N | truncated_N).unsqueeze(-1),
            },
            self.batch_size,
        )

    def _state(self) -> dict[str, torch.Tensor]:
        state = {
            "observation": torch.from_numpy(self._observation_N.copy()),
            "episode": torch.from_numpy(self._episode_N.copy()),
            "system": torch.from_numpy(self._system_N.copy()),
        }
        return state | {"pattern": self._pattern_N()} if self._patterns else state

    def _pattern_N(self) -> torch.Tensor:
        try:
            found: Mapping[int, str] = dict(enumerate(self._rows.call("action_pattern")))
        except RowsError as error:  # rows that play nothing, or environments without patterns
            found = error.results
        live = [row for row, episode in enumerate(self._playing) if episode is not None]
        if missing := [row for row in live if row not in found]:
            raise ConfigError(
                f"patterns=True needs environments with action_pattern(), which row {missing[0]} "
                "does not have"
            )
        handles = [0] * len(self._playing)
        for row in live:
            handles[row] = self.texts.add(found[row])
        return torch.tensor(handles)

    # --- the end of an episode -----------------------------------------------------------

    def _lose(self, error: RowsError, asked: Container[int]) -> dict[int, str]:
        """Return the failures of the rows in ``asked``, and record those of other playing rows."""
        playing = {row: what for row, what in error.rows.items() if self._playing[row] is not None}
        self._gone |= {row: what for row, what in playing.items() if row not in asked}
        return {row: what for row, what in error.rows.items() if row in asked}

    def _fail(self, row: int, reply: str | None, what: str) -> None:
        self._report(int(self._episode_N[row]), what)
        episode = self._playing[row]
        assert episode is not None
        if reply is not None:
            play.add_failure(episode, reply, what)
            self._observation_N[row] = self.texts.add(episode.states[-1])
        self._end(row, StopReason.ERROR)

    def _report(self, episode: int, what: str) -> None:
        sentence = f"{episode_name(episode)}: its environment {what}"
        self.failures.append(sentence)
        _log.warning("%s", sentence)

    def _end(self, row: int, reason: StopReason) -> None:
        episode = self._playing[row]
        assert episode is not None
        if reason not in (StopReason.WON, StopReason.LOST):
            play.cut_record(episode, reason)
        assert isinstance(episode.episode_id, int)
        self._finished[episode.episode_id] = play.close_record(episode)
        self._playing[row] = None

    # --- for people ----------------------------------------------------------------------

    def rand_action(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """Write random actions: legal ones if the environment lists them, else sampled ones."""
        data = TensorDict({}, self.batch_size) if tensordict is None else tensordict
        try:
            actions = self._rows.call("random_action")
        except RowsError:
            actions = tuple(self._rows.single_action_space.sample() for _ in self._playing)
        data["action"] = torch.tensor([self.texts.add(action) for action in actions])
        data["status"] = torch.zeros(len(self._playing), dtype=torch.int64)
        return data

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close every environment and end the workers; an environment that raises is logged."""
        try:
            self._rows.close()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - others' code raises anything
            _log.warning("an environment raised %s at its end", error_words(error))
        super().close(raise_if_closed=raise_if_closed)


_FLAGS = ("done", "terminated", "truncated")
