"""``Checkpoints``: the checkpoints of a run, of which the last few and the best are kept."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_gym.errors import ConfigError
from llm_gym_agents.checkpoint.folder import MANIFEST, new_folder, remove, sweep
from llm_gym_agents.checkpoint.state import MODEL, VALUES, TrainerState, save_checkpoint

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Checkpoints:
    """The checkpoints in one folder: ``iteration-000120``, ..., and ``best-000080``.

    The best is a folder of its own, named anew each time: so there is always one that is whole.
    Its files are hard links where the disk has them and cost nothing.

    Args:
        folder: Where they lie. One run at a time may write there.
        keep_last_n: How many are kept besides the best.
        save_best: Whether the one with the highest success is kept.
    """

    def __init__(self, folder: str | Path, *, keep_last_n: int = 3, save_best: bool = True) -> None:
        if keep_last_n < 1:
            raise ConfigError(f"keep_last_n must be at least 1, got {keep_last_n}")
        self.folder, self.keep_last_n, self.save_best = Path(folder), keep_last_n, save_best

    def save(self, state: TrainerState, *, lm: PreTrainedModel, tokenizer: Any = None) -> Path:
        """Write a checkpoint of ``state.iteration``, and remove those that are not kept."""
        for kind in ("iteration", "best"):
            sweep(self.folder, f"{kind}-*")
        place = self._write(self._place(state), state, lm=lm, tokenizer=tokenizer)
        best = self.best()
        if self.save_best and best is not None and best.name.startswith("iteration"):
            _link(best, self.folder / f"best-{number(best):06d}")
        for old in self._places("best")[:-1]:
            remove(old)
        for old in self._places("iteration")[: -self.keep_last_n]:
            remove(old)
        return place

    def _place(self, state: TrainerState) -> Path:
        return self.folder / f"iteration-{state.iteration:06d}"

    def _write(self, place: Path, state: TrainerState, **model: Any) -> Path:
        return save_checkpoint(place, state, **model)

    def latest(self) -> Path | None:
        """Return the newest checkpoint, or None."""
        return next(reversed(self._places("iteration")), None)

    def best(self) -> Path | None:
        """Return the checkpoint with the highest success, the earliest of equals, or None.

        Highest is the one whose interval has the highest lower end: a few lucky episodes are no
        match for many. It looks among the others too: a run may have been killed before its best
        was put apart.
        """
        places = [*self._places("best"), *self._places("iteration")]
        known = [(place, found) for place in places if (found := standing(place)) is not None]
        if not known:
            return None
        return max(known, key=lambda each: (each[1], -number(each[0])))[0]

    def is_best(self, success: float | None, low: float | None = None) -> bool:
        """Whether ``success``, of that lower end, is above that of every model that was saved."""
        best = self.best()
        held = None if best is None else standing(best)
        return success is not None and (held is None or rank(success, low) > held)

    def put_apart(self, source: Path, place: Path) -> None:
        """Make ``place`` the model of the checkpoint ``source``, a folder that anything loads."""
        _link(source / MODEL, place)

    def drop_after(self, iteration: int) -> None:
        """Remove checkpoints later than ``iteration``, from which a run goes on another way."""
        for kind in ("iteration", "best"):
            for place in self._places(kind):
                if number(place) > iteration:
                    remove(place)

    def _places(self, kind: str) -> list[Path]:
        """Return the whole checkpoints of a kind, oldest first."""
        found = [
            path
            for path in self.folder.glob(f"{kind}-*")
            if re.fullmatch(rf"{kind}-\d+", path.name) and (path / MANIFEST).is_file()
        ]
        return sorted(found, key=number)


def number(place: Path) -> int:
    """Return the iteration of a checkpoint."""
    return int(place.name.rpartition("-")[2])


def standing(place: Path) -> tuple[float, float] | None:
    """Return what a checkpoint's success is ranked by; None if its model was not evaluated."""
    values = json.loads((place / VALUES).read_text("utf-8"))
    if values["success"] is None:
        return None
    return rank(values["success"], values.get("success_low"))


def rank(success: float, low: float | None) -> tuple[float, float]:
    """Return what models are compared by: the lower end of the interval, and then the success."""
    return (success if low is None else low, success)


def _link(source: Path, place: Path) -> None:
    with new_folder(place) as new:
        shutil.copytree(source, new, copy_function=_hard_link, dirs_exist_ok=True)


def _hard_link(source: str, target: str) -> str:
    if Path(source).name == MANIFEST:  # ``new_folder`` writes its own
        return target
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    return target
