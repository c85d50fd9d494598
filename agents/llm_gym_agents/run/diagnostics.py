"""Why a run does not learn, and what to change.

``RunDiagnostics`` reads the metrics during a run; ``final_diagnosis`` reads the evaluations before
and after it.
"""

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
    EXPLAINED_VARIANCE,
    FROM_SOLVER,
    KL,
    TRAIN_SUCCESS,
)

PATIENCE, LONG = 3, 10
"""Minimum iterations of a symptom, and of an intermittent one; shorter is noise."""
ADVICE = "advice/"
"""Prefix of the metric of a current symptom."""

Rows = Sequence[Mapping[str, float]]


class _Row(dict[str, float]):
    """The metrics of an iteration; a missing metric is NaN, so no comparison holds."""

    def __missing__(self, name: str) -> float:
        return math.nan


class Symptom(NamedTuple):
    """A sign that a run does not learn."""

    name: str
    metric: str
    """Metric that shows the symptom."""
    holds: Callable[[_Row], bool]
    sentence: str
    """Message; ``{}`` is the metric's value."""
    patience: int = PATIENCE


def _has_diverged(row: _Row) -> bool:
    """Whether the mean value is more than five times the scale of the rewards."""
    scale = max(1.0, abs(row["reward/mean"]), row["reward/std"])
    return "value/mean" in row and not abs(row["value/mean"]) <= 5 * scale


SYMPTOMS = (
    Symptom(
        "zero_variance",
        "reward/mean",
        # A batch that always wins is no fault.
        lambda row: row["reward/std"] <= 1e-9 and row[TRAIN_SUCCESS] != 1.0,
        "every episode of the last batches had the reward {:.3g}, so there is nothing to "
        "compare: let it imitate winning moves (--warm-start.player solver), take an "
        "easier environment, or shape the reward (--environment.env-kwargs shaping=true)",
    ),
    Symptom(
        "invalid_replies",
        "episode/invalid",
        lambda row: row["episode/invalid"] > 0.9,
        "{:.0%} of the replies cannot be used: let it imitate legal moves (--warm-start.player "
        "random), or for longer (--warm-start.rounds), or tell it the format "
        "(--environment.env-kwargs action_format=tag)",
    ),
    Symptom(
        "truncated_replies",
        "episode/truncated_replies",
        lambda row: row["episode/truncated_replies"] > 0.95,
        "{:.0%} of the replies were cut at inference.max_tokens: raise it",
    ),
    Symptom(
        "entropy_collapse",
        ENTROPY,
        lambda row: row[ENTROPY] < 1e-3 and not row[TRAIN_SUCCESS] >= 0.9,
        "the entropy is {:.2g}, so the model always says the same: raise training.entropy_coef "
        "or lower training.learning_rate, and begin anew",
    ),
    Symptom(
        "no_update",
        KL,
        # The policy stays while the critic warms up, and where rewards do not differ.
        lambda row: abs(row[KL]) < 1e-9 and not row[CRITIC_ONLY] > 0 and row["train/signal"] != 0.0,
        "the policy does not move (KL {:.1g}): raise training.learning_rate, or see why the "
        "rewards do not differ",
    ),
    Symptom(
        "value_divergence",
        "value/mean",
        _has_diverged,
        "the values have diverged to {:.3g}: lower training.value_learning_rate or training.gamma",
    ),
    Symptom(
        "idle_critic",
        EXPLAINED_VARIANCE,
        lambda row: (
            row[EXPLAINED_VARIANCE] < 0.0 and not row[CRITIC_ONLY] > 0 and row[TRAIN_SUCCESS] != 1.0
        ),
        "the critic explains nothing of the returns ({:.2g} of their variance) and hardly counts: "
        "do without one (--training.adv-estimator reinforce_plus_plus, or grpo)",
        LONG,
    ),
    Symptom(
        "zero_variance_groups",
        "group/zero_variance",
        lambda row: row["group/zero_variance"] > 0.95,
        "{:.0%} of the groups have equal rewards and teach nothing: raise training.group_size, "
        "or choose starts of middling difficulty",
    ),
    Symptom(
        "env_failures",
        "episode/failed",
        lambda row: row["episode/failed"] > 0.5,
        "{:.0%} of the episodes failed in their environment: play one by hand (llm-gym play), "
        "check it (llm-gym check), or give it environment.workers",
    ),
)


