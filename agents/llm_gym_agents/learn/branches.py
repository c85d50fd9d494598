"""Branches: episodes that repeat the first turns of another episode and then continue on their own.

Same seed and same actions give the same state, so a branch needs no snapshot. It is an ordinary
task with a ``prefix``: every sampler and every engine plays it, and what it samples depends only on
its parent, the turn and its number. The environment's own random numbers come from the parent's
seed.

Shapes: K turns of all episodes, B visits of states in branches.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from llm_gym.core.splits import stable_hash
from llm_gym.episodes import Trajectory
from llm_gym_agents.algo.advantages.groups import group_ids
from llm_gym_agents.rollouts.mix import in_env
from llm_gym_agents.rollouts.tasks import EpisodeTask, Play, Prefix, Rollout, episode_id

BRANCH_IDS = 2**62
"""First id of branches."""

Place = tuple[int, int]
"""Position of an episode in its rollout, and number of a turn."""


class Branch(NamedTuple):
    """A branch that was played."""

    place: Place
    episode: Trajectory
    """The whole episode, including the turns before the branch."""
    tokens: int
    """Tokens sampled in the branch itself."""

    def to_go(self, gamma: float) -> float:
        return rewards_to_go(self.episode, gamma)[self.place[1]]


def rewards_to_go(episode: Trajectory, gamma: float) -> list[float]:
    """Return the discounted sum of the rewards from each turn on.

    >>> rewards_to_go(Trajectory(rewards=[0.0, 1.0, 2.0]), 0.5)
    [1.0, 2.0, 2.0]
    """
    backwards = reversed(episode.rewards)
    return list(accumulate(backwards, lambda later, reward: reward + gamma * later))[::-1]


def all_places(rollout: Rollout) -> list[Place]:
    """Return every turn of a rollout."""
    return [(at, turn) for at, own in enumerate(rollout.turns) for turn in range(len(own))]


def play_branches(
    play: Play,
    rollout: Rollout,
    places: Iterable[Place],
    count: int,
    *,
    first: int = 0,
    mixed: bool = False,
) -> list[Branch]:
    """Play ``count`` branches from the state before each turn of ``places``.

    Args:
        play: Plays tasks.
        rollout: The parents.
        places: Turns of the parents.
        count: Branches from each place.
        first: Number of the first branch. Branches with other numbers are independent.
        mixed: Whether the run plays several environments, so that a task names its own.
    """
    home: dict[int, Place] = {}
    tasks: list[EpisodeTask] = []
    for at, turn in places:
        parent, turns = rollout.episodes[at], rollout.turns[at]
        prefix = Prefix(parent.states[: turn + 1], parent.actions[:turn], turns[:turn])
        options = in_env(parent.options, str(parent.env_id)) if mixed else parent.options
        assert parent.seed is not None, "as the pool records it"
        for number in range(first, first + count):
            id = stable_hash(f"branch {episode_id(parent)}/{turn}/{number}") | BRANCH_IDS
            group, shared = int(parent.group or 0), prefix if turn else None
            tasks.append(EpisodeTask(id, parent.seed, group, options, shared))
            home[id] = (at, turn)
    if not tasks:
        return []
    played = play(tasks).without_failed()
    found = [
        Branch(
            home[episode_id(episode)],
            episode,
            sum(len(turn.reply_ids) for turn in turns[home[episode_id(episode)][1] :]),
        )
        for episode, turns in zip(played.episodes, played.turns, strict=True)
    ]
    return sorted(found, key=lambda each: (each.place, episode_id(each.episode)))


# --- tensors ---------------------------------------------------------------------------------


def state_tensors(
    rollout: Rollout, branches: Sequence[Branch] = (), gamma: float = 1.0
) -> dict[str, Tensor]:
    """Return the fields of ``TokenStream`` about states, of turns and of visits in branches."""
    visited = [
        (episode.group, key, potential)
        for episode in rollout.episodes
        for key, potential in states(episode)
    ]
    places = {place: number for number, place in enumerate(all_places(rollout))}
    seen = [
        (branch.episode.group, key, to_go, places[branch.place] if turn == branch.place[1] else -1)
        for branch in branches
        for turn, ((key, _), to_go) in enumerate(
            zip(states(branch.episode), rewards_to_go(branch.episode, gamma), strict=True)
        )
        if turn >= branch.place[1]
    ]
    ids = group_ids([(group, key) for group, key, *_ in (*visited, *seen)])
    found = {
        "state_K": ids[: len(visited)],
        "potential_K": torch.tensor([each[2] for each in visited], dtype=torch.float64),
    }
    if branches:
        found |= {
            "branch_state_B": ids[len(visited) :],
            "branch_return_B": torch.tensor([each[2] for each in seen], dtype=torch.float64),
            "branch_turn_B": torch.tensor([each[3] for each in seen]),
        }
    return found


def states(episode: Trajectory) -> Iterator[tuple[str, float]]:
    """Yield key and potential of the state before each turn; NaN where there is no potential."""
    before = [episode.reset_info or {}, *episode.infos]
    for turn in range(len(episode.rewards)):
        key = before[turn].get("state_key", f"{turn}\n{episode.states[turn]}")
        yield str(key), float(before[turn].get("potential", float("nan")))
