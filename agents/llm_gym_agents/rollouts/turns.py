"""``Rollout``: a batch of episodes with their sampled turns.

Plain lists, so that they pickle when a sampler plays in another process; ``batch`` makes tensors
of them. ``EnvFailureWatch`` stops a run whose environment is broken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from llm_gym.core.errors import ConfigError
from llm_gym.core.outcome import StopReason
from llm_gym.episodes import Trajectory


class Turn(NamedTuple):
    """What one turn added to an episode."""

    episode: int
    number: int
    """Counted from 0."""
    prompt_ids: list[int]
    """New ids that the model read before replying; the whole prompt with ``new_sequence``."""
    reply_ids: list[int]
    log_probs: list[float]
    finish: str
    version: int
    """Version of the weights that sampled it."""
    new_sequence: bool = True
    """Whether the prompt stands alone, and does not continue the turn before."""


class Prefix(NamedTuple):
    """The first turns of an episode, which a branch has in common with it."""

    observations: list[str]
    """One before each turn, and the one that the branch goes on from."""
    actions: list[str]
    turns: list[Turn]


class BootstrapPrompt(NamedTuple):
    """What the model would have read next in a truncated episode, to bootstrap its value."""

    ids: list[int]
    new_sequence: bool


class Rollout(NamedTuple):
    """A batch of complete episodes, in id order."""

    episodes: list[Trajectory]
    turns: list[list[Turn]]
    """At least one for each of ``episodes``."""
    bootstrap_prompts: list[BootstrapPrompt | None]
    """One for each of ``episodes``; None where the rules or the context's length ended it."""
    unplayed: list[Trajectory]
    """Episodes without a sampled turn: the environment failed, or the first prompt did not fit."""
    failures: list[str]
    """What went wrong in environments, one sentence each."""
    env_id: str | None = None

    def without_failed(self) -> Rollout:
        """Return the rollout without episodes whose environment failed."""
        return self.where(lambda episode: episode.stop_reason != StopReason.ERROR)

    def where(self, holds: Callable[[Trajectory], bool]) -> Rollout:
        """Return the rollout with the episodes for which ``holds`` is true."""
        kept = [at for at, episode in enumerate(self.episodes) if holds(episode)]
        return self._replace(
            episodes=[self.episodes[at] for at in kept],
            turns=[self.turns[at] for at in kept],
            bootstrap_prompts=[self.bootstrap_prompts[at] for at in kept],
        )

    def ending_after(self, turns: int | None) -> Rollout:
        """Return the rollout with episodes cut at ``turns`` as terminated: no bootstrap."""
        if turns is None:
            return self
        over = [
            episode.stop_reason == StopReason.MAX_STEPS and episode.num_turns >= turns
            for episode in self.episodes
        ]
        bootstrap_prompts = [
            None if ended else prompt
            for ended, prompt in zip(over, self.bootstrap_prompts, strict=True)
        ]
        return self._replace(bootstrap_prompts=bootstrap_prompts)

    @property
    def all_episodes(self) -> list[Trajectory]:
        """Played or not, in id order."""
        return sorted([*self.episodes, *self.unplayed], key=episode_id)

    @property
    def tokens(self) -> int:
        return sum(len(turn.reply_ids) for own in self.turns for turn in own)


def episode_id(episode: Trajectory) -> int:
    """Return the ``EpisodeTask.id`` of an episode."""
    assert isinstance(episode.episode_id, int)
    return episode.episode_id


def join_rollouts(rollouts: Sequence[Rollout]) -> Rollout:
    """Return several rollouts as one, in id order."""
    if len(rollouts) == 1:
        return rollouts[0]
    played = sorted(
        (
            each
            for rollout in rollouts
            for each in zip(rollout.episodes, rollout.turns, rollout.bootstrap_prompts, strict=True)
        ),
        key=lambda each: episode_id(each[0]),
    )
    return Rollout(
        episodes=[episode for episode, _, _ in played],
        turns=[turns for _, turns, _ in played],
        bootstrap_prompts=[prompt for _, _, prompt in played],
        unplayed=sorted(
            (episode for rollout in rollouts for episode in rollout.unplayed), key=episode_id
        ),
        failures=[failure for rollout in rollouts for failure in rollout.failures],
        env_id=rollouts[0].env_id if rollouts else None,
    )


PATIENCE = 3
"""Iterations in a row that may lose most of their episodes."""


def why_unplayed(rollout: Rollout) -> str:
    """Return why episodes were not played: the last failures, or the context length."""
    if rollout.failures:
        return "; ".join(rollout.failures[-3:])
    read = max((len(each.states[0]) for each in rollout.unplayed if each.states), default=0)
    return (
        f"no prompt fits the model's context, with observations of up to {read:,} characters; "
        "let the environment say less, or take a model with a longer context"
    )


class EnvFailureWatch:
    """Stops a run after ``PATIENCE`` iterations that lost most episodes to environment failures."""

    def __init__(self) -> None:
        self.bad = 0

    def check(self, iteration: int, rollout: Rollout) -> None:
        """Raise ``ConfigError`` if nothing could be played, or too little for too long."""
        episodes = rollout.all_episodes
        failed = sum(episode.stop_reason == StopReason.ERROR for episode in episodes)
        why = why_unplayed(rollout)
        if not rollout.without_failed().episodes:
            raise ConfigError(f"no episode of iteration {iteration} could be played: {why}")
        self.bad = self.bad + 1 if 2 * failed > len(episodes) else 0
        if self.bad >= PATIENCE:
            raise ConfigError(
                f"the environment failed in {failed} of {len(episodes)} episodes of iteration "
                f"{iteration}, and in most of the {PATIENCE - 1} before: {why}"
            )
