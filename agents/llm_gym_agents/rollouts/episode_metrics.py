"""What a batch of episodes says, under stable names."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict

from llm_gym.core.infos import flag, reward_terms
from llm_gym.core.outcome import StopReason
from llm_gym.evaluate.result import Evaluation
from llm_gym_agents.engines.base import FinishReason
from llm_gym_agents.rollouts.turns import Rollout
from llm_gym_agents.run import metrics


def episode_metrics(rollout: Rollout) -> dict[str, float]:
    """Return means over the episodes of a batch."""
    episodes, count = rollout.episodes, len(rollout.episodes)
    infos = [info for episode in episodes for info in episode.infos]
    usable = [valid for info in infos if (valid := flag(info, "valid_action")) is not None]
    terms: dict[str, float] = defaultdict(float)
    for info in infos:
        for name, value in reward_terms(info).items():
            terms[metrics.term(name)] += value / count
    stops = Counter(episode.stop_reason for episode in episodes)
    row = {
        metrics.TRAIN_SUCCESS: sum(episode.success for episode in episodes) / count,
        metrics.RETURN: sum(episode.total_reward for episode in episodes) / count,
        "episode/turns": sum(episode.num_turns for episode in episodes) / count,
        "episode/tokens": rollout.tokens / count,
        "episode/unplayed": float(len(rollout.unplayed)),
        "episode/context_full": stops[StopReason.CONTEXT] / count,
        "episode/cut_replies": _cut_replies(rollout),
        metrics.RETURN_SPREAD: statistics.pstdev(episode.total_reward for episode in episodes),
    }
    if (flat := _groups_without_spread(rollout)) is not None:
        row["group/no_spread"] = flat
    if usable:
        row["episode/invalid"] = usable.count(False) / len(usable)
    return row | dict(terms)


def _cut_replies(rollout: Rollout) -> float:
    """Return the share of replies that max_tokens cut."""
    finishes = [turn.finish for turns in rollout.turns for turn in turns]
    return finishes.count(FinishReason.LENGTH) / len(finishes)


def _groups_without_spread(rollout: Rollout) -> float | None:
    """Return the share of groups that all scored the same, from which nothing can be learned."""
    groups: dict[int, list[float]] = defaultdict(list)
    for episode in rollout.episodes:
        groups[int(episode.group or 0)].append(episode.total_reward)
    several = [scores for scores in groups.values() if len(scores) > 1]
    return sum(len(set(scores)) == 1 for scores in several) / len(several) if several else None


def evaluation_metrics(result: Evaluation) -> dict[str, float]:
    """Return what a held-out evaluation says."""
    return {
        metrics.EVAL_SUCCESS: result.success,
        metrics.EVAL_RETURN: result.mean_return,
        "eval/turns": result.mean_turns,
        "eval/invalid": result.invalid,
    }
