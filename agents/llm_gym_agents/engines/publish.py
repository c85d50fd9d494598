"""Publish new weights to the engine: push, clear caches, verify checksums, probe."""

import time
from abc import ABC, abstractmethod

from transformers import PreTrainedModel

from llm_gym_agents.engines.base import Engine
from llm_gym_agents.engines.weight_check import Probe, WeightCheck
from llm_gym_agents.model.weights import is_sharded, served_weights

PROBE_GAP = "engine/probe_gap"
CHECKED = "engine/weights_checked"
"""Metric: weights whose checksums in the engine were compared with those pushed."""
PUBLISH_SECONDS = "time/publish_s"
PROBED_FIRST, PROBED_EVERY = 4, 8
"""The first pushes are probed, then every n-th push; every push if checksums cannot be read."""


class WeightPublisher(ABC):
    """Keeps an engine, or many actors, on the trained weights."""

    version = 0
    """Version of the published weights."""
    _outdated = False
    _pushes = 0

    def sleep_until_published(self) -> None:
        """Called before the weights change."""
        self._outdated = True

    def publish_if_outdated(self) -> None:
        """Publish if an interrupted or failed update left the weights changed."""
        if self._outdated:
            self.publish(self.version)

    def publish(self, version: int) -> dict[str, float]:
        found = self._publish(version)
        self.version, self._outdated = version, False
        return found

    @abstractmethod
    def _publish(self, version: int) -> dict[str, float]: ...

    @abstractmethod
    def empty_cache(self) -> None:
        """Empty prefix caches, so that a resumed run computes the same bits."""

    def _probe_is_due(self, proven: bool) -> bool:
        """Whether to probe after this push; a probe takes longer than a push."""
        self._pushes += 1
        return self._pushes <= PROBED_FIRST or self._pushes % PROBED_EVERY == 0 or not proven


class Publisher(WeightPublisher):
    """Keeps one engine on the trained weights."""

    def __init__(self, engine: Engine, lm: PreTrainedModel) -> None:
        self.engine, self.lm = engine, lm
        spread = is_sharded(lm)
        shares = engine.shares_model and not spread  # then nothing is pushed
        self._check = None if shares else WeightCheck(engine.packed_weights)
        # A sharded model can be read only through its learner.
        self._probe = None if engine.shares_model or spread else Probe(lm)
        self.version = engine.version

    def sleep_until_published(self) -> None:
        super().sleep_until_published()
        self.engine.sleep()

    def _publish(self, version: int) -> dict[str, float]:
        start = time.perf_counter()
        self.engine.wake()
        if self._check is None:
            self.engine.update_weights(self.lm.named_parameters(), version)
            return {}
        checked = self._check.push(self.engine, served_weights(self.lm), version)
        found: dict[str, float] = {} if self.engine.shares_model else {CHECKED: checked}
        if self._probe_is_due(self._check.proven) and self._probe is not None:
            found[PROBE_GAP] = self._probe.check(self.engine)
        found[PUBLISH_SECONDS] = time.perf_counter() - start
        return found

    def empty_cache(self) -> None:
        if self.engine.shares_model:  # only such an engine is held to the same bits
            self.publish(self.version)
