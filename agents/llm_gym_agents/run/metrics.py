"""``MetricsLog``: one row of numbers per iteration.

``metrics.jsonl`` has one line per row, written immediately. TensorBoard files are written if
TensorBoard is installed, and rows also go to wandb or trackio if a tracker is set. Metric names are
``group/name``; the names below are read by the progress display, the curve and the diagnostics.
"""

import importlib
import importlib.util
import json
import math
import numbers
import re
import secrets
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from llm_gym.core.errors import ConfigError, require_package
from llm_gym_agents.run.files import write_atomically

ITERATION = "iteration"
FROM_SOLVER = "warm_start/from_solver"
"""Whether the warm start imitated a solver."""
SOLVER_AT = "warm_start/solver_at"
"""Iterations done when a solver was imitated in the middle of a run."""
EVAL_SUCCESS = "eval/success"
TRAIN_SUCCESS = "episode/success"
RETURN = "reward/mean"
RETURN_SPREAD = "reward/std"
ENV_RETURN = "reward/env"
"""The environment's own return, where a reward function replaced it."""
EVAL_RETURN = "eval/return"
KL = "policy/kl"
ENTROPY = "policy/entropy"
CRITIC_ONLY = "train/critic_only"
"""Whether only the critic was trained: the critic warm-up."""
EXPLAINED_VARIANCE = "value/explained_variance"
TOKENS_PER_SECOND = "time/tokens_per_s"
SAMPLED_TOKENS = "episode/sampled_tokens"
ELAPSED = "time/elapsed_s"
"""Seconds of training so far, summed over every resume."""

JSONL = "metrics.jsonl"
TENSORBOARD = "tensorboard"
TRACKER_RUN_ID = "tracker_run_id"

Row = dict[str, float]


class MetricsSink(Protocol):
    """Another destination of rows."""

    def log(self, iteration: int, row: Row) -> None: ...
    def close(self) -> None: ...


