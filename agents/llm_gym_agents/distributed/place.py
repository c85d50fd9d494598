"""``Place``: where a process of a run stands, and what it therefore writes and plays.

An ordinary run is one process that does everything. Under ``parallel.mode`` every process runs the
same trainer over the same numbers; the leading one owns the folder and speaks, and the others keep
quiet. Whatever would let two of them part ways is agreed on here: a stop, a failure, a checkpoint.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_gym.episodes import Trajectory
from llm_gym.errors import LLMGymError
from llm_gym_agents.checkpoint import Checkpoints, TrainerState, load_checkpoint, save_checkpoint
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.distributed.checkpoints import RankCheckpoints, save_over_ranks
from llm_gym_agents.distributed.quiet import AgreedStop, QuietLog, QuietRecorder
from llm_gym_agents.distributed.ranks import Ranks, join
from llm_gym_agents.distributed.sampling import settle_over_ranks
from llm_gym_agents.learn.iteration import Settle
from llm_gym_agents.learn.single_process import SINGLE_PROCESS, SingleProcess
from llm_gym_agents.rollouts.recorder import RolloutRecorder
from llm_gym_agents.run.files import RunLock
from llm_gym_agents.run.metrics import MetricsLog
from llm_gym_agents.run.process import SigtermListener

if TYPE_CHECKING:
    from llm_gym_agents.learn.learner import Learner

_LOST = ("Connection closed by", "Connection reset by", "Broken pipe", "Timed out waiting")
"""What gloo says where another process is gone; NCCL's errors have a type of their own."""


class LostRankError(LLMGymError, RuntimeError):
    """A process that learns with this one is gone."""


class Place:
    """The one process of an ordinary run."""

    ranks: SingleProcess = SINGLE_PROCESS

    @staticmethod
    def of(config: ConfigStore) -> Place:
        """Return the place of this process; under ``parallel.mode`` it joins the others."""
        if config.parallel.mode == "none":
            return Place()
        settings = config.parallel
        ranks = join(settings.mode, device=config.model.device)  # type: ignore[arg-type]
        if ranks.device.type == "cuda":
            config.model.device = str(ranks.device)
        return RankPlace(ranks)

    @property
    def leads(self) -> bool:
        """Whether this is the process that writes files and speaks."""
        return self.ranks.is_main

    def checkpoints(self, folder: Path, **how: Any) -> Checkpoints:
        """Return the checkpoints in ``folder``."""
        return Checkpoints(folder, **how)

    def save(self, folder: str | Path, state: TrainerState, **model: Any) -> Path:
        """Write a checkpoint by itself."""
        return save_checkpoint(folder, state, **model)

    def load(self, folder: str | Path, learner: Learner) -> TrainerState:
        """Read a checkpoint for ``learner``."""
        return load_checkpoint(folder)

    def score(self, episodes: list[Trajectory], settle: Settle) -> dict[str, float]:
        """Let ``settle`` say what episodes are worth; return metrics of it."""
        return settle(episodes)

    def recorder(self, *args: Any) -> RolloutRecorder:
        """Return what writes records of training."""
        return RolloutRecorder(*args)

    def log(self, folder: Path, **how: Any) -> MetricsLog:
        """Return what writes metrics."""
        folder.mkdir(parents=True, exist_ok=True)
        return MetricsLog(folder, **how)

    def stop(self) -> SigtermListener:
        """Return what listens to SIGTERM."""
        return SigtermListener()

    def take(self, lock: RunLock) -> None:
        """Take the folder of the run."""
        lock.acquire()

    def watching(self) -> AbstractContextManager[None]:
        """Within this block the loss of another process is said in one sentence."""
        return nullcontext()


class RankPlace(Place):
    """One of several processes.

    Args:
        ranks: All of them.
    """

    def __init__(self, ranks: Ranks) -> None:
        self.ranks: Ranks = ranks

    def checkpoints(self, folder: Path, **how: Any) -> Checkpoints:
        """Return the checkpoints in ``folder``."""
        return RankCheckpoints(folder, self.ranks, **how)

    def save(self, folder: str | Path, state: TrainerState, **model: Any) -> Path:
        """Write a checkpoint by itself."""
        return save_over_ranks(folder, state, ranks=self.ranks, **model)

    def load(self, folder: str | Path, learner: Learner) -> TrainerState:
        """Read a checkpoint for ``learner``: of what is spread, the part of this process."""
        spread = self.ranks.mode == "fsdp"
        return load_checkpoint(folder, learner.like if spread else None)

    def score(self, episodes: list[Trajectory], settle: Settle) -> dict[str, float]:
        """Let ``settle`` say what episodes are worth: each in one process, for all of them."""
        return settle_over_ranks(episodes, settle, self.ranks)

    def recorder(self, *args: Any) -> RolloutRecorder:
        """Return what writes records of training."""
        return RolloutRecorder(*args) if self.leads else QuietRecorder(*args)

    def log(self, folder: Path, **how: Any) -> MetricsLog:
        """Return what writes metrics; elsewhere it only knows them."""
        log = super().log(folder, **how) if self.leads else None
        rows = self.ranks.broadcast(None if log is None else log.rows)
        return log or QuietLog(rows)

    def stop(self) -> SigtermListener:
        """Return what listens to SIGTERM, in any of the processes."""
        return AgreedStop(self.ranks)

    def take(self, lock: RunLock) -> None:
        """Take the folder of the run; the leading process has it for all."""
        if self.leads:
            lock.acquire()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Within this block the loss of another process is said in one sentence."""
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


def leads(config: ConfigStore) -> bool:
    """Whether this process speaks; known before it has joined the others."""
    return config.parallel.mode == "none" or os.environ.get("RANK", "0") == "0"


def agree(config: ConfigStore) -> None:
    """Join the others, if there are any, and train in the folder that the leading one chose.

    Processes that ``torchrun`` has begun again, after one of the group was lost, go on.
    """
    place = Place.of(config)
    folder = place.ranks.broadcast(config.checkpoint.output_dir)
    config.checkpoint.output_dir = folder
    again = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) > 0
    if again and config.parallel.mode != "none":
        config.checkpoint.resume = True
