"""What a process does that is not the leading one: the same, without a trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from torch import Tensor

from llm_gym_agents.learn.single_process import SingleProcess
from llm_gym_agents.rollouts.recorder import RolloutRecorder
from llm_gym_agents.rollouts.turns import Rollout
from llm_gym_agents.run.metrics import ITERATION, MetricsLog, Row
from llm_gym_agents.run.process import SigtermListener


class QuietRecorder(RolloutRecorder):
    """Knows when records are due, as all processes have to, and writes none."""

    def record(self, iteration: int, rollout: Rollout, trained: Mapping[str, Tensor]) -> None:
        """Do nothing."""


class QuietLog(MetricsLog):
    """Keeps the rows of a run and writes none.

    Args:
        rows: Those of the leading process.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = list(rows)

    def log(self, iteration: int, metrics: Mapping[str, Any]) -> None:
        """Keep one row."""
        self.rows.append({ITERATION: iteration, **metrics})


class AgreedStop(SigtermListener):
    """A stop that all processes take after the same iteration, whoever heard the signal.

    Args:
        ranks: The processes.
    """

    def __init__(self, ranks: SingleProcess) -> None:
        super().__init__()
        self._ranks, self._heard = ranks, False

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self._heard = True

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Play to the end, which others do too, and agree on whether this iteration is the last."""
        yield
        self.requested = bool(self._ranks.all_max(int(self._heard)))
