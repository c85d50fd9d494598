"""``RunFolder``: what a run keeps on disk.

``config.json``, ``metrics.jsonl``, ``tensorboard/``, ``episodes/``, ``checkpoints/``,
``warm-start/`` and ``final/``. One process at a time writes there, and the folder of another run
is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from llm_gym_agents.config import ConfigStore
from llm_gym_agents.distributed.model_card import model_card
from llm_gym_agents.learn.schedule import HeldOutSuccess
from llm_gym_agents.learn.single_process import SingleProcess
from llm_gym_agents.rollouts.recorder import RolloutRecorder
from llm_gym_agents.run.checkpoints import standing
from llm_gym_agents.run.files import RunLock
from llm_gym_agents.run.metrics import MetricsLog, read_metrics
from llm_gym_agents.text.codec import TokenTexts

RECORDED_EPISODES = 4
"""Most episodes of one record."""
WARM_START = "warm-start"
"""The checkpoint of a warm start."""
FINAL = "final"
"""The model that a run ended with."""


class RunFolder:
    """The folder of one run. Nothing is written before ``lock``.

    Args:
        config: Of the run. It is read when something is written: ``fit`` may still complete it.
        ranks: The processes of the run; only the main one writes.
        tokenizer: Turns recorded tokens into text.
    """

    def __init__(
        self, config: ConfigStore, ranks: SingleProcess, tokenizer: PreTrainedTokenizerBase
    ) -> None:
        settings = config.checkpoint
        self._config, self._ranks = config, ranks
        self.path = Path(settings.output_dir)
        self.checkpoints = ranks.checkpoints(
            self.path / "checkpoints",
            keep_last_n=settings.keep_last_n,
        )
        self.recorder = RolloutRecorder(
            self.path,
            settings.record_every,
            RECORDED_EPISODES,
            TokenTexts(tokenizer),
            writes=ranks.is_main,
        )
        self._lock = RunLock(self.path)
        self._is_own = settings.resume

    def lock(self) -> None:
        if self._ranks.is_main:
            self._lock.acquire()

    def release(self) -> None:
        self._lock.release()

    def resumed_from(self, checkpoint: str | Path) -> None:
        """Note the loaded checkpoint: the folder is the run's own only if it lies in here."""
        self._is_own = Path(checkpoint).resolve().is_relative_to(self.path.resolve())

    @contextmanager
    def open(self, iteration: int) -> Iterator[MetricsLog]:
        """Yield the log of the run after ``iteration``; the folder of another run is refused."""
        log = self._ranks.log(
            self.path,
            resume_after=iteration if self._is_own else None,
            tracker=self._config.checkpoint.tracker,
            config=self._config.to_dict(),
        )
        self._is_own = True
        with log:
            # ``MetricsLog`` has refused the folder of another run by now.
            if self._ranks.is_main:
                self._config.save(self.path / "config.json")
            self.checkpoints.drop_after(iteration)
            yield log

    def is_best(self, now: HeldOutSuccess | None) -> bool:
        """Whether this held-out success beats every checkpoint here."""
        return bool(now and self.checkpoints.is_best(now.success, now.low))

    def best(self, start: HeldOutSuccess | None) -> Path | None:
        """Return the best checkpoint that was evaluated, if any.

        ``start`` is the success after the warm start: if no checkpoint reaches it, the warm start
        is the best.
        """
        best = self.checkpoints.best()
        held = None if best is None else standing(best)
        if start is not None and (held is None or start.rank > held):
            return self.path / WARM_START
        return best

    def export_best_model(
        self, start: HeldOutSuccess | None, warm_start: Mapping[str, float] | None
    ) -> Path | None:
        """Copy the model of the best checkpoint to ``final``; return that checkpoint, if any."""
        best = self.checkpoints.latest()
        if self._config.checkpoint.end_with_best and self._config.environment.eval_interval:
            best = self.best(start) or best
        if best is not None:
            card = model_card(self._config, read_metrics(self.path), warm_start, best.name)
            self.checkpoints.put_apart(best, self.path / FINAL, card)
        return best
