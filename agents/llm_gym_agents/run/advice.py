"""``Advisor``: says when a run cannot learn, with the number that shows it and what to change.

It looks at rows of metrics and nothing else. A sign has to hold for ``PATIENCE`` iterations, or it
is noise; each is said once, and again only after it had gone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from llm_gym_agents.run.metrics import CRITIC_ONLY, ENTROPY, KL

PATIENCE = 3
"""Iterations that a sign has to hold."""
ADVICE = "advice/"
"""In front of the name of a sign that holds, in the metrics."""
UNUSABLE, CUT, FLAT_GROUPS, FAILED = 0.9, 0.95, 0.95, 0.5
STILL_KL, WILD_KL = 1e-7, 1.0
NO_ENTROPY = 1e-3
WILD_ENTROPY = 0.98
WILD_VALUE = 5.0

Row = Mapping[str, float]
Rows = Sequence[Row]


class Sign(NamedTuple):
    """Something that keeps a run from learning."""

    name: str
    shows: Callable[[Rows], float | None]
    """From the last rows to the number that shows it, or None where all is well."""
    says: str
    """The sentence; ``{}`` is the number."""


class Advice(NamedTuple):
    """A sentence about a run."""

    name: str
    sentence: str


def _holds(
    name: str,
    is_bad: Callable[[float], bool],
    *,
    unless: Callable[[Row], bool] = lambda row: False,
    shown: str | None = None,
) -> Callable[[Rows], float | None]:
    """Return a look at rows that shows a number where a metric is bad in all of them.

    Args:
        name: The metric.
        is_bad: What a value must be in every row.
        unless: A row in which it is no fault.
        shown: The metric whose last value is shown, if not ``name``.
    """

    def shows(rows: Rows) -> float | None:
        bad = [row for row in rows if name in row and is_bad(row[name]) and not unless(row)]
        return rows[-1][shown or name] if len(bad) == len(rows) else None

    return shows


def _above(name: str, limit: float) -> Callable[[Rows], float | None]:
    return _holds(name, lambda value: value > limit)


_no_spread = _holds(
    "reward/std",
    lambda spread: spread <= 1e-9,
    # A batch that always wins has nothing to learn either.
    unless=lambda row: row.get("episode/success") == 1.0,
    shown="reward/mean",
)
_still = _holds(
    KL,
    lambda value: abs(value) < STILL_KL,
    # The only step of an iteration is measured before it is taken: its KL is 0 in any run. And who
    # waits for the critic is not to move.
    unless=lambda row: row.get("train/steps", 2) <= 1 or row.get(CRITIC_ONLY, 0.0) > 0,
)
_certain = _holds(
    ENTROPY,
    lambda value: value < NO_ENTROPY,
    unless=lambda row: row.get("episode/success", 0.0) >= 0.9,
)


def _wild_values(rows: Rows) -> float | None:
    """The mean value where it is far from what it is trained to be."""
    off = []
    for row in rows:
        if not {"value/mean", "value/target_mean", "reward/mean"} <= row.keys():
            return None
        scale = max(1.0, abs(row["reward/mean"]), row.get("reward/std", 0.0))
        off.append(abs(row["value/mean"]) / scale)
    return rows[-1]["value/mean"] if min(off) > WILD_VALUE else None


def signs(vocabulary: int | None = None) -> tuple[Sign, ...]:
    """Return every sign; ``vocabulary`` bounds the entropy."""
    most = math.log(vocabulary) * WILD_ENTROPY if vocabulary else math.inf
    return (
        Sign("no_spread", _no_spread,
             "every episode of the last batches had the reward {:.3g}, so there is nothing to "
             "choose from: let it imitate moves that win (--warm-start.player solver, or file), "
             "take an easier environment, or shape the reward (--environment.env-kwargs "
             "shaping=true)"),
        Sign("unusable", _above("episode/invalid", UNUSABLE),
             "{:.0%} of the replies cannot be used: let it imitate legal moves "
             "(--warm-start.player random), or for longer (--warm-start.rounds), or tell it the "
             "format (--environment.env-kwargs action_format=tag)"),
        Sign("cut", _above("episode/cut_replies", CUT),
             "{:.0%} of the replies were cut at inference.max_tokens: raise it"),
        Sign("certain", _certain,
             "the entropy is {:.2g}, so the model always says the same: raise "
             "training.entropy_coef or lower training.learning_rate, and begin anew"),
        Sign("random", _above(ENTROPY, most),
             "the entropy is {:.2g}, as high as it can be, so the model says anything: lower "
             "training.entropy_coef, or warm-start the model"),
        Sign("still", _still,
             "the policy does not move (KL {:.1g}): raise training.learning_rate, or see why the "
             "rewards do not differ"),
        Sign("wild", _above(KL, WILD_KL),
             "the policy jumps (KL {:.2g} in one update): lower training.learning_rate, or set "
             "training.kl_early_stop"),
        Sign("values", _wild_values,
             "the values have run away to {:.3g}: lower training.value_learning_rate or "
             "training.gamma"),
        Sign("groups", _above("group/no_spread", FLAT_GROUPS),
             "{:.0%} of the groups score all the same, and teach nothing: raise "
             "training.group_size, or choose starts of middling difficulty"),
        Sign("failing", _above("episode/failed", FAILED),
             "{:.0%} of the episodes failed in their environment: play one by hand "
             "(llm-gym play), check it (llm-gym check), or give it environment.workers"),
    )  # fmt: skip


class Advisor:
    """Looks at every row of a run.

    Args:
        vocabulary: Tokens of the model, which bound its entropy; None where they are not known.
        patience: Iterations that a sign has to hold.
    """

    def __init__(self, vocabulary: int | None = None, patience: int = PATIENCE) -> None:
        self._signs, self._patience = signs(vocabulary), patience
        self._rows: list[Row] = []
        self._holding: set[str] = set()

    def look(self, row: Row) -> list[Advice]:
        """Return what is to be said after ``row`` that was not said before."""
        self._rows = [*self._rows, dict(row)][-self._patience :]
        if len(self._rows) < self._patience:
            return []
        found = {sign.name: (sign, sign.shows(self._rows)) for sign in self._signs}
        shown = {name: (sign, at) for name, (sign, at) in found.items() if at is not None}
        new = [name for name in shown if name not in self._holding]
        self._holding = set(shown)
        return [Advice(name, shown[name][0].says.format(shown[name][1])) for name in new]

    def catch_up(self, rows: Rows) -> None:
        """Look at the rows of a run that goes on, and say nothing."""
        self._rows, self._holding = [], set()
        for row in rows:
            self.look(row)

    @property
    def metrics(self) -> dict[str, float]:
        """The signs that hold now, for the row of metrics."""
        return {f"{ADVICE}{name}": 1.0 for name in sorted(self._holding)}
