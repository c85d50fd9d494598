"""``MetricsLog``: one row of numbers per iteration, in every form somebody may want to read.

``metrics.jsonl`` is the record: a row is one line, written at once. ``metrics.csv`` is the same
for spreadsheets and is never read back (TorchRL's ``CSVLogger`` writes a file per metric instead,
which no spreadsheet opens as a table), ``tensorboard/`` for TensorBoard where it is installed, and
Weights & Biases is told where it was asked for. Names are ``group/name``; those below are read by
the progress display and the curve.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import math
import numbers
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from llm_gym.errors import ConfigError, install_command
from llm_gym_agents.run.files import write_atomically

ITERATION = "iteration"
FROM_SOLVER = "warm_start/from_solver"
"""Whether the warm start imitated a solver."""
EVAL_SUCCESS = "eval/success"
TRAIN_SUCCESS = "episode/success"
RETURN = "reward/mean"
RETURN_SPREAD = "reward/std"
ENV_RETURN = "reward/env"
"""The environment's own, where a reward function has said otherwise."""
EVAL_RETURN = "eval/return"
KL = "policy/kl"
ENTROPY = "policy/entropy"
CRITIC_ONLY = "train/critic_only"
"""Whether the policy was left alone, while the critic warms up."""
EXPLAINED_VARIANCE = "value/explained_variance"
TOKENS_PER_SECOND = "time/tokens_per_s"
ELAPSED = "time/elapsed_s"
"""Seconds of training so far, over every process that had a part in it."""

JSONL = "metrics.jsonl"
CSV = "metrics.csv"
TENSORBOARD = "tensorboard"

Row = dict[str, float]


