"""``Sampler``: engine, environments and policy behind one call.

``play(tasks, version)`` plays named episodes with weights of that version and returns them. Tasks
and what comes back are plain data, and nothing here knows a trainer: a sampler may as well live in
another process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from typing import Protocol

from tensordict import TensorDictBase
from torchrl.collectors import Collector

from llm_gym.core.outcome import TERMINAL
from llm_gym.episodes import Trajectory
from llm_gym.episodes.play import address, system_prompt_of
from llm_gym.errors import ConfigError
from llm_gym_agents.engines.base import Engine, EngineError
from llm_gym_agents.rollouts.policy import LLMPolicy
from llm_gym_agents.rollouts.pool import TextEnvPool
from llm_gym_agents.rollouts.tasks import IDLE, EpisodeTask, split_tasks
from llm_gym_agents.rollouts.turns import BootstrapPrompt, Rollout, Turn, episode_id, join_rollouts

TURNS_PER_POLL = 4
"""Steps of the whole pool between two looks at what has ended."""


class EpisodeCollector:
    """Plays named episodes.

    Args:
        pool: The environments.
        policy: The model; it is given the pool's table of texts.
        on_end: Called with the number of episodes that have ended, now and then.
    """

    def __init__(
        self,
        pool: TextEnvPool,
        policy: LLMPolicy,
        on_end: Callable[[int], None] | None = None,
    ) -> None:
        self.pool, self.policy, self._on_end = pool, policy, on_end
        policy.texts = pool.texts
        pool.assign(())
        self._collector = Collector(
            pool,
            policy,
            frames_per_batch=pool.batch_size[0] * TURNS_PER_POLL,
            total_frames=-1,
            # The policy must not run to find out its keys: that would play a turn of nobody's.
            use_buffers=False,
            trust_policy=True,
            auto_register_policy_transforms=False,
        )
        self._batches: Iterator[TensorDictBase] | None = iter(self._collector)
        """None after a batch that was broken off."""

    def collect(self, tasks: Sequence[EpisodeTask]) -> Rollout:
        """Play ``tasks`` to their ends and return them with their turns."""
        failed_before = len(self.pool.failures)
        turns, episodes = self._play(tasks)
        for episode in episodes:
            address(episode, self.policy.system_prompt)
        played = [episode for episode in episodes if turns[episode_id(episode)]]
        return Rollout(
            episodes=played,
            turns=[turns[episode_id(episode)] for episode in played],
            bootstrap_prompts=[
                self._bootstrap_prompt(turns[episode_id(episode)], episode) for episode in played
            ],
            unplayed=[episode for episode in episodes if not turns[episode_id(episode)]],
            failures=self.pool.failures[failed_before:],
            env_id=self.pool.env_id,
        )

    def _bootstrap_prompt(
        self, turns: Sequence[Turn], episode: Trajectory
    ) -> BootstrapPrompt | None:
        if episode.stop_reason in TERMINAL:
            return None
        system = system_prompt_of(episode)
        return self.policy.bootstrap_prompt(turns, episode.final_state or "", system)

    def _play(self, tasks: Sequence[EpisodeTask]) -> tuple[dict[int, list[Turn]], list[Trajectory]]:
        ids = [task.id for task in tasks]
        if len(set(ids)) < len(ids) or IDLE in ids:
            raise ConfigError("every episode of a batch must have an id of its own, from 0 on")
        self.policy.texts = self.pool.texts  # another collector may share the policy
        self.pool.texts.clear()
        self.policy.turns.clear()
        batches = self._begin()
        self.pool.assign(tasks)
        turns: dict[int, list[Turn]] = {id: [] for id in ids}
        finished: dict[int, Trajectory] = {}
        try:
            while len(finished) < len(ids):
                self._gather(next(batches), turns)
                finished |= self.pool.take_finished()
                if self._on_end:
                    self._on_end(len(finished))
        except BaseException:
            self._batches = None
            raise
        finally:  # nobody will take replies that are on their way, or go on with what was said
            self.policy.abandon()
        return turns, [finished[id] for id in sorted(ids)]

    def _begin(self) -> Iterator[TensorDictBase]:
        """Return the collector's batches; begin anew if the last one was broken off."""
        if self.pool.is_closed:
            raise ConfigError(
                "whoever plays here has been closed, as cleanup() does; build another trainer, "
                "which goes on with config.checkpoint.resume = True"
            )
        if self._batches is None:
            self.pool.abandon()
            self._collector.reset()
            self._batches = iter(self._collector)
        return self._batches

    def _gather(self, batch: TensorDictBase, turns: dict[int, list[Turn]]) -> None:
        """Sort what moved into its episode; rows run down ``batch``, time along it."""
        handles = batch["turn"].T.reshape(-1)
        for turn in self.policy.turns.read(handles[handles > 0].tolist()):
            turns[turn.episode].append(turn)

    def close(self) -> None:
        """End the collector, the pool and its workers."""
        self._collector.shutdown()


class Player(Protocol):
    """Who plays: a ``Sampler`` in this process, or several elsewhere behind the same calls."""

    @property
    def policy(self) -> LLMPolicy: ...
    @property
    def env_id(self) -> str | None: ...
    @property
    def has_splits(self) -> bool: ...
    def play(
        self,
        tasks: Sequence[EpisodeTask],
        version: int | None = None,
        *,
        greedy: bool = False,
        held_out: bool = False,
    ) -> Rollout: ...
    def close(self) -> None: ...


def require_version(wanted: int | None, found: int) -> None:
    """Refuse to play episodes of other weights than are there; None is content with any."""
    if wanted is not None and wanted != found:
        raise EngineError(
            f"these episodes must be played with weights of version {wanted}, got version {found}; "
            "publish them first"
        )


class Sampler:
    """Plays named episodes.

    Args:
        policy: The model, with its engine.
        pool: The environments.
        held_out: Other environments to evaluate on; None takes ``pool``.
        isolated_batch_size: Play shards of this many episodes apart; see ``split_tasks``.
        on_end: Called with the number of episodes that have ended, now and then.
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
        """What samples."""
        return self.policy.engine

    @property
    def env_id(self) -> str | None:
        """Of the environments, if they are registered."""
        return self.collector.pool.env_id

    @property
    def has_splits(self) -> bool:
        """Whether the environments know training instances from held-out ones.

        Held-out environments of their own are split already.
        """
        return self.held_out is self.collector and self.collector.pool.has_splits

    def play(
        self,
        tasks: Sequence[EpisodeTask],
        version: int | None = None,
        *,
        greedy: bool = False,
        held_out: bool = False,
    ) -> Rollout:
        """Play ``tasks`` to their ends.

        Args:
            tasks: Which episodes.
            version: Of the weights they are to be played with; None for those that are there.
            greedy: Take the most likely token each time.
            held_out: Play in the held-out environments.
        """
        require_version(version, self.engine.version)
        collector = self.held_out if held_out else self.collector
        with self.policy.greedily() if greedy else nullcontext():
            return join_rollouts(
                [self._play(collector, one) for one in split_tasks(tasks, self.isolated_batch_size)]
            )

    def _play(self, collector: EpisodeCollector, shard: list[EpisodeTask]) -> Rollout:
        if self.isolated_batch_size is not None:
            self.engine.forget()
        return collector.collect(shard)

    def close(self) -> None:
        """End environments and engine and free their memory. Safe to call twice."""
        with ExitStack() as ends:
            ends.callback(self.engine.close)
            for collector in dict.fromkeys((self.collector, self.held_out)):
                ends.callback(collector.close)
