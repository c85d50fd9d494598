"""``EpisodeTask``: an episode to play. ``Rollout``: played episodes with their sampled turns.

Both are plain data, so that they pickle when a sampler plays in another process.

Ids, seeds and groups are functions of the run's seed, the iteration and the attempt alone, so a
resumed run plays the same episodes. An id decides what is sampled in an episode.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from operator import attrgetter
from typing import Any, NamedTuple

from llm_gym.core.outcome import StopReason
from llm_gym.core.splits import stable_hash
from llm_gym.episodes import Trajectory
from llm_gym_agents.rollouts.mix import draw_envs, in_env
from llm_gym_agents.run import metrics

IDLE = -1
"""The episode of a row that has nothing to play."""


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
        reasons = enumerate(episode.stop_reason for episode in self.episodes)
        return self.at([at for at, reason in reasons if reason != StopReason.ERROR])

    def at(self, kept: Sequence[int]) -> Rollout:
        """Return the rollout with these episodes, in this order."""
        return self._replace(
            episodes=[self.episodes[at] for at in kept],
            turns=[self.turns[at] for at in kept],
            bootstrap_prompts=[self.bootstrap_prompts[at] for at in kept],
        )

    def ending_after(self, turns: int | None) -> Rollout:
        """Return the rollout with episodes cut at ``turns`` as terminated: no bootstrap."""
        if turns is None:
            return self
        prompts = self.bootstrap_prompts.copy()
        for at, episode in enumerate(self.episodes):
            if episode.stop_reason == StopReason.MAX_STEPS and episode.num_turns >= turns:
                prompts[at] = None
        return self._replace(bootstrap_prompts=prompts)

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
    lists: dict[str, Any] = {
        name: [each for rollout in rollouts for each in getattr(rollout, name)]
        for name in ("episodes", "turns", "bootstrap_prompts", "unplayed", "failures")
    }
    joined = Rollout(**lists, env_id=rollouts[0].env_id if rollouts else None)
    joined.unplayed.sort(key=episode_id)
    order = sorted(range(len(joined.episodes)), key=lambda at: episode_id(joined.episodes[at]))
    return joined.at(order)


def why_unplayed(rollout: Rollout) -> str:
    """Return why episodes were not played: the last failures, or the context length."""
    if rollout.failures:
        return "; ".join(rollout.failures[-3:])
    read = max((len(each.states[0]) for each in rollout.unplayed if each.states), default=0)
    return (
        f"no prompt fits the model's context, with observations of up to {read:,} characters; "
        "let the environment say less, or take a model with a longer context"
    )


EpisodeSelection = int | range | None
"""Held-out episodes: the first n, those of a range, or None for as many as the config says."""


class EpisodeTask(NamedTuple):
    """One episode to be played."""

    id: int
    seed: int
    group: int = 0
    options: dict[str, Any] | None = None
    prefix: Prefix | None = None
    """Turns that are repeated before any is sampled: the episode is a branch of another."""


class ReplyStatus(IntEnum):
    """Whether a row has a reply."""

    PENDING = -1  # still being sampled; the row does not step
    READY = 0
    NO_ROOM = 1  # the context is full; the episode is truncated


def episode_seed(run: int, group: int) -> int:
    """Return the environment seed of a group: 63 bits."""
    return stable_hash(f"episode {run}/{group}")


def split_options(split: str | None, has_splits: bool) -> dict[str, Any] | None:
    """Return the ``reset`` options that draw from ``split``; None for an environment without."""
    return {"split": split} if split and has_splits else None


EVAL_IDS = 2**40
"""First id of held-out episodes."""
RESAMPLE_IDS, TRY_IDS = 2**42, 2**36
"""First id and group of resampled episodes, and the distance from one attempt to the next."""


def episode_name(id: int) -> str:
    """Return an episode's name for people.

    >>> episode_name(7), episode_name(EVAL_IDS + 1), episode_name(RESAMPLE_IDS + 1)
    ('episode 7', 'held-out episode 1', 'a further episode')
    """
    if id >= RESAMPLE_IDS:
        return "a further episode"
    return f"episode {id}" if id < EVAL_IDS else f"held-out episode {id - EVAL_IDS}"


def training_tasks(
    run: int,
    iteration: int,
    *,
    batch_size: int,
    group_size: int,
    options: dict[str, Any] | None,
    mix: Mapping[str, float] | None = None,
) -> list[EpisodeTask]:
    """Return the episodes of an iteration, of a ``mix`` by weight; a group has one environment.

    >>> [(task.id, task.group) for task in training_tasks(0, 1, batch_size=4, group_size=2,
    ...                                                   options=None)]
    [(4, 2), (5, 2), (6, 3), (7, 3)]
    """
    first, groups = iteration * batch_size, batch_size // group_size
    drawn = draw_envs(mix, run, iteration, groups) if mix else []
    each: list[dict[str, Any] | None] = [in_env(options, env_id) for env_id in drawn]
    each = each or [options] * groups
    return [
        EpisodeTask(
            first + at,
            episode_seed(run, (first + at) // group_size),
            (first + at) // group_size,
            each[at // group_size],
        )
        for at in range(batch_size)
    ]


def resample_tasks(tasks: Sequence[EpisodeTask], run: int, attempt: int) -> list[EpisodeTask]:
    """Return episodes to play in place of ``tasks``.

    >>> (task,) = resample_tasks([EpisodeTask(6, 1, 3)], 0, 1)
    >>> task.id - RESAMPLE_IDS, task.group - RESAMPLE_IDS
    (68719476742, 68719476739)
    """
    first = RESAMPLE_IDS + attempt * TRY_IDS
    return [
        EpisodeTask(
            first + task.id, episode_seed(run, first + task.group), first + task.group, task.options
        )
        for task in tasks
    ]


def held_out_tasks(
    numbers: Iterable[int], options: dict[str, Any] | None, env_ids: Sequence[str] = ()
) -> list[EpisodeTask]:
    """Return held-out episodes by number, of each environment in turn; the same every time."""
    each: list[dict[str, Any] | None] = [in_env(options, env_id) for env_id in env_ids]
    each = each or [options]
    return [
        EpisodeTask(EVAL_IDS + at, episode_seed(-1, at), at, each[at % len(each)]) for at in numbers
    ]


def split_tasks(tasks: Sequence[EpisodeTask], size: int | None) -> list[list[EpisodeTask]]:
    """Split tasks into shards of at most ``size``, by id; None makes one shard.

    The last bits of a log-prob depend on the engine's batch and its prefix cache. A shard that is
    played alone and with a cold cache gives the same bits on every actor, also when it is played
    again after a failure.

    >>> tasks = [EpisodeTask(id, seed=0) for id in (2, 0, 1)]
    >>> [[task.id for task in shard] for shard in split_tasks(tasks, 2)]
    [[0, 1], [2]]
    """
    ordered = sorted(tasks, key=attrgetter("id"))
    step = size or max(len(ordered), 1)
    return [ordered[at : at + step] for at in range(0, len(ordered), step)]


Play = Callable[[Sequence[EpisodeTask]], Rollout]
"""Plays episodes and applies the reward function."""


def resample_zero_variance_groups(
    rollout: Rollout,
    tasks: Sequence[EpisodeTask],
    play: Play,
    find_flat: Callable[[Rollout], set[int]],
    *,
    run: int,
    tries: int,
) -> tuple[Rollout, dict[str, float]]:
    """Replace groups that teach nothing by new ones (DAPO's dynamic sampling).

    The batch keeps its size: a group stays if no attempt gives one that teaches. Returns the batch
    and metrics.

    Args:
        rollout: The episodes of ``tasks``, with final rewards.
        tasks: The episodes of this iteration.
        play: Plays the new episodes.
        find_flat: Returns the groups that teach nothing.
        run: The run's seed.
        tries: Most attempts per group.
    """
    first = rollout.episodes
    flat = find_flat(rollout)
    found = {"group/flat_at_first": len(flat) / max(len({task.group for task in tasks}), 1)}
    replaced = played = 0
    for attempt in range(1, tries + 1):
        if not flat:
            break
        named = [task for task in tasks if task.group in flat]
        further = resample_tasks(named, run, attempt)
        stands_for = {new.group: old.group for new, old in zip(further, named, strict=True)}
        fresh = play(further)
        played += len(further)
        kept = {int(episode.group or 0) for episode in fresh.episodes} - find_flat(fresh)
        gone = {stands_for[group] for group in kept}
        stay = [at for at, old in enumerate(rollout.episodes) if int(old.group or 0) not in gone]
        come = [at for at, new in enumerate(fresh.episodes) if new.group in kept]
        parts = rollout.at(stay), fresh.at(come)._replace(unplayed=[], failures=[])
        rollout = join_rollouts(parts)
        flat -= gone
        replaced += len(kept)
    found |= {"group/replaced": float(replaced), "group/played_further": float(played)}
    # Success of the first draw: resampling pulls that of the batch to the middle.
    if first:
        found[metrics.TRAIN_SUCCESS] = sum(each.success for each in first) / len(first)
    return rollout, found
