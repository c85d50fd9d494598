"""What a finished run that hardly gained anything is told: the numbers, and what to try next."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

from llm_gym.evaluate.result import Evaluation
from llm_gym.evaluate.scores import Score, published
from llm_gym.registry.suite import ENVS
from llm_gym_agents.run.metrics import EVAL_SUCCESS, FROM_SOLVER, TRAIN_SUCCESS

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


def verdict(
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
