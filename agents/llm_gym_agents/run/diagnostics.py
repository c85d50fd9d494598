"""Says when a run does not learn, with the number that shows it and what to change.

It looks at rows of metrics and nothing else. A sign has to hold for ``PATIENCE`` iterations, or it
is noise; each is said once, and again only after it had gone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, stdev
from typing import NamedTuple

from llm_gym.evaluate.result import Evaluation
from llm_gym.evaluate.scores import Score, published
from llm_gym.registry.suite import ENVS
from llm_gym_agents.run.metrics import (
    CRITIC_ONLY,
    ENTROPY,
    EVAL_SUCCESS,
    FROM_SOLVER,
    KL,
    TRAIN_SUCCESS,
)

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


class Symptom(NamedTuple):
    """Something that keeps a run from learning."""

    name: str
    shows: Callable[[Rows], float | None]
    """From the last rows to the number that shows it, or None where all is well."""
    says: str
    """The sentence; ``{}`` is the number."""


class Diagnosis(NamedTuple):
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


def symptoms(vocabulary: int | None = None) -> tuple[Symptom, ...]:
    """Return every sign; ``vocabulary`` bounds the entropy."""
    most = math.log(vocabulary) * WILD_ENTROPY if vocabulary else math.inf
    return (
        Symptom("no_spread", _no_spread,
             "every episode of the last batches had the reward {:.3g}, so there is nothing to "
             "choose from: let it imitate moves that win (--warm-start.player solver, or file), "
             "take an easier environment, or shape the reward (--environment.env-kwargs "
             "shaping=true)"),
        Symptom("unusable", _above("episode/invalid", UNUSABLE),
             "{:.0%} of the replies cannot be used: let it imitate legal moves "
             "(--warm-start.player random), or for longer (--warm-start.rounds), or tell it the "
             "format (--environment.env-kwargs action_format=tag)"),
        Symptom("cut", _above("episode/cut_replies", CUT),
             "{:.0%} of the replies were cut at inference.max_tokens: raise it"),
        Symptom("certain", _certain,
             "the entropy is {:.2g}, so the model always says the same: raise "
             "training.entropy_coef or lower training.learning_rate, and begin anew"),
        Symptom("random", _above(ENTROPY, most),
             "the entropy is {:.2g}, as high as it can be, so the model says anything: lower "
             "training.entropy_coef, or warm-start the model"),
        Symptom("still", _still,
             "the policy does not move (KL {:.1g}): raise training.learning_rate, or see why the "
             "rewards do not differ"),
        Symptom("wild", _above(KL, WILD_KL),
             "the policy jumps (KL {:.2g} in one update): lower training.learning_rate, or set "
             "training.kl_early_stop"),
        Symptom("values", _wild_values,
             "the values have run away to {:.3g}: lower training.value_learning_rate or "
             "training.gamma"),
        Symptom("groups", _above("group/no_spread", FLAT_GROUPS),
             "{:.0%} of the groups score all the same, and teach nothing: raise "
             "training.group_size, or choose starts of middling difficulty"),
        Symptom("failing", _above("episode/failed", FAILED),
             "{:.0%} of the episodes failed in their environment: play one by hand "
             "(llm-gym play), check it (llm-gym check), or give it environment.workers"),
    )  # fmt: skip


class RunDiagnostics:
    """Looks at every row of a run.

    Args:
        vocabulary: Tokens of the model, which bound its entropy; None where they are not known.
        patience: Iterations that a sign has to hold.
    """

    def __init__(self, vocabulary: int | None = None, patience: int = PATIENCE) -> None:
        self._signs, self._patience = symptoms(vocabulary), patience
        self._rows: list[Row] = []
        self._holding: set[str] = set()

    def look(self, row: Row) -> list[Diagnosis]:
        """Return what is to be said after ``row`` that was not said before."""
        self._rows = [*self._rows, dict(row)][-self._patience :]
        if len(self._rows) < self._patience:
            return []
        found = {sign.name: (sign, sign.shows(self._rows)) for sign in self._signs}
        shown = {name: (sign, at) for name, (sign, at) in found.items() if at is not None}
        new = [name for name in shown if name not in self._holding]
        self._holding = set(shown)
        return [Diagnosis(name, shown[name][0].says.format(shown[name][1])) for name in new]

    def catch_up(self, rows: Rows) -> None:
        """Look at the rows of a run that goes on, and say nothing."""
        self._rows, self._holding = [], set()
        for row in rows:
            self.look(row)

    @property
    def metrics(self) -> dict[str, float]:
        """The symptoms that hold now, for the row of metrics."""
        return {f"{ADVICE}{name}": 1.0 for name in sorted(self._holding)}


GAINED, GOOD = 0.2, 0.9
"""A gain in success, and a success, about which there is nothing to be said."""
NEAR = 0.05
"""How near a solver's success is as good as it."""
EASIER = 0.01
"""How much more a random player wins at a level that is easier."""
APART, FEW = 0.1, 5
"""How far success in training is above held-out success where it is learned by heart, and over how
many iterations it is looked at."""
RISING = 0.03
"""How much higher the last third of a curve is than the one before, where it still rises."""


