"""Several environments in one run: ``MixedEnv``, and the choice of the next environment.

An episode's task names its environment among the options of ``reset``, so a pool in this process, a
worker or a remote actor can play the task and needs nothing else.
"""

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


LEAST_SHARE = 0.1
"""Share of its weight that an environment keeps if it is always or never won."""
KEPT_SHARE = 0.25
"""Share of its weight that an always won environment keeps in later rounds of imitation."""
NEW = 0.3
"""Weight of a batch in the running mean of success."""


class MixedEnv(gym.Env[str, str]):
    """Several text environments as one; each is built when it is first played.

    ``reset`` takes the id of an environment as ``options["env"]``, or draws one. It passes on the
    other options, but no split to an environment without splits. Attributes, such as players and
    system prompt, are those of the environment being played.

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

    Systematic sampling: each environment gets its share of the groups, rounded up or down, and
    exactly its share on average. The draw depends only on its arguments, so a resumed run repeats
    it.

    >>> sorted(draw_envs({"a": 1, "b": 3}, run=0, iteration=5, groups=8))
    ['a', 'a', 'b', 'b', 'b', 'b', 'b', 'b']
    """
    ids, weights = list(mix), np.array(list(mix.values()))
    rng = np.random.default_rng(stable_hash(f"mix {run}/{iteration}"))
    ends = np.cumsum(weights / weights.sum())[:-1]
    places = (rng.random() + np.arange(groups)) / groups
    drawn = np.searchsorted(ends, places, side="right")
    return [ids[at] for at in rng.permutation(drawn)]


def by_signal(mix: Mapping[str, float], success: Mapping[str, float]) -> dict[str, float]:
    """Return weights by success rate, because a certain outcome gives no signal.

    ``p (1 - p)`` is the variance of winning; a new environment has the maximum.

    >>> by_signal({"easy": 1.0, "hard": 1.0, "new": 2.0}, {"easy": 0.9, "hard": 0.0})
    {'easy': 0.36, 'hard': 0.1, 'new': 2.0}
    """
    chance = {env_id: success.get(env_id, 0.5) for env_id in mix}
    return {
        env_id: round(weight * max(LEAST_SHARE, 4 * chance[env_id] * (1 - chance[env_id])), 6)
        for env_id, weight in mix.items()
    }


def by_failure(mix: Mapping[str, float], episodes: Iterable[Trajectory]) -> dict[str, float]:
    """Return weights by failure rate, for imitation: what is always won teaches little.

    An environment keeps a part of its weight, because the model would forget it.
    """
    success = {
        each: Evaluation(each, own, 0, 0.0).success for each, own in by_env(episodes).items()
    }
    return {
        env_id: weight * max(KEPT_SHARE, 1.0 - success.get(env_id, 0.0))
        for env_id, weight in mix.items()
    }


def shares_of(mix: Mapping[str, float]) -> dict[str, float]:
    """Return the weights divided by their sum."""
    total = sum(mix.values())
    return {env_id: weight / total for env_id, weight in mix.items()}


def follow_success(success: Mapping[str, float], row: Mapping[str, float]) -> dict[str, float]:
    """Return a running mean of the success of each environment, with the metrics of a batch."""
    new = {
        name.removeprefix("env/").removesuffix("/success"): value
        for name, value in row.items()
        if name.startswith("env/") and name.endswith("/success")
    }
    moved = {each: NEW * now + (1 - NEW) * success.get(each, now) for each, now in new.items()}
    return {**success, **moved}


def in_env(options: Mapping[str, Any] | None, env_id: str) -> dict[str, Any]:
    """Return the options of ``reset`` for an episode of ``env_id``."""
    return {**(options or {}), ENV: env_id}


def without_env(options: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the options that the environment itself gets, for a record."""
    return {name: each for name, each in (options or {}).items() if name != ENV} or None


def by_env(episodes: Iterable[Trajectory]) -> dict[str, list[Trajectory]]:
    """Return the episodes of each environment, in the order of their ids."""
    found: dict[str, list[Trajectory]] = {}
    for episode in episodes:
        found.setdefault(str(episode.env_id), []).append(episode)
    return dict(sorted(found.items()))


def env_metrics(
    episodes: Iterable[Trajectory], group: str, played: str | None = None
) -> dict[str, float]:
    """Return success, return, usable replies and share of each environment of a mix.

    Empty if ``played`` is the only environment.
    """
    found = by_env(episodes)
    if len(found) < 2 and (played is None or played in found):
        return {}
    results = {each: Evaluation(each, own, 0, 0.0) for each, own in found.items()}
    return {
        f"{group}/{env_id}/{name}": number
        for env_id, result in results.items()
        for name, number in (
            ("success", result.success),
            ("return", result.mean_return),
            ("usable", 1.0 - result.invalid),
            ("share", len(result.episodes) / sum(map(len, found.values()))),
        )
    }
