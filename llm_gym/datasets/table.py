"""``Table``: a data set, checked once from end to end and then read row by row.

Opening reads every row: whether it can be used, whether its own answer is graded right in the
format that players write, and which split it is in. A row that fails is named at once. Tables of
files are shared: ``n`` environments of a process read them once.

``shuffled`` computes the order of the rows instead of storing it, with a small Feistel network. So
it takes no memory, and is the same in every process and with every version of NumPy.
"""

from __future__ import annotations

import os
import threading
from array import array
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from llm_gym.core import splits
from llm_gym.core.errors import ConfigError, RecordError
from llm_gym.core.settings import get_format
from llm_gym.core.splits import stable_hash
from llm_gym.datasets.files import open_source
from llm_gym.datasets.graders import Grader
from llm_gym.datasets.rows import ColumnNames, DatasetRow, read_row
from llm_gym.reading.formats import drop_thinking

_ROUNDS = 4


def shuffled(position: int, size: int, key: int = 0) -> int:
    """Return the row at ``position`` of an endless walk over ``size`` rows.

    Positions 0 to ``size`` - 1 visit every row once, the next ``size`` positions visit every row
    once more in another order, and so on for ever. ``key`` chooses the orders.

    >>> [shuffled(position, 5) for position in range(10)]
    [0, 2, 1, 3, 4, 4, 2, 1, 3, 0]
    """
    turn, row = divmod(position, size)
    half = max(2, ((size - 1).bit_length() + 1) // 2)
    while True:
        row = _mix(row, half, f"{key} {turn}")
        if row < size:
            return row


def _mix(number: int, half: int, key: str) -> int:
    """Return another number of ``2 * half`` bits; different numbers stay different."""
    mask = (1 << half) - 1
    left, right = number >> half, number & mask
    for turn in range(_ROUNDS):
        noise = stable_hash(f"{key} {turn} {right}", 64)
        left, right = right, left ^ (noise & mask)
    return left << half | right


_KEPT = 8  # tables of files kept open for the next environment


@dataclass(frozen=True)
class ReadOptions:
    """How the rows of a data set are read."""

    columns: ColumnNames
    grader: Grader
    action_format: str = "plain"
    """Every answer must be readable after it is written in this format."""
    max_answer_chars: int = 4000
    limit: int | None = None


class Table:
    """The rows of a data set; ``open_table`` makes it."""

    def __init__(self, dataset: Any, plan: ReadOptions) -> None:
        self.plan, self._format = plan, get_format(plan.action_format)
        self._source = open_source(dataset, split_column=plan.columns.split, limit=plan.limit)
        self.longest = 0
        """Characters of the longest prompt."""
        self.multiline = False
        """Whether an answer has more than one line."""
        self._index()

    @property
    def name(self) -> str:
        return self._source.name

    def __len__(self) -> int:
        return len(self._codes)

    def count(self, split: str | None) -> int:
        """Return how many rows are in ``split``; None is all of them."""
        return len(self._rows(split))

    def at(self, position: int, split: str | None, key: int | None) -> int:
        """Return the number of the row at ``position`` of a walk through ``split``.

        The walk is endless and visits every row once per pass: in an order that ``key`` chooses,
        or in the order of the file where it is None.
        """
        rows = self._rows(split)
        at = position % len(rows) if key is None else shuffled(position, len(rows), key)
        return int(rows[at])

    def fetch(self, number: int) -> DatasetRow:
        return self._read(self.data(number))

    def data(self, number: int) -> Any:
        return self._source.data(number)

    def __deepcopy__(self, memo: dict[int, Any]) -> Table:
        return self  # nothing in it ever changes

    def __reduce__(self) -> tuple[Any, ...]:
        return open_table, (self._source.origin, self.plan)

    # --- opening ---------------------------------------------------------------------------

    def _index(self) -> None:
        questions, codes = array("Q"), bytearray()
        declared: bool | None = None
        for number in range(len(self._source)):
            data = self.data(number)
            try:
                row = self._read(data)
                self._check_answers(row)
                if declared is not None and declared is not (row.split is not None):
                    raise ValueError(
                        "a row must have a split where others have one; fill it in, or pass "
                        "split_column=None to split by content"
                    )
            except ValueError as error:
                raise RecordError(f"{self._source.where(number)}: {error}") from error
            declared = row.split is not None
            question = row.question_id()
            questions.append(int(question, 16))
            codes.append(splits.SPLITS.index(row.split or splits.split_of(question)))
            self.longest = max(self.longest, len(row.prompt) + len(row.system))
        if not codes:
            raise ConfigError(f"{self.name} has no rows")
        self._codes = np.frombuffer(bytes(codes), dtype=np.uint8)
        self._numbers = {
            split: np.flatnonzero(self._codes == code) for code, split in enumerate(splits.SPLITS)
        }
        if declared:
            self._refuse_leaks(np.frombuffer(questions, dtype=np.uint64))

    def _read(self, data: Any) -> DatasetRow:
        return read_row(data, self.plan.columns, raw_answers=not self.plan.grader.trusted)

    def _check_answers(self, row: DatasetRow) -> None:
        """Play every accepted answer: it must be read as it was meant, and be right."""
        grader, form = self.plan.grader, self._format
        if not grader.trusted:
            return
        for answer in row.answers:
            key = grader.key(answer, row.choices)
            move = grader.say(answer, key)
            if len(move) > self.plan.max_answer_chars:
                raise ValueError(
                    f"an answer must have at most {self.plan.max_answer_chars} characters, got "
                    f"{len(move)}"
                )
            if form.parse(drop_thinking(form.render(move))) != move:
                raise ValueError(
                    f"the answer {move!r:.60} cannot be written in action_format={form.name!r}; "
                    "choose another, such as 'json'"
                )
            value = grader.value(move, row.choices)
            if value is None or grader.score(value, key) < 1.0:
                raise ValueError(f"the answer {answer!r:.60} is not graded as right")
            self.multiline = self.multiline or "\n" in move

    def _refuse_leaks(self, questions: np.ndarray[Any, np.dtype[np.uint64]]) -> None:
        order = np.argsort(questions, kind="stable")
        same = questions[order[1:]] == questions[order[:-1]]
        leaks = np.flatnonzero(same & (self._codes[order[1:]] != self._codes[order[:-1]]))
        if len(leaks):
            first, second = (int(order[leaks[0] + at]) for at in (0, 1))
            both = " and ".join(splits.SPLITS[self._codes[row]] for row in (first, second))
            raise RecordError(
                f"{self._source.where(second)}: the question is in two splits "
                f"({both}), also at {self._source.where(first)}; remove one, or pass "
                "split_column=None to split by content"
            )

    # --- rows ------------------------------------------------------------------------------

    def _rows(self, split: str | None) -> Sequence[int] | np.ndarray[Any, np.dtype[np.int64]]:
        if split is None:
            return range(len(self))
        if not len(self._numbers[split]):
            counts = ", ".join(f"{len(rows)} {name}" for name, rows in self._numbers.items())
            raise ConfigError(
                f"{self.name} has no {split} rows, it has {counts}; with few rows, name their "
                "splits in a column"
            )
        return self._numbers[split]


_tables: dict[Hashable, Table] = {}
_lock = threading.Lock()


def open_table(dataset: Any, plan: ReadOptions) -> Table:
    """Return the table of ``dataset``; equal settings and an unchanged file share one table."""
    stamp = _fingerprint(dataset)
    if stamp is None or not isinstance(plan.grader, Hashable):
        return Table(dataset, plan)
    key = (stamp, plan)
    with _lock:
        if key not in _tables:
            table = Table(dataset, plan)
            while len(_tables) >= _KEPT:
                del _tables[next(iter(_tables))]
            _tables[key] = table
        return _tables[key]


def _fingerprint(dataset: Any) -> Hashable | None:
    """Return a value that changes with the files of ``dataset``; None without files."""
    if isinstance(dataset, Mapping):
        parts = [(split, _fingerprint(part)) for split, part in dataset.items()]
        return None if any(part is None for _, part in parts) else tuple(parts)
    if not isinstance(dataset, (str, os.PathLike)) or not os.path.isfile(dataset):
        return None
    found = os.stat(dataset)
    return os.path.abspath(dataset), found.st_mtime_ns, found.st_size
