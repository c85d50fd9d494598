"""``RolloutData``: the sampled tokens of a batch of episodes, flat, with what the model read.

A *sequence* is what the model reads in one go: a whole episode in history context, one turn in
observation context, and after a truncated episode one more position, where its value is taken
for the bootstrap. Sequences lie one after another in ``ids``; nothing is padded.

Shapes: S ids of all sequences, Q sequences, T sampled tokens, K turns, E episodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import torch
from tensordict import TensorClass
from torch import Tensor

from llm_gym.core.outcome import TERMINAL
from llm_gym.episodes import Trajectory
from llm_gym.errors import ConfigError
from llm_gym_agents.algo.segments import segment_starts, spread
from llm_gym_agents.rollouts.policy import LLMPolicy, Turn

NO_POSITION = -1


class RolloutData(TensorClass):
    """Episodes in id order, their turns in order, their sampled tokens in order."""

    ids_S: Tensor
    sequence_lengths_Q: Tensor
    position_T: Tensor
    """Index into ``ids_S`` of the position that predicts each sampled token."""
    action_T: Tensor
    """The sampled ids."""
    sampler_log_prob_T: Tensor
    version_T: Tensor
    """Version of the weights that sampled each token."""
    turn_ends_T: Tensor
    """True on the last sampled token of each turn."""
    reward_T: Tensor
    """A turn's reward, on its last sampled token."""
    lengths_E: Tensor
    """Sampled tokens of each episode."""
    sequences_E: Tensor
    """Sequences of each episode."""
    terminated_E: Tensor
    bootstrap_E: Tensor
    """Index into ``ids_S`` where a truncated episode's value is read, else ``NO_POSITION``."""
    group_E: Tensor
    episode_E: Tensor

    @property
    def tokens(self) -> int:
        """Sampled tokens."""
        return self.action_T.numel()


def assemble(
    turns: Sequence[Sequence[Turn]], episodes: Sequence[Trajectory], policy: LLMPolicy
) -> RolloutData:
    """Return the tokens of ``episodes``, whose turns are ``turns``.

    Every episode has at least one turn, and as many turns as rewards: that is checked, because a
    reward without a token to sit on would be lost.
    """
    parts = [
        _episode(list(own), episode, policy) for own, episode in zip(turns, episodes, strict=True)
    ]
    flat = [turn for own in turns for turn in own]
    counts_K = _whole(len(turn.reply_ids) for turn in flat)
    tokens = int(counts_K.sum())
    ends_T = torch.zeros(tokens, dtype=torch.bool)
    ends_T[counts_K.cumsum(0) - 1] = True
    reward_T = torch.zeros(tokens)
    reward_T[ends_T] = torch.tensor([r for e in episodes for r in e.rewards], dtype=torch.float32)
    first_E = segment_starts(_whole(len(part.ids) for part in parts))
    lengths_E = _whole(len(part.positions) for part in parts)
    bootstrap_E = _whole(part.bootstrap for part in parts)
    return RolloutData(
        ids_S=_whole(chain.from_iterable(part.ids for part in parts)),
        sequence_lengths_Q=_whole(n for part in parts for n in part.sequence_lengths),
        position_T=_whole(chain.from_iterable(part.positions for part in parts))
        + spread(first_E, lengths_E),
        action_T=_whole(chain.from_iterable(turn.reply_ids for turn in flat)),
        sampler_log_prob_T=torch.tensor(
            list(chain.from_iterable(turn.log_probs for turn in flat)), dtype=torch.float32
        ),
        version_T=spread(_whole(turn.version for turn in flat), counts_K),
        turn_ends_T=ends_T,
        reward_T=reward_T,
        lengths_E=lengths_E,
        sequences_E=_whole(len(part.sequence_lengths) for part in parts),
        terminated_E=torch.tensor([e.stop_reason in TERMINAL for e in episodes], dtype=torch.bool),
        bootstrap_E=torch.where(bootstrap_E == NO_POSITION, NO_POSITION, bootstrap_E + first_E),
        group_E=_whole(int(episode.group or 0) for episode in episodes),
        episode_E=_whole(int(episode.episode_id or 0) for episode in episodes),
        batch_size=[],
    )


def _whole(numbers: Iterable[int]) -> Tensor:
    return torch.tensor(list(numbers), dtype=torch.int64)


class _Part:
    """One episode's sequences, with positions counted from its own first id."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.sequence_lengths: list[int] = []
        self.positions: list[int] = []
        self.bootstrap = NO_POSITION

    def read(self, ids: list[int], *, same_sequence: bool) -> None:
        """Append ids to the last sequence, or begin a new one with them."""
        if same_sequence and self.sequence_lengths:
            self.sequence_lengths[-1] += len(ids)
        else:
            self.sequence_lengths.append(len(ids))
        self.ids += ids


def _episode(turns: list[Turn], episode: Trajectory, policy: LLMPolicy) -> _Part:
    _check(turns, episode)
    part, history = _Part(), policy.context == "history"
    for turn in turns:
        part.read(turn.prompt_ids, same_sequence=history)
        first = len(part.ids) - 1
        part.positions += range(first, first + len(turn.reply_ids))
        part.read(turn.reply_ids, same_sequence=True)
    if episode.stop_reason not in TERMINAL:
        final = episode.final_state or ""
        limit = policy.engine.context_length
        if history:
            room = limit - part.sequence_lengths[-1]
            part.read(policy.chat.following(turns[-1].reply_ids, final)[:room], same_sequence=True)
        else:
            system = policy.rules_for((episode.reset_info or {}).get("system_prompt", ""))
            part.read(policy.chat.opening(system, final)[:limit], same_sequence=False)
        part.bootstrap = len(part.ids) - 1
    return part


def _check(turns: list[Turn], episode: Trajectory) -> None:
    if len(turns) != len(episode.rewards) or not turns:
        raise ConfigError(
            f"episode {episode.episode_id} must have one reward per sampled turn, got "
            f"{len(episode.rewards)} rewards for {len(turns)} turns"
        )
    if [turn.number for turn in turns] != list(range(len(turns))):
        raise ConfigError(f"the turns of episode {episode.episode_id} are not in order")
