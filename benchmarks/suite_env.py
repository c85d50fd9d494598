"""Many environments of the suite played at once: what an engine does best is many replies.

Twenty episodes of one game leave a GPU idle, and games that a model never ends take a hundred turns
each. ``play_together`` plays episodes of several games side by side, each as it would be alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any

import gymnasium as gym

import llm_gym  # noqa: F401  (registers the environments)
from llm_gym.core.spaces import AnyText
from llm_gym.evaluate.result import Evaluation
from llm_gym_agents.rollouts.policy import LLMPolicy
from llm_gym_agents.rollouts.pool import TextEnvPool
from llm_gym_agents.rollouts.sampler import Sampler
from llm_gym_agents.rollouts.tasks import EpisodeTask


class OneOf(gym.Env[str, str]):
    """Is whichever environment an episode's options name."""

    observation_space = action_space = AnyText(1 << 20)

    def __init__(self) -> None:
        self._made: dict[str, gym.Env[str, str]] = {}
        self._now: gym.Env[str, str] | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Begin an episode of ``options["env_id"]``."""
        assert options is not None
        env_id = options["env_id"]
        if env_id not in self._made:
            self._made[env_id] = gym.make(env_id, rules="system")
        self._now = self._made[env_id]
        return self._now.reset(seed=seed)

    def step(self, action: str) -> tuple[str, Any, bool, bool, dict[str, Any]]:
        """Take the action there."""
        assert self._now is not None
        return self._now.step(action)

    def close(self) -> None:
        """Close all that were played."""
        for env in self._made.values():
            env.close()


def play_together(
    ids: Sequence[str], policy: LLMPolicy, episodes: int, *, num_envs: int, seed: int
) -> list[Evaluation]:
    """Return how ``policy`` played each of ``ids``; episode ``i`` has the seed ``seed + i``."""
    todo = [
        EpisodeTask(which * episodes + at, seed + at, at, {"env_id": env_id})
        for at in range(episodes)
        for which, env_id in enumerate(ids)
    ]
    pool = TextEnvPool(OneOf, min(num_envs, len(todo)))
    sampler = Sampler(policy, pool)
    start = perf_counter()
    try:
        played = sampler.play(todo)
    finally:
        sampler.collector.close()  # the engine stays
    seconds = (perf_counter() - start) / len(ids)
    tokens = {int(own[0].episode): sum(len(turn.reply_ids) for turn in own) for own in played.turns}
    found = []
    for which, env_id in enumerate(ids):
        mine = range(which * episodes, (which + 1) * episodes)
        own = [each for each in played.all_episodes if each.episode_id in mine]
        found.append(Evaluation(env_id, own, sum(tokens.get(at, 0) for at in mine), seconds))
    return found
