"""A discrete-event simulation of a run: players, one learner, and what travels between them.

An iteration deals lots of episodes to players, one message at a time; a player plays its lot; the
learner's process takes in what comes back, one message at a time; when all of it is there the
learner learns, and its weights go to every player. With ``staleness`` k the lots of the next k
iterations are dealt before those of this one are waited for, so players go on while it learns.

``simulate`` counts what every part is busy with, and so says what the others wait for. Costs are
those that ``scaling.py`` measures; nothing here knows Ray.
"""

from __future__ import annotations

import heapq
import math
import random
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Seconds of each part."""

    deal_s: float
    """Of the learner's process, to hand out a lot."""
    take_s: float
    """Of the learner's process, to take in a lot that was played."""
    latency_s: float
    """From one process to another and back, besides."""
    play_s: float
    """Of a player, for a lot: the mean."""
    spread: float
    """Standard deviation of the logarithm of that."""
    learn_s: float
    """Of the learner, for a batch."""
    broadcast_s: float
    """From the last step to weights in every player."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a simulated run came to."""

    seconds: float
    lots_per_s: float
    busy: dict[str, float]
    """Share of the time that each part worked; of players, their mean."""

    @property
    def bottleneck(self) -> str:
        """The part that the others wait for."""
        return max(self.busy, key=lambda name: self.busy[name])


def simulate(
    costs: Costs, *, players: int, lots: int, iterations: int = 8, staleness: int = 0, seed: int = 0
) -> Outcome:
    """Return how ``iterations`` of ``lots`` each go with so many players."""
    draw = random.Random(seed)
    mean_log = math.log(costs.play_s) - costs.spread**2 / 2 if costs.play_s else 0.0
    free = [(0.0, player) for player in range(players)]
    heapq.heapify(free)
    home = 0.0  # when the learner's process has done what it was last given
    busy = {"players": 0.0, "learner": 0.0, "driver": 0.0, "broadcast": 0.0}
    waiting: list[list[float]] = []
    dealt = 0
    for iteration in range(iterations):
        while dealt < min(iterations, iteration + staleness + 1):
            back = []
            for _ in range(lots):
                begin, player = heapq.heappop(free)
                home += costs.deal_s
                took = draw.lognormvariate(mean_log, costs.spread) if costs.play_s else 0.0
                start = max(home + costs.latency_s / 2, begin)
                end = start + took
                busy["players"] += took
                heapq.heappush(free, (end, player))
                back.append(end + costs.latency_s / 2)
            busy["driver"] += lots * costs.deal_s
            waiting.append(sorted(back))
            dealt += 1
        for arrived in waiting.pop(0):
            home = max(home, arrived) + costs.take_s
        busy["driver"] += lots * costs.take_s
        home += costs.learn_s + costs.broadcast_s
        busy["learner"] += costs.learn_s
        busy["broadcast"] += costs.broadcast_s
        if not staleness:  # nobody plays with old weights
            free = [(max(at, home), player) for at, player in free]
            heapq.heapify(free)
    seconds = home
    busy["players"] /= players
    return Outcome(
        seconds=seconds,
        lots_per_s=lots * iterations / seconds,
        busy={name: value / seconds for name, value in busy.items()},
    )


def as_row(found: Outcome) -> dict[str, Any]:
    """Return an outcome for a result file."""
    return {
        "lots_per_s": round(found.lots_per_s, 3),
        "busy": {name: round(share, 4) for name, share in found.busy.items()},
        "bottleneck": found.bottleneck,
    }
