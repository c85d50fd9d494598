"""``GroupPublisher``: keeps every actor on the weights that are trained."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod

from transformers import PreTrainedModel

from llm_gym_agents.distributed.samplers import SamplerGroup
from llm_gym_agents.engines.weight_check import Probe
from llm_gym_agents.learn.publish import CHECKED, PROBE_GAP, PUBLISH_SECONDS, probe_is_due


class AwakePublisher(ABC):
    """Publishes to actors that play on while the learner learns: it notes that they fall behind."""

    _outdated = False

    @property
    @abstractmethod
    def version(self) -> int:
        """Of the weights that the actors have."""

    @abstractmethod
    def publish(self, version: int) -> dict[str, float]:
        """Give every actor the present weights."""

    def sleep_until_published(self) -> None:
        """Note that the weights will change; the actors go on with theirs."""
        self._outdated = True

    def publish_if_outdated(self) -> None:
        """Publish what an update that was broken off, or failed, has left."""
        if self._outdated:
            self.publish(self.version)


class GroupPublisher(AwakePublisher):
    """``Publisher`` for a group of actors.

    Args:
        group: Who plays.
        lm: The model that is trained.
        probed: Whether the actors compute with another program than the learner, and are compared.
    """

    def __init__(self, group: SamplerGroup, lm: PreTrainedModel, *, probed: bool) -> None:
        self._group = group
        self._probe = Probe(lm) if probed else None
        self._pushes = 0

    @property
    def version(self) -> int:
        """Of the weights that the actors have."""
        return self._group.version

    def publish(self, version: int) -> dict[str, float]:
        """Give every actor the present weights; return what it took, and how the group does."""
        start = time.perf_counter()
        found: dict[str, float] = {CHECKED: self._group.push(version)}
        self._pushes += 1
        if self._probe is not None and probe_is_due(self._pushes, self._group.proven):
            found[PROBE_GAP] = self._probe.check(self._group.engine)  # type: ignore[arg-type]
        self._outdated = False
        found[PUBLISH_SECONDS] = time.perf_counter() - start
        return found | self._group.watch.metrics

    def empty_cache(self) -> None:
        """Empty what engines have cached, so that a resumed run computes the same bits."""
        self._group.forget()
