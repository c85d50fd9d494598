"""Episodes become tensors: the turns of a rollout, laid out as ``RolloutData``.

Rewards are final by now: whoever wants other ones than the environment's settles them first.

Shapes: T sampled tokens, K turns, E episodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import torch
from torch import Tensor

from llm_gym.core.outcome import TERMINAL
from llm_gym.episodes import Trajectory
from llm_gym.errors import ConfigError
from llm_gym_agents.algo.segments import segment_starts, spread
from llm_gym_agents.batch.rollout_data import NO_POSITION, RolloutData, moved
from llm_gym_agents.rollouts.turns import Closing, Rollout, Turn


def assemble(rollout: Rollout) -> RolloutData:
    """Return the tokens of the episodes that were played.

    Every episode has at least one turn, and as many turns as rewards: that is checked, because a
    reward without a token to sit on would be lost.
    """
    episodes = rollout.episodes
    parts = [
        _episode(turns, closing, episode)
        for turns, closing, episode in zip(rollout.turns, rollout.closings, episodes, strict=True)
    ]
    flat = [turn for own in rollout.turns for turn in own]
    counts_K = _whole(len(turn.reply_ids) for turn in flat)
    tokens = int(counts_K.sum())
    turn_ends_T = torch.zeros(tokens, dtype=torch.bool)
    turn_ends_T[counts_K.cumsum(0) - 1] = True
    reward_T = torch.zeros(tokens)
    reward_T[turn_ends_T] = _real(reward for episode in episodes for reward in episode.rewards)
    first_E = segment_starts(_whole(len(part.ids) for part in parts))
    lengths_E = _whole(len(part.positions) for part in parts)
    return RolloutData(
        ids_S=_whole(chain.from_iterable(part.ids for part in parts)),
        sequence_lengths_Q=_whole(n for part in parts for n in part.sequence_lengths),
        position_T=_whole(chain.from_iterable(part.positions for part in parts))
        + spread(first_E, lengths_E),
        token_T=_whole(chain.from_iterable(turn.reply_ids for turn in flat)),
        sampler_log_prob_T=_real(chain.from_iterable(turn.log_probs for turn in flat)),
        version_T=spread(_whole(turn.version for turn in flat), counts_K),
        turn_ends_T=turn_ends_T,
        reward_T=reward_T,
        lengths_E=lengths_E,
        sequences_E=_whole(len(part.sequence_lengths) for part in parts),
        terminated_E=torch.tensor([e.stop_reason in TERMINAL for e in episodes], dtype=torch.bool),
        bootstrap_E=moved(_whole(part.bootstrap for part in parts), first_E),
        group_E=_whole(int(episode.group or 0) for episode in episodes),
        episode_E=_whole(int(episode.episode_id or 0) for episode in episodes),
        batch_size=[],
    )


def _whole(numbers: Iterable[int]) -> Tensor:
    return torch.tensor(list(numbers), dtype=torch.int64)


def _real(numbers: Iterable[float]) -> Tensor:
    return torch.tensor(list(numbers), dtype=torch.float32)


class _Part:
    """One episode's sequences, with positions counted from its own first id."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.sequence_lengths: list[int] = []
        self.positions: list[int] = []
        self.bootstrap = NO_POSITION

    def read(self, ids: list[int], *, new_sequence: bool = False) -> None:
        """Append ids to the last sequence, or begin a new one with them."""
        if new_sequence:
            self.sequence_lengths.append(0)
        self.sequence_lengths[-1] += len(ids)
        self.ids += ids


def _episode(turns: Sequence[Turn], closing: Closing | None, episode: Trajectory) -> _Part:
    _check(turns, episode)
    part = _Part()
    for turn in turns:
        part.read(turn.prompt_ids, new_sequence=turn.new_sequence)
        first = len(part.ids) - 1
        part.positions += range(first, first + len(turn.reply_ids))
        part.read(turn.reply_ids)
    if closing is not None:
        part.read(closing.ids, new_sequence=closing.new_sequence)
        part.bootstrap = len(part.ids) - 1
    return part


def _check(turns: Sequence[Turn], episode: Trajectory) -> None:
    if len(turns) != len(episode.rewards) or not turns:
        raise ConfigError(
            f"episode {episode.episode_id} must have one reward per sampled turn, got "
            f"{len(episode.rewards)} rewards for {len(turns)} turns"
        )
    if [turn.number for turn in turns] != list(range(len(turns))):
        raise ConfigError(f"the turns of episode {episode.episode_id} are not in order")
