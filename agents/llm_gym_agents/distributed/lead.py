"""``Lead``: what one process does for all that learn together, with weights that all of them hold.

Players on actors are driven by one process, the leading one. Meanwhile the others wait for what
comes of it, and lend a hand: weights that are spread over the processes can only be brought
together by all of them, and the leading one needs them at moments that nobody knows beforehand,
such as when an actor was lost in the middle of a batch. In a run of one process all of this is
nothing but a call.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Generic, NamedTuple, TypeVar

from torch import Tensor
from transformers import PreTrainedModel

from llm_gym.errors import LLMGymError
from llm_gym_agents.engines.base import EngineError
from llm_gym_agents.learn.single_process import SingleProcess
from llm_gym_agents.model.weights import is_sharded, served_weights

T = TypeVar("T")
_WEIGHTS, _WAIT = "weights", "wait"
BEAT_S = 20.0
"""Seconds after which those who wait are told that somebody is still at work."""


class _Said(NamedTuple, Generic[T]):
    """How the work ended."""

    value: T | None = None
    error: LLMGymError | None = None


class Lead:
    """One process leads, the others follow.

    Args:
        ranks: The processes.
        lm: The model whose weights they hold.
    """

    def __init__(self, ranks: SingleProcess, lm: PreTrainedModel) -> None:
        self._ranks, self._lm = ranks, lm
        self._gathers = ranks.world > 1 and is_sharded(lm)
        self._beat = time.monotonic()

    @property
    def leads(self) -> bool:
        """Whether this process does the work."""
        return self._ranks.is_main

    def do(self, work: Callable[[], T]) -> T:
        """Do ``work`` in the leading process; what it returned or raised comes out in all."""
        said: _Said[T] = self._work(work) if self.leads else self._follow()
        if said.error is not None:
            raise said.error
        return said.value  # type: ignore[return-value]

    def _work(self, work: Callable[[], T]) -> _Said[T]:
        said: _Said[T]
        try:
            said = _Said(work())
        except LLMGymError as error:
            said = _Said(error=error)
        except Exception as error:
            with suppress(RuntimeError):  # who is gone needs no telling
                self._ranks.broadcast(_Said(error=EngineError(f"the leading process: {error!r}")))
            raise
        self._ranks.broadcast(said)
        return said

    def _follow(self) -> _Said[T]:
        said: Any = None
        while not isinstance(said, _Said):
            said = self._ranks.broadcast(None)
            if said == _WEIGHTS:
                for _ in served_weights(self._lm):
                    pass
        return said

    @contextmanager
    def weights(self) -> Iterator[Iterator[tuple[str, Tensor]]]:
        """Within this block of ``do`` the present weights can be read, one after the other."""
        if self._gathers:
            self._ranks.broadcast(_WEIGHTS)
        named = served_weights(self._lm)
        try:
            yield named
        finally:
            for _ in named if self._gathers else ():  # the others go through all of them
                pass

    def still_at_work(self) -> None:
        """Tell those who wait so, now and then: they give up on a process that says nothing."""
        now = time.monotonic()
        if self._ranks.world > 1 and now - self._beat > BEAT_S:
            self._beat = now
            self._ranks.broadcast(_WAIT)
