"""``RolloutData``: the sampled tokens of a batch of episodes, flat, with what the model read.

A *sequence* is what the model reads in one go: a whole episode in history context, one turn in
observation context, and after a truncated episode one more position, where its value is taken
for the bootstrap. Sequences lie one after another in ``ids``; nothing is padded.

Shapes: S ids of all sequences, Q sequences, T sampled tokens, K turns, E episodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import torch
from tensordict import TensorClass
from torch import Tensor

from llm_gym.episodes import Trajectory
from llm_gym.errors import ConfigError
from llm_gym.outcome import TERMINAL
from llm_gym_agents.policy import LLMPolicy, Turn

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
    counts = [len(turn.reply_ids) for turn in flat]
    ends_T = torch.zeros(sum(counts), dtype=torch.bool)
    ends_T[torch.tensor(counts).cumsum(0) - 1] = True
    reward_T = torch.zeros(sum(counts))
    reward_T[ends_T] = torch.tensor([r for episode in episodes for r in episode.rewards])
    starts = torch.tensor([0, *(len(part.ids) for part in parts)]).cumsum(0)[:-1].tolist()
    return RolloutData(
        ids_S=torch.tensor(list(chain.from_iterable(part.ids for part in parts))),
        sequence_lengths_Q=torch.tensor([n for part in parts for n in part.sequence_lengths]),
        position_T=torch.tensor(
            [s + at for s, part in zip(starts, parts, strict=True) for at in part.positions]
        ),
        action_T=torch.tensor(list(chain.from_iterable(turn.reply_ids for turn in flat))),
        sampler_log_prob_T=torch.tensor(
            list(chain.from_iterable(turn.log_probs for turn in flat)), dtype=torch.float32
        ),
        version_T=torch.tensor([turn.version for turn in flat]).repeat_interleave(
            torch.tensor(counts)
        ),
        turn_ends_T=ends_T,
        reward_T=reward_T,
        lengths_E=torch.tensor([len(part.positions) for part in parts]),
        sequences_E=torch.tensor([len(part.sequence_lengths) for part in parts]),
        terminated_E=torch.tensor([e.stop_reason in TERMINAL for e in episodes]),
        bootstrap_E=torch.tensor(
            [
                NO_POSITION if part.bootstrap == NO_POSITION else s + part.bootstrap
                for s, part in zip(starts, parts, strict=True)
            ]
        ),
        group_E=torch.tensor([episode.group or 0 for episode in episodes]),
        episode_E=torch.tensor([episode.episode_id for episode in episodes]),
        batch_size=[],
    )


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
