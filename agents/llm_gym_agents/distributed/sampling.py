"""``RankSampler``: each process plays a part of the tasks, and has what all of them played.

Tasks are cut by their order, so episodes of one group, whose prompt an engine may have cached, stay
together. What comes back is the same whoever played it: an episode is sampled by its own name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llm_gym.episodes import Trajectory
from llm_gym.errors import LLMGymError
from llm_gym_agents.distributed.ranks import Ranks
from llm_gym_agents.learn.iteration import Settle
from llm_gym_agents.rollouts.rewards import reward_metrics
from llm_gym_agents.rollouts.sampler import Player
from llm_gym_agents.rollouts.tasks import EpisodeTask
from llm_gym_agents.rollouts.turns import Rollout, join_rollouts


class RankSampler:
    """Plays as a ``Sampler`` does, together with those of other processes.

    Args:
        own: Plays the part of this process.
        ranks: The processes.
    """

    def __init__(self, own: Player, ranks: Ranks) -> None:
        self._own, self._ranks = own, ranks

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def play(
        self, tasks: Sequence[EpisodeTask], version: int | None = None, **how: bool
    ) -> Rollout:
        """Play ``tasks`` to their ends; what fails in one process fails in all."""
        first, last = part(len(tasks), self._ranks.rank, self._ranks.world)
        found: Rollout | LLMGymError
        try:
            found = Rollout([], [], [], [], [])
            if first < last:
                found = self._own.play(tasks[first:last], version, **how)
        except LLMGymError as error:
            found = error
        parts = self._ranks.everyone(found)
        for each in parts:
            if isinstance(each, LLMGymError):
                raise each
        return join_rollouts(parts)._replace(env_id=self._own.env_id)


def settle_over_ranks(
    episodes: Sequence[Trajectory], settle: Settle, ranks: Ranks
) -> dict[str, float]:
    """Let ``settle`` score each episode in one process; all of them then know every reward."""
    first, last = part(len(episodes), ranks.rank, ranks.world)
    own = list(episodes[first:last])
    found: list[tuple[list[float], Any]] | LLMGymError
    try:
        settle(own)
        found = [(episode.rewards, episode.extra) for episode in own]
    except LLMGymError as error:
        found = error
    at = iter(episodes)
    for each in ranks.everyone(found):
        if isinstance(each, LLMGymError):
            raise each
        for rewards, extra in each:
            episode = next(at)
            episode.rewards, episode.extra = rewards, extra
    return reward_metrics(episodes)


def part(items: int, rank: int, world: int) -> tuple[int, int]:
    """Return where the part of one process begins, and where it ends.

    >>> [part(7, rank, 3) for rank in range(3)]
    [(0, 2), (2, 4), (4, 7)]
    """
    return rank * items // world, (rank + 1) * items // world
