"""Handing new weights to the engine: push, forget what was cached, read back, probe."""

from __future__ import annotations

import time
from typing import Protocol

from transformers import PreTrainedModel

from llm_gym_agents.engines.base import Engine
from llm_gym_agents.engines.weight_check import Probe, WeightCheck
from llm_gym_agents.model.weights import is_sharded, served_weights

PROBE_GAP = "engine/probe_gap"
CHECKED = "engine/weights_checked"
"""Weights whose read-back sums were compared with those that were pushed."""
PUBLISH_SECONDS = "time/publish_s"
PROBED_FIRST, PROBED_EVERY = 4, 8
"""Pushes that are probed: the first ones, which show whether the engine computes with what it is
given, and later one in so many, unless the weights could not be proven otherwise."""


class WeightPublisher(Protocol):
    """Keeps whoever plays on the weights that are trained: one engine, or many actors."""

    @property
    def version(self) -> int:
        """Of the weights that they have."""

    def publish_if_outdated(self) -> None:
        """Publish what an update that was broken off, or failed, has left."""

    def sleep_until_published(self) -> None:
        """Be told that the weights will change."""

    def publish(self, version: int) -> dict[str, float]:
        """Give out the present weights; return what is to be known about it."""


class Publisher:
    """Keeps an engine on the weights that are trained."""

    def __init__(self, engine: Engine, lm: PreTrainedModel) -> None:
        self.engine, self.lm = engine, lm
        spread = is_sharded(lm)
        self._shares = engine.shares_model and not spread
        # A model that is spread over processes is read through its learner alone.
        self._probe = None if engine.shares_model or spread else Probe(lm)
        self._check = WeightCheck(engine)
        self._outdated = False
        self._pushes = 0
        self.version = engine.version
        """Of the weights that the engine has; it lags behind while ``sleep_until_published``."""

    def sleep_until_published(self) -> None:
        """Let the engine sleep while the weights change."""
        self._outdated = True
        self.engine.sleep()

    def publish_if_outdated(self) -> None:
        """Publish what an update that was broken off, or failed, has left."""
        if self._outdated:
            self.publish(self.version)

    def publish(self, version: int) -> dict[str, float]:
        """Give the engine the present weights; return what it took, and how well they agree."""
        start = time.perf_counter()
        self.engine.wake()
        found: dict[str, float] = {}
        if self._shares:
            self.engine.update_weights(self.lm.named_parameters(), version)
        else:
            checked = self._check.push(served_weights(self.lm), version)
            if not self.engine.shares_model:
                found[CHECKED] = checked
            self._pushes += 1
            if self._probe is not None and probe_is_due(self._pushes, self._check.proven):
                found[PROBE_GAP] = self._probe.check(self.engine)
            self._check.confirm()
            found[PUBLISH_SECONDS] = time.perf_counter() - start
        self.version, self._outdated = version, False
        return found

    def empty_cache(self) -> None:
        """Empty what the engine has cached, so that a resumed run computes the same bits.

        Only an engine in the trainer's own precision is held to that.
        """
        if self.engine.shares_model:
            self.publish(self.version)


def probe_is_due(pushes: int, proven: bool) -> bool:
    """Whether the last of so many pushes gets a second look, which takes longer than the push."""
    return pushes <= PROBED_FIRST or pushes % PROBED_EVERY == 0 or not proven
