"""What playing leaves behind: sampled turns, episodes, and a batch of both.

Plain lists of plain things: they are pickled when a sampler plays in another process, and
``batch`` makes tensors of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from llm_gym.core.outcome import StopReason
from llm_gym.episodes import Trajectory


class Turn(NamedTuple):
    """What one turn added to an episode."""

    episode: int
    number: int
    """Counted from 0."""
    prompt_ids: list[int]
    """New ids that the model read before replying: all of them in observation context."""
    reply_ids: list[int]
    log_probs: list[float]
    finish: str
    version: int
    """Version of the weights that sampled it."""
    new_sequence: bool = True
    """Whether the model read the prompt by itself, and not after the turn before."""


class Closing(NamedTuple):
    """What the model would have read next in an episode that was cut: its value is taken there."""

    ids: list[int]
    new_sequence: bool


class Rollout(NamedTuple):
    """A batch of complete episodes, in id order."""

    episodes: list[Trajectory]
    turns: list[list[Turn]]
    """Of each of the ``episodes``; at least one."""
    closings: list[Closing | None]
    """Of each of the ``episodes``; None where the rules ended it."""
    unplayed: list[Trajectory]
    """Named episodes without a single sampled turn: their environment failed at once, or the
    first prompt did not fit."""
    failures: list[str]
    """What went wrong in environments, one sentence each."""
    env_id: str | None = None

    def without_failed(self) -> Rollout:
        """Return the rollout without episodes whose environment failed: they teach nothing."""
        return self.where(lambda episode: episode.stop_reason != StopReason.ERROR)

    def where(self, holds: Callable[[Trajectory], bool]) -> Rollout:
        """Return the rollout with those of its episodes for which something holds."""
        kept = [at for at, episode in enumerate(self.episodes) if holds(episode)]
        return self._replace(
            episodes=[self.episodes[at] for at in kept],
            turns=[self.turns[at] for at in kept],
            closings=[self.closings[at] for at in kept],
        )

    def ending_after(self, turns: int | None) -> Rollout:
        """Return the rollout with our own limit of ``turns`` as an ending, which has no after."""
        if turns is None:
            return self
        over = [
            episode.stop_reason == StopReason.MAX_STEPS and episode.num_turns >= turns
            for episode in self.episodes
        ]
        closings = [
            None if ended else closing for ended, closing in zip(over, self.closings, strict=True)
        ]
        return self._replace(closings=closings)

    @property
    def all_episodes(self) -> list[Trajectory]:
        """Played or not, in id order."""
        return sorted([*self.episodes, *self.unplayed], key=episode_id)

    @property
    def tokens(self) -> int:
        """Sampled tokens."""
        return sum(len(turn.reply_ids) for own in self.turns for turn in own)


def episode_id(episode: Trajectory) -> int:
    """Return the number that named an episode before it was played."""
    assert isinstance(episode.episode_id, int)
    return episode.episode_id
