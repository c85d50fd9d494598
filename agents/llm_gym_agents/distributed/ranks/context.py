"""``GroupContext``: one of several processes that learn together.

Processes must never disagree about a stop, a failure or a checkpoint, so these are agreed on here.
A process that is not the main one does the same as the main one and writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from llm_gym.core.errors import LLMGymError
from llm_gym.episodes import Trajectory
from llm_gym_agents.distributed.context import RankContext
from llm_gym_agents.distributed.ranks.checkpoints import RankCheckpoints, save_sharded
from llm_gym_agents.distributed.ranks.process_group import ProcessGroup
from llm_gym_agents.distributed.ranks.sampling import settle_over_ranks
from llm_gym_agents.learn.iteration import Settle
from llm_gym_agents.learn.single_process import SingleProcess
from llm_gym_agents.run.checkpoints import Checkpoints, TrainerState, load_checkpoint
from llm_gym_agents.run.metrics import ITERATION, MetricsLog, Row
from llm_gym_agents.run.process import SigtermListener

if TYPE_CHECKING:
    from llm_gym_agents.learn.learner import Learner

_LOST = ("Connection closed by", "Connection reset by", "Broken pipe", "Timed out waiting")
"""What gloo says where another process is gone; NCCL's errors have a type of their own."""


class LostRankError(LLMGymError, RuntimeError):
    """Another process of the learner is gone."""


class GroupContext(RankContext):
    """The context of one process of a ``ProcessGroup``."""

    def __init__(self, ranks: ProcessGroup) -> None:
        self.ranks: ProcessGroup = ranks

    def checkpoints(self, folder: Path, **options: Any) -> Checkpoints:
        return RankCheckpoints(folder, self.ranks, **options)

    def save(self, folder: str | Path, state: TrainerState, **model: Any) -> Path:
        return save_sharded(folder, state, ranks=self.ranks, **model)

    def load(self, folder: str | Path, learner: Learner) -> TrainerState:
        """Read a checkpoint for ``learner``: of sharded tensors, this process's part."""
        sharded = self.ranks.mode == "fsdp"
        return load_checkpoint(folder, learner.like if sharded else None)

    def score(self, episodes: list[Trajectory], settle: Settle) -> dict[str, float]:
        """Let ``settle`` set the rewards: each episode in one process, for all of them."""
        return settle_over_ranks(episodes, settle, self.ranks)

    def log(self, folder: Path, **options: Any) -> MetricsLog:
        """Return the writer of metrics; outside the main process it only keeps the rows."""
        log = super().log(folder, **options) if self.is_main else None
        rows = self.ranks.broadcast(None if log is None else log.rows)
        return log or NullLog(rows)

    def stop(self) -> SigtermListener:
        """Return the listener to SIGTERM, in any of the processes."""
        return AgreedStop(self.ranks)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Within this block the loss of another process raises ``LostRankError``."""
        try:
            yield
        except RuntimeError as error:
            lost = type(error).__name__.startswith("Dist") or any(x in str(error) for x in _LOST)
            if not lost:
                raise
            raise LostRankError(
                f"a process that learns with process {self.ranks.rank} of {self.ranks.world} is "
                "gone, and nothing of this iteration was kept; torchrun --max-restarts begins "
                "again from the last checkpoint, and so does llm-gym resume"
            ) from error


class NullLog(MetricsLog):
    """Keeps the rows of a run, beginning with the main process's, and writes none."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = list(rows)

    def log(self, iteration: int, metrics: Mapping[str, Any]) -> None:
        self.rows.append({ITERATION: iteration, **metrics})


class AgreedStop(SigtermListener):
    """A stop that all processes take after the same iteration, whichever heard the signal."""

    def __init__(self, ranks: SingleProcess) -> None:
        super().__init__()
        self._ranks, self._heard = ranks, False

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self._heard = True

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Play to the end, as the others do, and agree on whether this iteration is the last."""
        yield
        self.requested = bool(self._ranks.all_max(int(self._heard)))
