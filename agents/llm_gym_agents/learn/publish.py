"""Publish new weights to the engine: push, clear caches, verify checksums, probe."""

from __future__ import annotations

import time
from typing import Protocol

from transformers import PreTrainedModel

from llm_gym_agents.engines.base import Engine
from llm_gym_agents.engines.weight_check import Probe, WeightCheck
from llm_gym_agents.model.weights import is_sharded, served_weights

PROBE_GAP = "engine/probe_gap"
CHECKED = "engine/weights_checked"
"""Metric: weights whose checksums in the engine were compared with those pushed."""
PUBLISH_SECONDS = "time/publish_s"
PROBED_FIRST, PROBED_EVERY = 4, 8
"""The first pushes are probed, then one in so many; all of them where checksums cannot be read."""


class WeightPublisher(Protocol):
    """Keeps an engine, or many actors, on the trained weights."""

    @property
    def version(self) -> int:
        """Version of the weights that they have."""

    def publish_if_outdated(self) -> None:
        """Publish if an interrupted or failed update left the weights changed."""

    def sleep_until_published(self) -> None:
        """Called before the weights change."""

    def publish(self, version: int) -> dict[str, float]:
        """Publish the current weights; return metrics."""


class Publisher:
    """Keeps one engine on the trained weights."""

    def __init__(self, engine: Engine, lm: PreTrainedModel) -> None:
        self.engine, self.lm = engine, lm
        spread = is_sharded(lm)
        self._shares = engine.shares_model and not spread
        # A sharded model can be read only through its learner.
        self._probe = None if engine.shares_model or spread else Probe(lm)
        self._check = WeightCheck(engine.packed_weights)
        self._outdated = False
        self._pushes = 0
        self.version = engine.version
        """Version of the weights that the engine has."""

    def sleep_until_published(self) -> None:
        """Let the engine sleep while the weights change."""
        self._outdated = True
        self.engine.sleep()

    def publish_if_outdated(self) -> None:
        """Publish if an interrupted or failed update left the weights changed."""
        if self._outdated:
            self.publish(self.version)

    def publish(self, version: int) -> dict[str, float]:
        """Push the current weights to the engine; return metrics."""
        start = time.perf_counter()
        self.engine.wake()
        found: dict[str, float] = {}
        if self._shares:
            self.engine.update_weights(self.lm.named_parameters(), version)
        else:
            checked = self._check.push(self.engine, served_weights(self.lm), version)
            if not self.engine.shares_model:
                found[CHECKED] = checked
            self._pushes += 1
            if self._probe is not None and probe_is_due(self._pushes, self._check.proven):
                found[PROBE_GAP] = self._probe.check(self.engine)
            found[PUBLISH_SECONDS] = time.perf_counter() - start
        self.version, self._outdated = version, False
        return found

    def empty_cache(self) -> None:
        """Empty the engine's caches, so that a resumed run computes the same bits.

        Only an engine that shares the trainer's model is held to that.
        """
        if self.engine.shares_model:
            self.publish(self.version)


def probe_is_due(pushes: int, proven: bool) -> bool:
    """Whether push number ``pushes`` is probed, which takes longer than the push."""
    return pushes <= PROBED_FIRST or pushes % PROBED_EVERY == 0 or not proven