def final_diagnosis(
    before: Evaluation,
    after: Evaluation,
    rows: Sequence[Mapping[str, float]],
    *,
    embedded: bool = False,
) -> str | None:
    """Return a sentence about a run that gained little; None where it gained enough.

    Args:
        before: Held-out episodes before the first iteration.
        after: The same ones after the last.
        rows: The metrics of every iteration.
        embedded: Whether the model is the built-in one.
    """
    gain = after.success - before.success
    if gain >= GAINED or after.success >= GOOD or _earns_more(before, after):
        return None
    if before.unsaid + after.unsaid:
        return (
            f"{after.env_id} does not say whether an episode is won, and the mean return went from "
            f"{before.mean_return:.3g} to {after.mean_return:.3g}: train longer "
            "(--training.num-epochs), or say what success is (--environment.env-kwargs "
            "success=module:function), so that the best weights are known"
        )
    known = published().get(after.env_id or "", {})
    solver = known.get("solver")
    if solver is not None and after.success >= solver.success - NEAR:
        return (
            f"success is {after.success:.0%} and a solver's is {solver.success:.0%}: there is "
            "nothing left to learn here"
        )
    found = f"success went from {before.success:.0%} to {after.success:.0%}"
    if not any(episode.success for each in (before, after) for episode in each.episodes):
        found = f"none of {len(after.episodes)} held-out episodes is won, before or after"
    best = "" if solver is None else f" (a solver wins {solver.success:.0%})"
    if (trained := _by_heart(after, rows)) is not None:
        best += f", but {trained:.0%} of what it trains on is won, so it learns that by heart"
    return f"{found}{best}: {', or '.join(_ways(after.env_id, known, rows, embedded))}"


def _by_heart(after: Evaluation, rows: Sequence[Mapping[str, float]]) -> float | None:
    """Return the success in training where it is far above that on held-out episodes."""
    last = [row[TRAIN_SUCCESS] for row in rows[-FEW:] if TRAIN_SUCCESS in row]
    trained = fmean(last) if last else 0.0
    return trained if trained - after.success >= APART else None


def _earns_more(before: Evaluation, after: Evaluation) -> bool:
    """Whether an environment that nobody wins pays clearly more than it did."""
    if before.success or after.success:
        return False
    first, last = ([e.total_reward for e in each.episodes] for each in (before, after))
    if min(len(first), len(last)) < 2:
        return False
    noise = math.sqrt(stdev(first) ** 2 / len(first) + stdev(last) ** 2 / len(last))
    more = fmean(last) - fmean(first)
    return more > 4 * noise and more > abs(fmean(first)) / 2


def _ways(
    env_id: str | None,
    known: Mapping[str, Score],
    rows: Sequence[Mapping[str, float]],
    embedded: bool,
) -> list[str]:
    """Return what may help, what is likeliest first."""
    ways = []
    if _rises([row[EVAL_SUCCESS] for row in rows if EVAL_SUCCESS in row]):
        ways.append("it was still rising, so train longer (--training.num-epochs)")
    if easier := _easier(env_id, known):
        ways.append(f"begin with an easier level ({easier})")
    if any(row.get(FROM_SOLVER) for row in rows):
        ways.append("imitate the solver for longer (--warm-start.steps)")
    elif "solver" in known:
        ways.append("imitate the solver first (--warm-start.player solver)")
    if embedded:
        ways.append("take a model that knows words and numbers (--model.model-name)")
    return ways or ["raise training.batch_size, or shape the reward"]


def _rises(curve: Sequence[float]) -> bool:
    third = len(curve) // 3
    return third > 0 and fmean(curve[-third:]) - fmean(curve[-2 * third : -third]) > RISING


def _easier(env_id: str | None, known: Mapping[str, Score]) -> str | None:
    """Return the level of the same game that a random player wins most, if it is not this one."""
    game = {row.id: row.entry_point for row in ENVS}
    wins = {
        each: published()[each]["random"].success
        for each in game
        if game[each] == game.get(env_id or "") and "random" in published().get(each, {})
    }
    if not wins or "random" not in known:
        return None
    easiest = max(wins, key=lambda each: wins[each])
    return easiest if wins[easiest] > known["random"].success + EASIER else None
