"""``RankContext``: what one process of a run writes, plays and saves.

An ordinary run is one process that does everything. Under ``parallel.mode`` every process runs the
same trainer on the same numbers (``ranks.context``); only the main one writes files and prints.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_gym.episodes import Trajectory
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.learn.iteration import Settle
from llm_gym_agents.learn.single_process import SINGLE_PROCESS, SingleProcess
from llm_gym_agents.run.checkpoints import (
    Checkpoints,
    TrainerState,
    load_checkpoint,
    save_checkpoint,
)
from llm_gym_agents.run.metrics import MetricsLog
from llm_gym_agents.run.process import SigtermListener

if TYPE_CHECKING:
    from llm_gym_agents.learn.learner import Learner


class RankContext:
    """The context of a run in one process."""

    ranks: SingleProcess = SINGLE_PROCESS

    @property
    def is_main(self) -> bool:
        return self.ranks.is_main

    def checkpoints(self, folder: Path, **options: Any) -> Checkpoints:
        return Checkpoints(folder, **options)

    def save(self, folder: str | Path, state: TrainerState, **model: Any) -> Path:
        return save_checkpoint(folder, state, **model)

    def load(self, folder: str | Path, learner: Learner) -> TrainerState:
        return load_checkpoint(folder)

    def score(self, episodes: list[Trajectory], settle: Settle) -> dict[str, float]:
        """Let ``settle`` set the rewards of ``episodes``; return its metrics."""
        return settle(episodes)

    def log(self, folder: Path, **options: Any) -> MetricsLog:
        folder.mkdir(parents=True, exist_ok=True)
        return MetricsLog(folder, **options)

    def stop(self) -> SigtermListener:
        return SigtermListener()

    def watching(self) -> AbstractContextManager[None]:
        """Within this block the loss of another process raises one clear sentence."""
        return nullcontext()


def is_main(config: ConfigStore) -> bool:
    """Whether this process prints; known before it has joined the others."""
    return config.parallel.mode == "none" or os.environ.get("RANK", "0") == "0"
