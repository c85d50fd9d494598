"""Several environments in one run: ``MixedEnv``, and which of them is played when.

An episode's task names its environment among the options of ``reset``, so whoever plays the task
needs to know nothing else: a pool in this process, a worker, an actor elsewhere.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np

from llm_gym.core.errors import ConfigError
from llm_gym.core.infos import find_attribute
from llm_gym.core.spaces import AnyText
from llm_gym.core.splits import stable_hash
from llm_gym.episodes import Trajectory
from llm_gym.episodes.play import describe_env
from llm_gym.evaluate.result import Evaluation
from llm_gym.registry.user_code import close_user_env
from llm_gym.wrappers.as_text import make_text

ENV = "env"
"""The option of ``reset`` that names the environment."""


class MixedEnv(gym.Env[str, str]):
    """Several text environments as one; each is built when it is first played.

    ``reset`` takes the id of one as ``options["env"]``, or draws one. The other options are
    given to it; one without splits is given no split. Attributes are those of the one that is
    played: its players, its system prompt.

    Args:
        settings: The settings of each environment, by id.
    """

    has_splits = True

    def __init__(self, settings: Mapping[str, Mapping[str, Any]]) -> None:
        self._settings = settings
        self._made: dict[str, tuple[gym.Env[str, str], dict[str, Any]]] = {}
        self._playing: gym.Env[str, str] | None = None
        self.episode_env: dict[str, Any] | None = None
        """What the record of the episode says about its environment."""
        self.observation_space = self.action_space = AnyText(sys.maxsize)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        own = dict(options or {})
        ids = list(self._settings)
        env_id = own.pop(ENV, None) or ids[int(self.np_random.integers(len(ids)))]
        if env_id not in self._settings:
            raise ConfigError(f"options[{ENV!r}] must be one of {', '.join(ids)}, got {env_id!r}")
        if env_id not in self._made:
            made = make_text(env_id, **self._settings[env_id])
            self._made[env_id] = made, describe_env(made)
        self._playing, self.episode_env = self._made[env_id]
        if not find_attribute(self._playing, "has_splits"):
            own.pop("split", None)
        return self._playing.reset(seed=seed, options=own or None)

    def step(self, action: str) -> tuple[str, SupportsFloat, bool, bool, dict[str, Any]]:
        assert self._playing is not None, "a vector environment resets first"
        return self._playing.step(action)

    def __getattr__(self, name: str) -> Any:
        playing = None if name.startswith("_") else self._playing
        if playing is None:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r} before reset")
        return playing.get_wrapper_attr(name)

    def close(self) -> None:
        for env, _ in self._made.values():
            close_user_env(env)


def draw_envs(mix: Mapping[str, float], run: int, iteration: int, groups: int) -> list[str]:
    """Return the environment of each group of an iteration.

    Systematic sampling: each environment gets its share of the groups, rounded up or down, and on
    average just its share. The draw depends on its arguments alone, so a resumed run repeats it.

    >>> sorted(draw_envs({"a": 1, "b": 3}, run=0, iteration=5, groups=8))
    ['a', 'a', 'b', 'b', 'b', 'b', 'b', 'b']
    """
    ids, weights = list(mix), np.array(list(mix.values()))
    rng = np.random.default_rng(stable_hash(f"mix {run}/{iteration}"))
    ends = np.cumsum(weights / weights.sum())[:-1]
    places = (rng.random() + np.arange(groups)) / groups
    drawn = np.searchsorted(ends, places, side="right")
    return [ids[at] for at in rng.permutation(drawn)]


def in_env(options: Mapping[str, Any] | None, env_id: str) -> dict[str, Any]:
    """Return the options of ``reset`` for an episode of ``env_id``."""
    return {**(options or {}), ENV: env_id}


def without_env(options: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the options that the environment itself is given, for a record."""
    return {name: each for name, each in (options or {}).items() if name != ENV} or None


def by_env(episodes: Iterable[Trajectory]) -> dict[str, list[Trajectory]]:
    """Return the episodes of each environment, in the order of their ids."""
    found: dict[str, list[Trajectory]] = {}
    for episode in episodes:
        found.setdefault(str(episode.env_id), []).append(episode)
    return dict(sorted(found.items()))


def env_metrics(episodes: Iterable[Trajectory], group: str) -> dict[str, float]:
    """Return success, return and share of usable replies of each environment of a mix."""
    found = by_env(episodes)
    results = {each: Evaluation(each, own, 0, 0.0) for each, own in found.items()}
    if len(results) < 2:
        return {}
    return {
        f"{group}/{env_id}/{name}": number
        for env_id, result in results.items()
        for name, number in (
            ("success", result.success),
            ("return", result.mean_return),
            ("usable", 1.0 - result.invalid),
        )
    }