class MetricsLog:
    """Writes metrics of a run to its folder.

    Args:
        folder: The run's folder.
        resume_after: Keep the rows up to this iteration and go on from there. None begins a new
            run, which a folder with rows of another one refuses.
        tensorboard: Whether to write TensorBoard's files; None does if it is installed.
        wandb_project: Weights & Biases project to log to as well.
        config: Shown there beside the numbers.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        resume_after: int | None = None,
        tensorboard: bool | None = None,
        wandb_project: str | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.folder = Path(folder)
        found = read_metrics(self.folder)
        if found and resume_after is None:
            raise ConfigError(
                f"{self.folder} must be a new folder, got one with metrics up to iteration "
                f"{found[-1][ITERATION]:.0f}; resume that run or choose another folder"
            )
        self.rows: list[Row] = [
            row for row in found if resume_after is not None and row[ITERATION] <= resume_after
        ]
        """Every row so far, oldest first."""
        self._columns = _columns(self.rows)
        write_atomically(self.folder / JSONL, "".join(map(_json_line, self.rows)))
        self._rewrite_csv()
        self._board = _board(self.folder, tensorboard, resume_after)
        self._wandb = None
        if wandb_project is not None:
            from llm_gym_agents.run.wandb_log import WandbLog

            self._wandb = WandbLog(wandb_project, self.folder, config)

    def log(self, iteration: int, metrics: Mapping[str, Any]) -> None:
        """Write one row. Iterations only ever grow, and a row is never changed."""
        last = int(self.rows[-1][ITERATION]) if self.rows else -1
        if iteration <= last:
            raise ConfigError(
                f"the iteration of a row must be above the last one, {last}, got {iteration}"
            )
        row: Row = {
            ITERATION: iteration,
            **{name: _number(name, metrics[name]) for name in metrics},
        }
        self.rows.append(row)
        with (self.folder / JSONL).open("a", encoding="utf-8") as file:
            file.write(_json_line(row))
        new = [name for name in row if name not in self._columns]
        self._columns += new
        if new:
            self._rewrite_csv()
        else:
            with (self.folder / CSV).open("a", encoding="utf-8", newline="") as file:
                file.write(_csv_lines([row], self._columns))
        self._tell_others(iteration, {name: row[name] for name in row if name != ITERATION})

    def _tell_others(self, iteration: int, metrics: Row) -> None:
        if self._board is not None:
            for name, value in metrics.items():
                self._board.add_scalar(name, value, iteration)
            self._board.flush()
        if self._wandb is not None:
            self._wandb.log(iteration, metrics)

    def _rewrite_csv(self) -> None:
        """Write the whole file: a header cannot grow in place. New columns go to the right."""
        header = ",".join(self._columns) + "\n" if self._columns else ""
        write_atomically(self.folder / CSV, header + _csv_lines(self.rows, self._columns))

    def close(self) -> None:
        """Close what is open. Safe to call twice."""
        if self._board is not None:
            self._board.close()
        if self._wandb is not None:
            self._wandb.close()
        self._board = self._wandb = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_metrics(folder: str | Path) -> list[Row]:
    """Return the rows of a run, oldest first; none if there is no file.

    A last line that a power cut left unfinished is passed over.
    """
    path = Path(folder) / JSONL
    if not path.exists():
        return []
    lines = path.read_text("utf-8").split("\n")
    rows = []
    for number, line in enumerate(lines[:-1], start=1):
        try:
            given = json.loads(line).items()
            rows.append({name: _finite_or_named(value) for name, value in given})
        except (ValueError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"line {number} of {path} must be a row of metrics, got {line!r}"
            ) from error
    return rows


def timing(
    start: float,
    played: float,
    updated: float,
    end: float,
    *,
    sampled: int,
    read: int,
    all_s: float,
) -> Row:
    """Return what an iteration took, from the moments at which its parts were done.

    Args:
        start: When it began.
        played: When its episodes were over.
        updated: When it had learned from them.
        end: When everything was done.
        sampled: Tokens that were sampled.
        read: Tokens that were learned from, prompts included.
        all_s: Seconds of the whole run so far.
    """
    return {
        "time/collect_s": played - start,
        "time/update_s": end - played,
        "time/collect_tokens_per_s": sampled / (played - start),
        "time/update_tokens_per_s": read / (updated - played),
        TOKENS_PER_SECOND: sampled / (end - start),
        ELAPSED: all_s,
    }


def named(row: Row, per_epoch: int) -> Row:
    """Return a row with its epoch, of ``per_epoch`` iterations, and short names of the losses.

    >>> named({"iteration": 3, "loss/policy": 0.5}, per_epoch=2)
    {'epoch': 1, 'policy_loss': 0.5, 'iteration': 3, 'loss/policy': 0.5}
    """
    short = {"policy_loss": "loss/policy", "value_loss": "loss/value"}
    own = {ours: row[name] for ours, name in short.items() if name in row}
    return {"epoch": (int(row[ITERATION]) - 1) // per_epoch, **own, **row}


def term(name: str) -> str:
    """Return the metric of a part of a reward, which others name as they like.

    >>> term("goal"), term("goal reached, at last"), term("mean")
    ('reward/goal', 'reward/goal_reached_at_last', 'reward/mean_')
    """
    found = "reward/" + ("_".join(re.findall(r'[^\s,"]+', name)) or "_")
    return f"{found}_" if found in (RETURN, RETURN_SPREAD, ENV_RETURN) else found


def _number(name: str, value: Any) -> float:
    if not re.fullmatch(r"[a-z0-9_]+/\S+", name) or "," in name or '"' in name:
        raise ConfigError(f"the name of a metric must look like loss/policy, got {name!r}")
    if isinstance(value, numbers.Integral):
        return int(value)
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(f"the metric {name} must be one number, got {value!r}") from error


def _finite_or_named(value: Any) -> float:
    """Return a number as it is, and NaN or infinity from its name."""
    return value if isinstance(value, int | float) else float(value)


def _columns(rows: Iterable[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _json_line(row: Row) -> str:
    """Return a row as one line of JSON, in which NaN and infinity are text."""
    plain = {
        name: value if math.isfinite(value) else str(value).replace("inf", "Infinity")
        for name, value in row.items()
    }
    return json.dumps(plain) + "\n"


def _csv_lines(rows: Iterable[Row], columns: list[str]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writerows(rows)
    return text.getvalue()


def _board(folder: Path, wanted: bool | None, resume_after: int | None) -> Any:
    if wanted is None:
        wanted = importlib.util.find_spec("tensorboard") is not None
    if not wanted:
        return None
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise ConfigError(
            f"TensorBoard files need tensorboard. Install it with: {install_command('train')}"
        ) from error
    # TensorBoard cannot take back what it has written, but hides what comes after this step.
    purge = None if resume_after is None else resume_after + 1
    return SummaryWriter(str(folder / TENSORBOARD), purge_step=purge)
