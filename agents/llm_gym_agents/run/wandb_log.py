"""Weights & Biases: the only file that imports ``wandb``."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from llm_gym.errors import ConfigError
from llm_gym_agents.run.files import write_atomically

RUN_ID = "wandb_run_id"


class WandbLog:
    """A run at Weights & Biases, the same one after every resume.

    Args:
        project: Its project there.
        folder: The run's folder, where its id is kept.
        config: Shown beside the numbers.
    """

    def __init__(self, project: str, folder: Path, config: Mapping[str, Any] | None = None) -> None:
        try:
            import wandb  # type: ignore[import-not-found, unused-ignore]
        except ImportError as error:
            raise ConfigError(
                "checkpoint.wandb_project needs wandb. Install it with: pip install wandb"
            ) from error
        self._run: Any = wandb.init(
            project=project,
            dir=str(folder),
            config=dict(config or {}),
            id=_run_id(folder),
            resume="allow",
        )

    def log(self, iteration: int, metrics: Mapping[str, float]) -> None:
        """Send one row."""
        self._run.log(dict(metrics), step=iteration)

    def close(self) -> None:
        """Send what is left and end the run."""
        self._run.finish()


def _run_id(folder: Path) -> str:
    path = folder / RUN_ID
    if not path.exists():
        write_atomically(path, secrets.token_hex(4))
    return path.read_text("utf-8").strip()
