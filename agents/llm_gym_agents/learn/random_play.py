"""What random play is paid, which decides whom a warm start imitates: it, or a solver.

Reinforcement learning makes a player of chance better as long as chance is paid for something now
and then. Where the moves are sentences of their own, queries say, it never is, and then a model has
to be shown what pays before it can get better at it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import gymnasium as gym

from llm_gym.core.infos import flag, reward_terms
from llm_gym.episodes import Trajectory, play_episode
from llm_gym.errors import ConfigError
from llm_gym.wrappers import EpisodeLimits
from llm_gym_agents.learn.demonstrations import find_player, split_options
from llm_gym_agents.rollouts.tasks import episode_seed

BATCHES = 4
"""Batches of random play that are looked at; with a paid episode in each there is a way."""
_RUN = -4
"""Names the episodes that are looked at, apart from all that are trained or evaluated on."""
_TURNS = 100
_ROUNDING = 1e-9


class RandomPlay(NamedTuple):
    """What random play comes to."""

    paid: int
    """Episodes in which a usable move was paid, for good or bad, by more than shaping."""
    played: int
    batch: int

    @property
    def is_enough(self) -> bool:
        """Whether a batch can be expected to have something to choose from.

        So it is said of less than a batch, too: that would show nothing.
        """
        return self.played < self.batch or self.paid * self.batch >= self.played

    def __str__(self) -> str:
        return (
            f"random play was paid in {self.paid} of {self.played:,} episodes, less than once in a "
            f"batch of {self.batch}"
        )


def play_at_random(
    env: gym.Env[str, str], batch: int, *, turns: int, split: str | None = None
) -> RandomPlay:
    """Play at random until it was paid often enough, four batches and ``turns`` turns at most."""
    env = EpisodeLimits(env, max_turns=_TURNS)
    options = split_options(env, split)
    paid = played = gone = 0
    while played < BATCHES * batch and paid < BATCHES and gone < turns:
        seed = episode_seed(_RUN, played)
        episode = play_episode(env, find_player(env, "random", seed), seed, options)
        played, gone = played + 1, gone + episode.num_turns
        paid += _is_paid(episode)
    return RandomPlay(paid, played, batch)


def has_solver(env: gym.Env[str, str]) -> bool:
    """Whether ``env`` brings a solver along, and it plays."""
    try:
        play_episode(EpisodeLimits(env, max_turns=1), find_player(env, "solver"), 0)
    except ConfigError:
        return False
    return True


def _is_paid(episode: Trajectory) -> bool:
    """Whether a move that could be used was paid; a penalty for nonsense teaches no game."""
    return any(
        abs(reward - _shaping(info)) > _ROUNDING and flag(info, "valid_action") is not False
        for info, reward in zip(episode.infos, episode.rewards, strict=True)
    )


def _shaping(info: Mapping[str, Any]) -> float:
    """Return the part of a reward that only says how near the goal is."""
    return reward_terms(info).get("shaping", 0.0)
