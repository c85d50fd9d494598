"""``RewardManager``: the usual terms of a reward, to begin with or to build on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import gymnasium as gym
import torch
from torch import Tensor

from llm_gym.core.infos import flag
from llm_gym.episodes import Trajectory
from llm_gym.errors import ConfigError
from llm_gym.registry.user_code import close_user_env


class RewardManager:
    """The usual terms of an episode's reward; a ``reward_fn``, and usable alone.

    - ``sum``: what the environment paid;
    - ``success_bonus``: for an episode that was won;
    - ``invalid_penalty``: for every reply that could not be used;
    - ``efficiency_bonus``: for every step left of the limit, won or not. It pays for losing
      quickly too; keep it well below what success is worth.

    Episodes are ``Trajectory`` objects, or dictionaries with ``rewards``, ``infos`` and
    ``num_turns``.

    Args:
        environment: An environment or an id, where the limit of steps is read from unless
            ``max_steps`` says it.
        success_bonus: Added once.
        invalid_penalty: Subtracted each time.
        efficiency_bonus: Added per step left.
        max_steps: The limit of steps; None for the environment's.

    >>> manager = RewardManager(max_steps=10)
    >>> manager.compute_trajectory_reward(
    ...     {"rewards": [0.0, 1.0], "infos": [{"invalid_action": True}, {"success": True}],
    ...      "num_turns": 2})
    6.3
    """

    def __init__(
        self,
        environment: Any = None,
        success_bonus: float = 5.0,
        invalid_penalty: float = 0.5,
        efficiency_bonus: float = 0.1,
        *,
        max_steps: int | None = None,
    ) -> None:
        if max_steps is not None and max_steps < 1:
            raise ConfigError(f"max_steps must be at least 1, got {max_steps}")
        self.environment, self.max_steps = environment, max_steps
        self.success_bonus, self.invalid_penalty = success_bonus, invalid_penalty
        self.efficiency_bonus = efficiency_bonus
        self.metrics: dict[str, float] = {}
        """Mean of each term over the last batch, such as ``reward/success_bonus``."""

    def __call__(
        self, trajectory: Trajectory | Mapping[str, Any], environment: Any = None
    ) -> dict[str, float]:
        """Return the terms of an episode's reward, by name."""
        rewards, infos = _of(trajectory, "rewards", ()), _of(trajectory, "infos", ())
        last = infos[-1] if len(infos) else {}
        success = getattr(trajectory, "success", None)
        won = flag(last, "success") if success is None else success
        terms = {
            "sum": float(sum(rewards)),
            "success_bonus": self.success_bonus * bool(won),
            "invalid_penalty": -self.invalid_penalty * sum(map(_is_invalid, infos)),
        }
        if self.efficiency_bonus:
            left = self._limit(environment) - _of(trajectory, "num_turns", len(rewards))
            terms["efficiency_bonus"] = self.efficiency_bonus * left
        return terms

    def compute_trajectory_reward(self, trajectory: Trajectory | Mapping[str, Any]) -> float:
        """Return the reward of one episode."""
        return float(sum(self(trajectory).values()))

    def compute_batch_rewards(
        self, trajectories: Sequence[Trajectory | Mapping[str, Any]]
    ) -> Tensor:
        """Return the reward of each episode, and note the mean of each term in ``metrics``."""
        rows = [self(trajectory) for trajectory in trajectories]
        self.metrics = {
            f"reward/{name}": sum(row[name] for row in rows) / len(rows)
            for name in (rows[0] if rows else {})
        }
        return torch.tensor([sum(row.values()) for row in rows], dtype=torch.float32)

    def _limit(self, environment: Any) -> int:
        if self.max_steps is not None:
            return self.max_steps
        for env in (self.environment, environment):
            limit = _max_steps(env)
            if limit is not None:
                return limit
        raise ConfigError(
            "efficiency_bonus needs the limit of steps; pass max_steps=..., an environment that "
            "has one, or efficiency_bonus=0"
        )


@lru_cache(maxsize=8)
def _max_steps_of(env_id: str) -> int | None:
    env = gym.make(env_id)
    try:
        return _max_steps(env)
    finally:
        close_user_env(env)


def _max_steps(env: Any) -> int | None:
    if isinstance(env, str):
        return _max_steps_of(env)
    bare = getattr(env, "unwrapped", env)
    for owner in (env, bare, getattr(bare, "environment", None)):
        for name in ("max_steps", "max_turns"):
            if isinstance(limit := getattr(owner, name, None), int):
                return limit
    limit = getattr(getattr(env, "spec", None), "max_episode_steps", None)
    return limit if isinstance(limit, int) else None


def _is_invalid(info: Mapping[str, Any]) -> bool:
    invalid = flag(info, "invalid_action")
    return flag(info, "valid_action") is False if invalid is None else invalid


def _of(trajectory: Trajectory | Mapping[str, Any], name: str, default: Any) -> Any:
    if isinstance(trajectory, Mapping):
        return trajectory.get(name, default)
    return getattr(trajectory, name)