class MetricsLog(AbstractContextManager["MetricsLog"]):
    """Writes the metrics of a run.

    Args:
        folder: The run's folder.
        resume_after: Keep the rows up to this iteration and continue from there. None begins a
            new run; a folder with rows of another run is refused.
        tensorboard: Whether to write TensorBoard files, if it is installed.
        tracker: ``wandb/PROJECT`` or ``trackio/PROJECT``.
        config: Shown by the tracker.
    """

    _sinks: tuple[MetricsSink, ...] = ()

    def __init__(
        self,
        folder: str | Path,
        *,
        resume_after: int | None = None,
        tensorboard: bool = True,
        tracker: str | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self.folder = Path(folder)
        self.rows: list[Row] = []
        """Every row so far, oldest first."""
        if resume_after is None:
            check_unused(self.folder)
        else:
            found = read_metrics(self.folder)
            self.rows = [row for row in found if row[ITERATION] <= resume_after]
        write_atomically(self.folder / JSONL, "".join(map(_json_line, self.rows)))
        if tensorboard and importlib.util.find_spec("tensorboard") is not None:
            self._sinks += (TensorBoardSink(self.folder / TENSORBOARD, resume_after),)
        if tracker is not None:
            self._sinks += (TrackerSink(tracker, self.folder, config or {}),)

    def log(self, iteration: int, metrics: Mapping[str, Any]) -> None:
        values = {name: _number(name, metrics[name]) for name in metrics}
        self.rows.append({ITERATION: iteration, **values})
        with (self.folder / JSONL).open("a", encoding="utf-8") as file:
            file.write(_json_line(self.rows[-1]))
        for sink in self._sinks:
            sink.log(iteration, values)

    def close(self) -> None:
        for sink in self._sinks:
            sink.close()
        self._sinks = ()

    def __exit__(self, *_: object) -> None:
        self.close()


def check_unused(folder: Path) -> None:
    """Raise if ``folder`` holds the metrics of a run."""
    if found := read_metrics(folder):
        raise ConfigError(
            f"{folder} must be a new folder, got one with metrics up to iteration "
            f"{found[-1][ITERATION]:.0f}; resume that run or choose another folder"
        )


class TensorBoardSink:
    """Writes TensorBoard's files; rows after ``resume_after`` are hidden there."""

    def __init__(self, folder: Path, resume_after: int | None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        purge = None if resume_after is None else resume_after + 1
        self._board = SummaryWriter(str(folder), purge_step=purge)

    def log(self, iteration: int, row: Row) -> None:
        for name, value in row.items():
            self._board.add_scalar(name, value, iteration)
        self._board.flush()

    def close(self) -> None:
        self._board.close()


class TrackerSink:
    """A run of wandb or trackio; a resumed run continues it.

    Only this class imports them.
    """

    def __init__(self, tracker: str, folder: Path, config: Mapping[str, Any]) -> None:
        package, _, project = tracker.partition("/")
        require_package(package, "checkpoint.tracker")
        known_id = folder / TRACKER_RUN_ID
        if not known_id.exists():
            write_atomically(known_id, secrets.token_hex(4))
        run = known_id.read_text("utf-8").strip()
        given: dict[str, Any] = {"name": run, "embed": False}
        if package == "wandb":
            given = {"id": run, "dir": str(folder)}
        init = importlib.import_module(package).init
        self._run = init(project=project, config=dict(config), resume="allow", **given)

    def log(self, iteration: int, row: Row) -> None:
        self._run.log(dict(row), step=iteration)

    def close(self) -> None:
        self._run.finish()


def read_metrics(folder: str | Path) -> list[Row]:
    """Return the rows of a run, oldest first; none if there is no file.

    An unfinished last line, as after a power cut, is skipped.
    """
    path = Path(folder) / JSONL
    if not path.exists():
        return []
    lines = path.read_text("utf-8", "replace").split("\n")
    rows = []
    for number, line in enumerate(lines[:-1], start=1):
        try:
            given = json.loads(line).items()  # NaN and infinity are written by their names
            rows.append({n: x if isinstance(x, int | float) else float(x) for n, x in given})
        except (ValueError, TypeError, AttributeError) as error:
            raise ConfigError(
                f"line {number} of {path} must be a row of metrics, got {line!r}"
            ) from error
    return rows


def named(row: Row, per_epoch: int) -> Row:
    """Return a row with its epoch and short names of the losses.

    >>> named({"iteration": 3, "loss/policy": 0.5}, per_epoch=2)
    {'epoch': 1, 'policy_loss': 0.5, 'iteration': 3, 'loss/policy': 0.5}
    """
    short = {"policy_loss": "loss/policy", "value_loss": "loss/value"}
    own = {ours: row[name] for ours, name in short.items() if name in row}
    return {"epoch": (int(row[ITERATION]) - 1) // per_epoch, **own, **row}


def term(name: str) -> str:
    """Return the metric name of a reward term of any name.

    >>> term("goal"), term("goal reached, at last"), term("mean")
    ('reward/goal', 'reward/goal_reached_at_last', 'reward/mean_')
    """
    found = "reward/" + ("_".join(re.findall(r'[^\s,"]+', name)) or "_")
    return f"{found}_" if found in (RETURN, RETURN_SPREAD, ENV_RETURN) else found


def _number(name: str, value: Any) -> float:
    if not re.fullmatch(r"[a-z0-9_]+/[^\s,\"]+", name):
        raise ConfigError(f"the name of a metric must look like loss/policy, got {name!r}")
    if isinstance(value, numbers.Integral):
        return int(value)
    try:
        return float(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ConfigError(f"the metric {name} must be one number, got {value!r}") from error


def _json_line(row: Row) -> str:
    """Return a row as one line of JSON, in which NaN and infinity are text."""
    plain = {
        name: value if math.isfinite(value) else str(value).replace("inf", "Infinity")
        for name, value in row.items()
    }
    return json.dumps(plain) + "\n"
