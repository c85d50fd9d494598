"""``Sampler``: engine, environments and policy behind one call.

``play(tasks, version)`` plays exactly these episodes with weights of this version and returns them
in id order. Tasks and rollouts are plain data, so a sampler may run in another process.
``EpisodeCollector`` plays with TorchRL's ``Collector``, which steps all rows of the pool; it drops
idle rows and rows that wait for a reply.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Protocol

from tensordict import TensorDictBase
from torchrl.collectors import Collector

from llm_gym.core.errors import ConfigError
from llm_gym.core.outcome import TERMINAL
from llm_gym.episodes import Trajectory
from llm_gym.episodes.play import replace_system_prompt, system_prompt_of
from llm_gym_agents.engines.base import Engine, EngineError
from llm_gym_agents.rollouts.policy import LLMPolicy
from llm_gym_agents.rollouts.pool import TextEnvPool
from llm_gym_agents.rollouts.tasks import (
    IDLE,
    EpisodeTask,
    Rollout,
    Turn,
    episode_id,
    join_rollouts,
    split_tasks,
)

TURNS_PER_POLL = 4
"""Steps of the pool between two checks for finished episodes."""


class EpisodeCollector:
    """Plays named episodes of a pool."""

    def __init__(
        self, pool: TextEnvPool, policy: LLMPolicy, on_end: Callable[[int], None] | None = None
    ) -> None:
        self.pool, self.policy, self._on_end = pool, policy, on_end
        policy.texts = pool.texts
        pool.assign(())
        self._collector = Collector(
            pool,
            policy,
            frames_per_batch=pool.batch_size[0] * TURNS_PER_POLL,
            total_frames=-1,
            # TorchRL must not run the policy to learn its keys: that would play a turn.
            use_buffers=False,
            trust_policy=True,
            auto_register_policy_transforms=False,
        )
        self._batches: Iterator[TensorDictBase] | None = iter(self._collector)
        """None after an interrupted batch."""

    def collect(self, tasks: Sequence[EpisodeTask]) -> Rollout:
        """Play ``tasks`` to their ends and return them with their turns."""
        failed_before = len(self.pool.failures)
        turns, episodes = self._play(tasks)
        rollout = Rollout([], [], [], [], self.pool.failures[failed_before:], self.pool.env_id)
        for episode in episodes:
            replace_system_prompt(episode, self.policy.system_prompt)
            own = turns[episode_id(episode)]
            if not own:
                rollout.unplayed.append(episode)
                continue
            closing = None
            if episode.stop_reason not in TERMINAL:
                seen = [*episode.states[: len(own)], episode.final_state or ""]
                closing = self.policy.bootstrap_prompt(own, seen, system_prompt_of(episode))
            rollout.episodes.append(episode)
            rollout.turns.append(own)
            rollout.bootstrap_prompts.append(closing)
        return rollout

    def _play(self, tasks: Sequence[EpisodeTask]) -> tuple[dict[int, list[Turn]], list[Trajectory]]:
        ids = [task.id for task in tasks]
        if len(set(ids)) < len(ids) or IDLE in ids:
            raise ConfigError("every episode of a batch must have an id of its own, from 0 on")
        self.policy.texts = self.pool.texts  # another collector may share the policy
        self.pool.texts.clear()
        self.policy.turns.clear()
        self.policy.prefixes = {task.id: task.prefix for task in tasks if task.prefix}
        batches = self._begin()
        self.pool.assign(tasks)
        turns: dict[int, list[Turn]] = {id: [] for id in ids}
        finished: dict[int, Trajectory] = {}
        try:
            while len(finished) < len(ids):
                handles = next(batches)["turn"].T.reshape(-1)  # rows by time
                for turn in self.policy.turns.read(handles[handles > 0].tolist()):
                    turns[turn.episode].append(turn)
                finished |= self.pool.take_finished()
                if self._on_end:
                    self._on_end(len(finished))
        except BaseException:
            self._batches = None
            raise
        finally:  # drop pending replies and conversations
            self.policy.abandon()
        for id, prefix in ((task.id, task.prefix) for task in tasks):
            if prefix and turns[id]:
                turns[id] = [turn._replace(episode=id) for turn in prefix.turns] + turns[id]
        return turns, [finished[id] for id in sorted(ids)]

    def _begin(self) -> Iterator[TensorDictBase]:
        if self.pool.is_closed:
            raise ConfigError(
                "this sampler is closed, as after cleanup(); build another trainer, which resumes "
                "with config.checkpoint.resume = True"
            )
        if self._batches is None:
            self.pool.abandon()
            self._collector.reset()
            self._batches = iter(self._collector)
        return self._batches

    def close(self) -> None:
        self._collector.shutdown()


class Player(Protocol):
    """Interface of samplers: one ``Sampler``, or many on Ray actors."""

    @property
    def policy(self) -> LLMPolicy: ...
    @property
    def env_id(self) -> str | None: ...
    @property
    def has_splits(self) -> bool: ...
    def play(
        self, tasks: Sequence[EpisodeTask], version: int | None = None, *, held_out: bool = False
    ) -> Rollout: ...
    def close(self) -> None: ...


def require_version(wanted: int | None, found: int) -> None:
    """Raise ``EngineError`` unless the weights have the wanted version; None accepts any."""
    if wanted is not None and wanted != found:
        raise EngineError(
            f"these episodes must be played with weights of version {wanted}, got version {found}; "
            "publish them first"
        )


class Sampler:
    """Plays named episodes for training and evaluation.

    Args:
        policy: The model, with its engine.
        pool: The environments.
        held_out: Other environments to evaluate on; None takes ``pool``.
        isolated_batch_size: Play shards of this many episodes separately; see ``split_tasks``.
        on_end: Called from time to time with the number of finished episodes.
    """

    def __init__(
        self,
        policy: LLMPolicy,
        pool: TextEnvPool,
        held_out: TextEnvPool | None = None,
        *,
        isolated_batch_size: int | None = None,
        on_end: Callable[[int], None] | None = None,
    ) -> None:
        self.policy, self.isolated_batch_size = policy, isolated_batch_size
        self.collector = EpisodeCollector(pool, policy, on_end)
        self.held_out = self.collector
        if held_out is not None:
            self.held_out = EpisodeCollector(held_out, policy, on_end)

    @property
    def engine(self) -> Engine:
        return self.policy.engine

    @property
    def env_id(self) -> str | None:
        return self.collector.pool.env_id

    @property
    def has_splits(self) -> bool:
        """Whether the environment has train and test splits, and no held-out pool replaces them."""
        return self.held_out is self.collector and self.collector.pool.has_splits

    def play(
        self, tasks: Sequence[EpisodeTask], version: int | None = None, *, held_out: bool = False
    ) -> Rollout:
        """Play ``tasks`` to their ends.

        Args:
            tasks: The episodes to play.
            version: Required version of the weights; None accepts any.
            held_out: Play in the held-out environments.
        """
        require_version(version, self.engine.version)
        collector, rollouts = self.held_out if held_out else self.collector, []
        for shard in split_tasks(tasks, self.isolated_batch_size):
            if self.isolated_batch_size is not None:
                self.engine.forget()
            rollouts.append(collector.collect(shard))
        return join_rollouts(rollouts)

    def close(self) -> None:
        with ExitStack() as ends:
            ends.callback(self.engine.close)
            for collector in dict.fromkeys((self.collector, self.held_out)):
                ends.callback(collector.close)
