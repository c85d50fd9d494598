"""What a batch of episodes says, under stable names."""

from __future__ import annotations

from collections import Counter, defaultdict

from llm_gym.core.outcome import StopReason
from llm_gym.evaluate.result import Evaluation
from llm_gym_agents.rollouts.turns import Rollout
from llm_gym_agents.run import metrics


def episode_metrics(rollout: Rollout) -> dict[str, float]:
    """Return means over the episodes of a batch."""
    episodes, count = rollout.episodes, len(rollout.episodes)
    infos = [info for episode in episodes for info in episode.infos]
    usable = [info["valid_action"] for info in infos if "valid_action" in info]
    terms: dict[str, float] = defaultdict(float)
    for info in infos:
        for name, value in info.get("reward_terms", {}).items():
            terms[f"reward/{name}"] += value / count
    stops = Counter(episode.stop_reason for episode in episodes)
    row = {
        metrics.TRAIN_SUCCESS: sum(episode.success for episode in episodes) / count,
        metrics.RETURN: sum(episode.total_reward for episode in episodes) / count,
        "episode/turns": sum(episode.num_turns for episode in episodes) / count,
        "episode/tokens": rollout.tokens / count,
        "episode/unplayed": float(len(rollout.unplayed)),
        "episode/context_full": stops[StopReason.CONTEXT] / count,
        "episode/failed": stops[StopReason.ERROR] / count,
    }
    if usable:
        row["episode/invalid"] = usable.count(False) / len(usable)
    return row | dict(terms)


def evaluation_metrics(result: Evaluation) -> dict[str, float]:
    """Return what a held-out evaluation says."""
    return {
        metrics.EVAL_SUCCESS: result.success,
        metrics.EVAL_RETURN: result.mean_return,
        "eval/turns": result.mean_turns,
        "eval/invalid": result.invalid,
    }
