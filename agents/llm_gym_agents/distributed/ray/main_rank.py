"""``MainRank``: work that the main process does for all processes of the learner.

Ray actors are driven by the main process. Meanwhile the others wait for its result, and help to
gather weights: sharded weights can only be gathered by all processes together, and the main one
needs them at moments that the others cannot foresee, such as after the loss of an actor. In a run
of one process ``run_on_main`` is a plain call.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Generic, NamedTuple, TypeVar

from torch import Tensor
from transformers import PreTrainedModel

from llm_gym.core.errors import LLMGymError
from llm_gym_agents.engines.base import EngineError
from llm_gym_agents.learn.single_process import SingleProcess
from llm_gym_agents.model.weights import is_sharded, served_weights

T = TypeVar("T")
_WEIGHTS, _WAIT = "weights", "wait"
HEARTBEAT_S = 20.0
"""Seconds between two messages to the processes that wait."""


class _Outcome(NamedTuple, Generic[T]):
    value: T | None = None
    error: LLMGymError | None = None


class MainRank:
    """Runs work in the main process of ``ranks``, which hold the weights of ``lm``."""

    def __init__(self, ranks: SingleProcess, lm: PreTrainedModel) -> None:
        self._ranks, self._lm = ranks, lm
        self._gathers = ranks.world > 1 and is_sharded(lm)
        self._last_beat = time.monotonic()

    def run_on_main(self, work: Callable[[], T]) -> T:
        """Run ``work`` in the main process; return or raise its outcome in every process."""
        outcome: _Outcome[T] = self._work(work) if self._ranks.is_main else self._follow()
        if outcome.error is not None:
            raise outcome.error
        return outcome.value  # type: ignore[return-value]

    def _work(self, work: Callable[[], T]) -> _Outcome[T]:
        outcome: _Outcome[T]
        try:
            outcome = _Outcome(work())
        except LLMGymError as error:
            outcome = _Outcome(error=error)
        except Exception as error:
            with suppress(RuntimeError):  # the others may be gone
                self._ranks.broadcast(_Outcome(error=EngineError(f"the main process: {error!r}")))
            raise
        self._ranks.broadcast(outcome)
        return outcome

    def _follow(self) -> _Outcome[T]:
        message: Any = None
        while not isinstance(message, _Outcome):
            message = self._ranks.broadcast(None)
            if message == _WEIGHTS:
                for _ in served_weights(self._lm):
                    pass
        return message

    @contextmanager
    def weights(self) -> Iterator[Iterator[tuple[str, Tensor]]]:
        """Within this block of ``run_on_main`` the present weights can be read, one by one."""
        if self._gathers:
            self._ranks.broadcast(_WEIGHTS)
        named = served_weights(self._lm)
        try:
            yield named
        finally:
            for _ in named if self._gathers else ():  # the others gather all of them
                pass

    def heartbeat(self) -> None:
        """Tell the waiting processes now and then that work goes on, so that they wait longer."""
        now = time.monotonic()
        if self._ranks.world > 1 and now - self._last_beat > HEARTBEAT_S:
            self._last_beat = now
            self._ranks.broadcast(_WAIT)
