"""Letting a model play: ``rollout`` plays named episodes and says how it went.

result = rollout("llm_gym/TextGame-v0", "path/to/model", episodes=100)
print(result)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from numbers import Integral
from time import perf_counter
from typing import Any

from llm_gym.core.splits import SPLITS
from llm_gym.episodes import write_episodes
from llm_gym.errors import ConfigError
from llm_gym.evaluate.result import Evaluation
from llm_gym.registry.sources import EnvSource
from llm_gym.wrappers import EpisodeLimits
from llm_gym_agents.rollouts.policy import LLMPolicy
from llm_gym_agents.rollouts.pool import TextEnvPool
from llm_gym_agents.rollouts.sampler import Player, Sampler
from llm_gym_agents.rollouts.tasks import EpisodeTask, Which

__all__ = ["Evaluation", "Which", "evaluate", "rollout", "tasks"]


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
    """Play ``episodes`` episodes of ``env`` and return how it went.

    Args:
        env: An id, a spec, a factory or an environment.
        model: A policy, or the path of a model for ``LLMPolicy.from_pretrained``.
        episodes: Episode ``i`` has the seed ``seed + i``.
        num_envs: Environments that are played side by side.
        seed: Seed of the first episode.
        split: Play instances of this split only.
        records: A file to write the episodes to.
        on_end: Called with the number of episodes that have ended, for a progress bar.
        workers: Processes for slow environments.
        env_kwargs: Settings of the environment.
        constrained: Hold the model to moves that the environment can use; needs an engine that
            was started with ``patterns=True``.
        max_turns: Replies after which an episode is cut; None leaves it to the environment, and
            some know no end.
        **policy_kwargs: For ``LLMPolicy.from_pretrained``.
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
    """Refuse what every environment would: a typing error must not come out as a success of 0."""
    for name, given, least in (
        ("episodes", episodes, 1),
        ("num_envs", num_envs, 1),
        ("seed", seed, 0),
    ):
        if not isinstance(given, Integral) or given < least:
            raise ConfigError(f"{name} must be a whole number of at least {least}, got {given!r}")


def tasks(episodes: int, seed: int, split: str | None) -> list[EpisodeTask]:
    """Return named episodes with consecutive ids and seeds."""
    options = {"split": split} if split else None
    return [EpisodeTask(at, seed + at, at, options) for at in range(episodes)]


def evaluate(
    sampler: Player, todo: Sequence[EpisodeTask], records: str | None = None, **how: Any
) -> Evaluation:
    """Play ``todo``, as ``Sampler.play`` is told by ``how``, and return how it went."""
    start = perf_counter()
    played = sampler.play(todo, **how)
    seconds = perf_counter() - start
    if records:
        write_episodes(records, played.all_episodes)
    return Evaluation(played.env_id, played.all_episodes, played.tokens, seconds)
