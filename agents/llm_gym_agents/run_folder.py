"""``RunFolder``: what a run keeps on disk, and whose folder it is.

``config.json``, ``metrics.*``, ``episodes/``, ``checkpoints/``, ``warm-start/`` and ``final/``. One
process at a time writes there, and none goes on in the folder of a run that it is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from transformers import PreTrainedTokenizerBase

from llm_gym_agents.checkpoint.checkpoints import rank, standing
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.distributed.place import Place
from llm_gym_agents.learn.schedule import HeldOutSuccess
from llm_gym_agents.run.files import RunLock
from llm_gym_agents.run.metrics import MetricsLog
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
        config: Of the run, read when something is written: ``fit`` may still complete it.
        place: Where this process stands; only the leading one writes.
        tokenizer: Its tokens are recorded as text.
    """

    def __init__(
        self, config: ConfigStore, place: Place, tokenizer: PreTrainedTokenizerBase
    ) -> None:
        settings = config.checkpoint
        self._config, self._place = config, place
        self.path = Path(settings.output_dir)
        self.checkpoints = place.checkpoints(
            self.path / "checkpoints",
            keep_last_n=settings.keep_last_n,
        )
        self.recorder = place.recorder(
            self.path, settings.record_every, RECORDED_EPISODES, TokenTexts(tokenizer)
        )
        self._lock = RunLock(self.path)
        self._is_own = settings.resume

    def lock(self) -> None:
        """Keep other runs out until ``release``."""
        self._place.take(self._lock)

    def release(self) -> None:
        """Let others in. Safe to call twice."""
        self._lock.release()

    def goes_on_from(self, checkpoint: str | Path) -> None:
        """Note what the run was loaded from: only a checkpoint in here makes the folder its own."""
        self._is_own = Path(checkpoint).resolve().is_relative_to(self.path.resolve())

    @contextmanager
    def open(self, iteration: int) -> Iterator[MetricsLog]:
        """Yield the log of the run after ``iteration``; the folder of another run is refused."""
        log = self._place.log(
            self.path,
            resume_after=iteration if self._is_own else None,
            wandb_project=self._config.checkpoint.wandb_project,
            config=self._config.to_dict(),
        )
        self._is_own = True
        with log, closing(self.recorder):
            # Only now is it sure that no other run lives in this folder.
            if self._place.leads:
                self._config.save(self.path / "config.json")
            self.checkpoints.drop_after(iteration)
            yield log

    def holds_no_better(self, now: HeldOutSuccess | None) -> bool:
        """Whether weights of this success are to be saved because none here did as well."""
        return bool(now and self.checkpoints.is_best(now.success, now.low))

    def export_best_model(self, start: HeldOutSuccess | None) -> Path | None:
        """Make ``final`` the model that the run ends with; return its checkpoint, if any.

        ``start`` is the success that the warm start had: a run that lost it goes back there.
        """
        wanted = self._config.checkpoint.end_with_best
        best = (self.checkpoints.best() if wanted else None) or self.checkpoints.latest()
        held = standing(best) if wanted and best is not None else None
        if start is not None and held is not None and rank(start.success, start.low) > held:
            best = self.path / WARM_START
        if best is not None:
            self.checkpoints.put_apart(best, self.path / FINAL)
        return best
