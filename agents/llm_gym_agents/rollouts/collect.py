"""Collecting named episodes with TorchRL's ``Collector``.

``EpisodeCollector.collect(tasks)`` plays exactly those episodes and returns them in id order,
however long each took. The collector moves all rows of the pool; rows that have no episode left
are idle, rows whose reply is not there yet stay where they are, and both are dropped here.
Nothing of one batch reaches into the next, so every token was sampled by the weights that were
current when ``collect`` was called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tensordict import TensorDictBase
from torchrl.collectors import Collector

from llm_gym.core.outcome import TERMINAL
from llm_gym.episodes import Trajectory
from llm_gym.episodes.play import address, system_prompt_of
from llm_gym.errors import ConfigError
from llm_gym_agents.rollouts.policy import LLMPolicy
from llm_gym_agents.rollouts.pool import TextEnvPool
from llm_gym_agents.rollouts.tasks import IDLE, EpisodeTask
from llm_gym_agents.rollouts.turns import Closing, Rollout, Turn, episode_id

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
            closings=[self._closing(turns[episode_id(episode)], episode) for episode in played],
            unplayed=[episode for episode in episodes if not turns[episode_id(episode)]],
            failures=self.pool.failures[failed_before:],
            env_id=self.pool.env_id,
        )

    def _closing(self, turns: Sequence[Turn], episode: Trajectory) -> Closing | None:
        if episode.stop_reason in TERMINAL:
            return None
        system = system_prompt_of(episode)
        return self.policy.closing(turns, episode.final_state or "", system)

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
