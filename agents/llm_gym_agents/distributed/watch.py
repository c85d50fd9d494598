"""``GroupWatch``: how a group of actors does, under the names of metrics."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import NamedTuple

from llm_gym_agents.distributed.members import Member
from llm_gym_agents.engines.base import EngineError
from llm_gym_agents.rollouts.turns import Rollout

MOST_NAMED = 16
"""Actors with columns of their own; of more, only the slowest and the mean are told."""
_log = logging.getLogger(__name__)


class Staleness(NamedTuple):
    """How many versions the weights that sampled a batch lag behind those that learn from it."""

    mean: float
    """Over tokens."""
    most: int


def staleness_of(rollout: Rollout, version: int, allowed: int) -> Staleness:
    """Return how old a batch is; refuse one that is older than ``allowed``."""
    lags = [(version - turn.version, len(turn.reply_ids)) for own in rollout.turns for turn in own]
    most = max((lag for lag, _ in lags), default=0)
    if most > allowed:
        raise EngineError(
            f"a batch may be {allowed} versions old (ray.staleness), got tokens that are {most}; "
            "nothing was trained on them"
        )
    tokens = sum(count for _, count in lags)
    return Staleness(sum(lag * count for lag, count in lags) / max(tokens, 1), most)


class GroupWatch:
    """Counts what the actors of a group do between two batches."""

    def __init__(self) -> None:
        self.metrics: dict[str, float] = {}
        """Of the last batch."""
        self.restarts = 0
        self._since = time.monotonic()

    def lost(self, member: Member, why: str) -> None:
        """Note that an actor has to be replaced."""
        self.restarts += 1
        _log.warning("%s is replaced, and plays its episodes again: %s", member.name, why)

    def note(self, members: Sequence[Member], staleness: Staleness) -> None:
        """Take the numbers of a batch that has just come together."""
        now = time.monotonic()
        wall, self._since = max(now - self._since, 1e-9), now
        rates = [member.tokens / wall for member in members]
        idle = [max(0.0, 1.0 - member.busy_s / wall) for member in members]
        self.metrics = {
            "ray/actors": len(members),
            "ray/restarts": self.restarts,
            "ray/queued": sum(len(member.lots) for member in members),
            "ray/staleness_mean": staleness.mean,
            "ray/staleness_max": staleness.most,
            "time/actor_tokens_per_s": sum(rates) / len(rates),
            "time/actor_tokens_per_s_least": min(rates),
            "time/actor_idle": sum(idle) / len(idle),
        }
        for member, rate, share in zip(members[:MOST_NAMED], rates, idle, strict=False):
            self.metrics[f"time/actor_{member.index}_tokens_per_s"] = rate
            self.metrics[f"time/actor_{member.index}_idle"] = share
        for member in members:
            member.tokens, member.busy_s = 0, 0.0