class RunDiagnostics:
    """Finds symptoms in the rows of a run. Each is reported once.

    Args:
        vocabulary: Size of the vocabulary, which bounds the entropy.
    """

    def __init__(self, vocabulary: int) -> None:
        most = Symptom(
            "max_entropy",
            ENTROPY,
            lambda row: row[ENTROPY] > 0.98 * math.log(vocabulary),
            "the entropy is {:.2g}, the highest possible, so the model says anything: lower "
            "training.entropy_coef, or warm-start the model",
        )
        self.symptoms = (*SYMPTOMS, most)
        self._rows: list[_Row] = []
        self._holding: set[str] = set()
        self._reported: set[str] = set()

    def update(self, row: Mapping[str, float]) -> dict[str, str]:
        """Return the symptoms that are new after ``row``: name and sentence."""
        self._rows = [*self._rows, _Row(row)][-LONG:]
        holding = [
            each
            for each in self.symptoms
            if len(self._rows) >= each.patience
            and all(map(each.holds, self._rows[-each.patience :]))
        ]
        new = [each for each in holding if each.name not in self._reported]
        self._holding = {each.name for each in holding}
        self._reported |= self._holding
        return {each.name: each.sentence.format(self._rows[-1][each.metric]) for each in new}

    def catch_up(self, rows: Rows) -> None:
        """Read the rows of a resumed run without reporting anything."""
        self._rows, self._holding, self._reported = [], set(), set()
        for row in rows:
            self.update(row)

    @property
    def metrics(self) -> dict[str, float]:
        """The current symptoms, for the row of metrics."""
        return {f"{ADVICE}{name}": 1.0 for name in sorted(self._holding)}


# --- after the run ---------------------------------------------------------------------------


GAINED, GOOD = 0.2, 0.9
"""A gain in success, and a final success, that need no diagnosis."""
NEAR = 0.05
"""A success this close to the solver's counts as solved."""
EASIER = 0.01
"""How much more a random player wins at an easier level."""
APART, FEW = 0.1, 5
"""Overfitting: training success is this far above held-out success, over this many iterations."""
RISING = 0.03
"""A curve still rises if its last third is this much above the second."""


def final_diagnosis(
    before: Evaluation, after: Evaluation, rows: Rows, *, embedded: bool = False
) -> str | None:
    """Return a sentence about a run that gained little; None if it gained enough."""
    gain = after.success - before.success
    if gain >= GAINED or after.success >= GOOD or _earns_more(before, after):
        return None
    if before.without_outcome + after.without_outcome:
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
    last = [row[TRAIN_SUCCESS] for row in rows[-FEW:] if TRAIN_SUCCESS in row]
    trained = fmean(last) if last else 0.0
    if trained - after.success >= APART:
        best += f", but {trained:.0%} of what it trains on is won, so it overfits"
    return f"{found}{best}: {', or '.join(_remedies(after.env_id, known, rows, embedded))}"


def _earns_more(before: Evaluation, after: Evaluation) -> bool:
    """Whether the return of an environment without wins has clearly grown."""
    if before.success or after.success:
        return False
    first, last = ([e.total_reward for e in each.episodes] for each in (before, after))
    if min(len(first), len(last)) < 2:
        return False
    noise = math.sqrt(stdev(first) ** 2 / len(first) + stdev(last) ** 2 / len(last))
    more = fmean(last) - fmean(first)
    return more > 4 * noise and more > abs(fmean(first)) / 2


def _remedies(
    env_id: str | None, known: Mapping[str, Score], rows: Rows, embedded: bool
) -> list[str]:
    remedies = []
    curve = [row[EVAL_SUCCESS] for row in rows if EVAL_SUCCESS in row]
    third = len(curve) // 3
    if third and fmean(curve[-third:]) - fmean(curve[-2 * third : -third]) > RISING:
        remedies.append("it was still rising, so train longer (--training.num-epochs)")
    if easier := _easier(env_id, known):
        remedies.append(f"begin with an easier level ({easier})")
    if any(row.get(FROM_SOLVER) for row in rows):
        remedies.append("imitate the solver for longer (--warm-start.steps)")
    elif "solver" in known:
        remedies.append("imitate the solver first (--warm-start.player solver)")
    if embedded:
        remedies.append("take a model that knows words and numbers (--model.model-name)")
    return remedies or ["raise training.batch_size, or shape the reward"]


def _easier(env_id: str | None, known: Mapping[str, Score]) -> str | None:
    """Return the easiest level of the same game, unless it is this one."""
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
