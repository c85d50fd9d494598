"""``RankSampler``: each process plays a part of the tasks and gets the episodes of all.

Tasks are split in order, so the episodes of one group stay together and share a cached prompt. An
episode's seed comes from its own id, so the result does not depend on which process played it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llm_gym.core.errors import LLMGymError
from llm_gym.episodes import Trajectory
from llm_gym_agents.learn.single_process import Settle, SingleProcess
from llm_gym_agents.rollouts.rewards import reward_metrics
from llm_gym_agents.rollouts.sampler import Player
from llm_gym_agents.rollouts.tasks import EpisodeTask
from llm_gym_agents.rollouts.turns import Rollout, join_rollouts


class RankSampler:
    """Plays as a ``Sampler`` does, together with the samplers (``own``) of other processes."""

    def __init__(self, own: Player, ranks: SingleProcess) -> None:
        self._own, self._ranks = own, ranks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def play(
        self, tasks: Sequence[EpisodeTask], version: int | None = None, **options: bool
    ) -> Rollout:
        """Play ``tasks`` to the end; a failure in one process is raised in all."""
        first, last = rank_slice(len(tasks), self._ranks.rank, self._ranks.world)
        found: Rollout | LLMGymError
        try:
            found = Rollout([], [], [], [], [])
            if first < last:
                found = self._own.play(tasks[first:last], version, **options)
        except LLMGymError as error:
            found = error
        parts = self._ranks.all_gather(found)
        for each in parts:
            if isinstance(each, LLMGymError):
                raise each
        return join_rollouts(parts)._replace(env_id=self._own.env_id)


def settle_over_ranks(
    episodes: Sequence[Trajectory], settle: Settle, ranks: SingleProcess
) -> dict[str, float]:
    """Score each episode in one process, and share all rewards with every process."""
    first, last = rank_slice(len(episodes), ranks.rank, ranks.world)
    own = list(episodes[first:last])
    found: list[tuple[list[float], Any]] | LLMGymError
    try:
        settle(own)
        found = [(episode.rewards, episode.extra) for episode in own]
    except LLMGymError as error:
        found = error
    at = iter(episodes)
    for each in ranks.all_gather(found):
        if isinstance(each, LLMGymError):
            raise each
        for rewards, extra in each:
            episode = next(at)
            episode.rewards, episode.extra = rewards, extra
    return reward_metrics(episodes)


def rank_slice(items: int, rank: int, world: int) -> tuple[int, int]:
    """Return the first and the last-plus-one item of one process.

    >>> [rank_slice(7, rank, 3) for rank in range(3)]
    [(0, 2), (2, 4), (4, 7)]
    """
    return rank * items // world, (rank + 1) * items // world
