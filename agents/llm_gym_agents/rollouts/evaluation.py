"""Evaluation: ``rollout`` plays episodes and returns success, return and turns.

result = rollout("llm_gym/TextGame-v0", "path/to/model", episodes=100)
print(result)
"""

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from numbers import Integral
from time import perf_counter
from typing import Any

from llm_gym.core.errors import ConfigError
from llm_gym.core.infos import flag, reward_terms
from llm_gym.core.outcome import StopReason
from llm_gym.core.splits import SPLITS
from llm_gym.episodes import write_episodes
from llm_gym.evaluate.result import Evaluation
from llm_gym.registry.sources import EnvSource
from llm_gym.wrappers import EpisodeLimits
from llm_gym_agents.engines.base import FinishReason
from llm_gym_agents.rollouts.mix import env_metrics
from llm_gym_agents.rollouts.policy import LLMPolicy
from llm_gym_agents.rollouts.pool import TextEnvPool
from llm_gym_agents.rollouts.sampler import Player, Sampler
from llm_gym_agents.rollouts.tasks import EpisodeTask, Rollout
from llm_gym_agents.run import metrics

__all__ = ["Evaluation", "evaluate", "rollout", "tasks"]


def rollout(
    env: EnvSource,
    model: str | LLMPolicy,
    episodes: int = 100,
    *,
    num_envs: int = 64,
    seed: int = 0,
    split: str | None = None,
    records: str | None = None,
    on_end: Callable[[int], None] | None = None,
    workers: int = 0,
    env_kwargs: dict[str, Any] | None = None,
    constrained: bool = False,
    max_turns: int | None = None,
    **policy_kwargs: Any,
) -> Evaluation:
    """Play ``episodes`` episodes of ``env`` and return the evaluation.

    Args:
        env: An id, a spec, a factory or an environment.
        model: A policy, or the path of a model for ``LLMPolicy.from_pretrained``.
        episodes: Number of episodes; episode ``i`` has the seed ``seed + i``.
        num_envs: Environments that run in parallel.
        seed: Seed of the first episode.
        split: Play instances of this split only.
        records: A file to write the episodes to.
        on_end: Called with the number of finished episodes, for a progress bar.
        workers: Worker processes for slow environments.
        env_kwargs: Settings of the environment.
        constrained: Restrict the model to usable moves; needs an engine with ``patterns=True``.
        max_turns: Replies after which an episode is truncated; None for the environment's own
            limit, if it has one.
        **policy_kwargs: Arguments of ``LLMPolicy.from_pretrained``.
    """
    _check(episodes, num_envs, seed)
    with ExitStack() as ends:
        pool = TextEnvPool(
            env,
            min(num_envs, episodes),
            workers=workers,
            patterns=constrained,
            wrappers=[] if max_turns is None else [partial(EpisodeLimits, max_turns=max_turns)],
            **(env_kwargs or {}),
        )
        ends.callback(pool.close, raise_if_closed=False)
        if split is not None and split not in SPLITS and not pool.takes_any_split:
            raise ConfigError(f"split must be one of {', '.join(SPLITS)} or None, got {split!r}")
        if isinstance(model, LLMPolicy):
            policy = model
        else:
            policy = LLMPolicy.from_pretrained(model, **policy_kwargs)
            ends.callback(policy.engine.close)
        sampler = Sampler(policy, pool, on_end=on_end)
        ends.callback(sampler.collector.close)  # a policy that was passed in keeps its engine
        return evaluate(sampler, tasks(episodes, seed, split), records)


def _check(episodes: int, num_envs: int, seed: int) -> None:
    """Refuse wrong arguments here; inside an environment they would count as failed episodes."""
    for name, given, least in (
        ("episodes", episodes, 1),
        ("num_envs", num_envs, 1),
        ("seed", seed, 0),
    ):
        if not isinstance(given, Integral) or given < least:
            raise ConfigError(f"{name} must be a whole number of at least {least}, got {given!r}")


def tasks(episodes: int, seed: int, split: str | None) -> list[EpisodeTask]:
    """Return episodes with consecutive ids and seeds."""
    options = {"split": split} if split else None
    return [EpisodeTask(at, seed + at, at, options) for at in range(episodes)]


def evaluate(
    sampler: Player, todo: Sequence[EpisodeTask], records: str | None = None, **how: Any
) -> Evaluation:
    """Play ``todo`` with ``Sampler.play(todo, **how)`` and return the evaluation."""
    start = perf_counter()
    played = sampler.play(todo, **how)
    seconds = perf_counter() - start
    for episode, turns in zip(played.episodes, played.turns, strict=True):
        episode.extra = {**(episode.extra or {}), "finish": [turn.finish for turn in turns]}
    if records:
        write_episodes(records, played.all_episodes)
    return Evaluation(played.env_id, played.all_episodes, played.tokens, seconds)


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
    finishes = [turn.finish for turns in rollout.turns for turn in turns]
    row = {
        metrics.TRAIN_SUCCESS: sum(episode.success for episode in episodes) / count,
        metrics.RETURN: sum(episode.total_reward for episode in episodes) / count,
        "episode/turns": sum(episode.num_turns for episode in episodes) / count,
        "episode/tokens": rollout.tokens / count,
        "episode/unplayed": float(len(rollout.unplayed)),
        "episode/context_full": stops[StopReason.CONTEXT] / count,
        "episode/truncated_replies": finishes.count(FinishReason.LENGTH) / len(finishes),
        metrics.RETURN_SPREAD: statistics.pstdev(episode.total_reward for episode in episodes),
    }
    if usable:
        row["episode/invalid"] = usable.count(False) / len(usable)
    return row | dict(terms) | env_metrics(episodes, "env", rollout.env_id)


def evaluation_metrics(result: Evaluation) -> dict[str, float]:
    return {
        metrics.EVAL_SUCCESS: result.success,
        metrics.EVAL_RETURN: result.mean_return,
        "eval/turns": result.mean_turns,
        "eval/invalid": result.invalid,
        **env_metrics(result.episodes, "eval", result.env_id),
    }
