"""Advantages from comparing the episodes of one start, without a critic.

An episode's score is the undiscounted sum of its rewards. Each estimator turns the scores of a
group into one number per episode and puts it on every token of the episode. With
``credit="turn"`` it computes one number per turn, see ``compared``. An episode without sampled
tokens is in no group and counts in no statistic.

If all other episodes of a group failed, the remaining one gets the advantage 0.

Shapes: T sampled tokens of all episodes, E episodes, G groups.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from llm_gym.core.errors import ConfigError
from llm_gym_agents.algo.advantages.gae import check_fraction, step_factor
from llm_gym_agents.algo.advantages.reinforce import rewards_to_go
from llm_gym_agents.algo.registry import Advantages, register_advantage
from llm_gym_agents.algo.stream import TokenStream
from llm_gym_agents.algo.tensor_ops import result_dtype, segment_starts, spread, standardize


@register_advantage("grpo", needs_groups=True)
def grpo(
    stream: TokenStream,
    *,
    norm_by_std: bool = True,
    epsilon: float = 1e-6,
    credit: Credit = "episode",
    gamma: float = 1.0,
) -> Advantages:
    """The score in standard deviations from its group's mean.

    Args:
        stream: Needs ``group_E``.
        norm_by_std: Divide by the group's unbiased standard deviation. False is ``dr_grpo``.
        epsilon: Added to the standard deviation; equal scores give 0.
        credit: Compare the scores of whole episodes, or the reward-to-go of each turn.
        gamma: Discount from one turn to the next, if turns are compared.
    """
    one, group_I, size_I = compared(stream, credit, gamma)
    mean_I = _Groups(one).sum(one.scores_E) / size_I.clamp(min=1)
    centred_I = torch.where(size_I > 1, one.scores_E - mean_I, 0.0)
    if norm_by_std:
        # The deviation of the whole group: that of a single turn number would be too noisy.
        centred_I = centred_I / (_Groups(one, group_I).std(centred_I) + epsilon)
    return _on_tokens(one, centred_I, result_dtype(stream.reward_T))


@register_advantage("dr_grpo", needs_groups=True)
def dr_grpo(stream: TokenStream, *, credit: Credit = "episode", gamma: float = 1.0) -> Advantages:
    """The score minus its group's mean, so that easy and hard starts weigh the same."""
    return grpo(stream, norm_by_std=False, credit=credit, gamma=gamma)


@register_advantage("rloo", needs_groups=True)
def rloo(stream: TokenStream, *, credit: Credit = "episode", gamma: float = 1.0) -> Advantages:
    """The score minus the mean score of the *other* episodes of its group; 0 if there is none."""
    one, _, size_I = compared(stream, credit, gamma)
    others_I = _Groups(one).sum(one.scores_E) - one.scores_E
    left_out_I = others_I / (size_I - 1).clamp(min=1)
    led_I = torch.where(size_I > 1, one.scores_E - left_out_I, 0.0)
    return _on_tokens(one, led_I, result_dtype(stream.reward_T))


@register_advantage("reinforce_plus_plus_baseline", needs_groups=True)
def reinforce_plus_plus_baseline(stream: TokenStream, *, whiten: bool = True) -> Advantages:
    """The centred score, whitened over the tokens of the whole batch instead of per group."""
    groups = _Groups(stream)
    centred_E = stream.scores_E - groups.baseline(stream.scores_E)
    centred = _on_tokens(stream, centred_E, result_dtype(stream.reward_T))
    if not whiten:
        return centred
    return centred._replace(advantages_T=standardize(centred.advantages_T))


def group_ids(index: Tensor | Iterable[Hashable], *, device: torch.device | None = None) -> Tensor:
    """Integer ids for any labels of the starts: strings, uuids, numbers, an array or a tensor.

    >>> group_ids(["b", "a", "b"])
    tensor([0, 1, 0])
    """
    labels = index.tolist() if isinstance(index, Tensor) else list(index)
    numbers: dict[Hashable, int] = {}
    return torch.tensor(
        [numbers.setdefault(label, len(numbers)) for label in labels],
        dtype=torch.int64,
        device=device,
    )


class _Groups:
    """Statistics of the groups of a stream, one value per episode."""

    def __init__(self, stream: TokenStream, group_E: Tensor | None = None) -> None:
        self.played_E = stream.lengths_E > 0
        group_E = stream.group_E if group_E is None else group_E
        names_G, self._group_E = torch.unique(group_E, return_inverse=True)
        self._count = len(names_G)
        self.size_E = self.sum(torch.ones_like(stream.scores_E))

    def sum(self, values_E: Tensor) -> Tensor:
        zeros_G = values_E.new_zeros(self._count)
        played_E = torch.where(self.played_E, values_E, 0.0)
        return zeros_G.index_add(0, self._group_E, played_E)[self._group_E]

    def baseline(self, scores_E: Tensor) -> Tensor:
        """The mean score of each episode's group.

        An episode that is alone in its group is compared with itself: its advantage is 0.
        """
        mean_E = self.sum(scores_E) / self.size_E.clamp(min=1.0)
        return torch.where(self.size_E > 1, mean_E, scores_E)

    def std(self, centred_E: Tensor) -> Tensor:
        """The unbiased standard deviation of each episode's group; 1 for a group of one."""
        squares_E = self.sum(centred_E.square())
        std_E = (squares_E / (self.size_E - 1).clamp(min=1)).sqrt()
        return torch.where(self.size_E > 1, std_E, 1.0)


def _on_tokens(stream: TokenStream, advantages_E: Tensor, dtype: torch.dtype) -> Advantages:
    return Advantages(
        stream.on_tokens(advantages_E).to(dtype), stream.on_tokens(stream.scores_E).to(dtype)
    )


# --- credit per turn ------------------------------------------------------------------

Credit = Literal["episode", "turn"]


class Compared(NamedTuple):
    """The items to compare and their groups. An item is an episode or a turn."""

    stream: TokenStream
    """The items as episodes, whose scores are compared within ``group_E``."""
    group_I: Tensor
    """The group of the item's episode."""
    size_I: Tensor
    """Episodes in that group. An episode that is over before a turn counts there with score 0."""


def compared(stream: TokenStream, credit: Credit, gamma: float) -> Compared:
    """Return the items to compare.

    With ``turn``, the score of an item is its discounted reward-to-go; it is compared with the
    turns of the same number in its group.
    """
    if credit not in get_args(Credit):
        raise ConfigError(f"credit must be one of {', '.join(get_args(Credit))}, got {credit!r}")
    check_fraction("gamma", gamma)
    assert stream.group_E is not None
    _, group_E = torch.unique(stream.group_E, return_inverse=True)
    size_E = torch.bincount(group_E[stream.lengths_E > 0], minlength=len(group_E))[group_E]
    if credit == "episode":
        return Compared(stream, group_E, size_E)
    group_K, size_K = (spread(each_E, stream.turns_E) for each_E in (group_E, size_E))
    number_K = torch.arange(len(group_K), device=group_K.device)
    number_K = number_K - spread(segment_starts(stream.turns_E), stream.turns_E)
    _, same_K = torch.unique(torch.stack([group_K, number_K]), dim=1, return_inverse=True)
    return Compared(turn_items(stream, gamma, same_K), group_K, size_K)


def turns_to_go(stream: TokenStream, gamma: float) -> Tensor:
    """Return the discounted reward-to-go of each turn."""
    # At the first token of a turn, so that all rewards of the turn are included.
    return rewards_to_go(stream, step_factor(stream, gamma, "turn"))[stream.turn_starts_K]


def turn_items(stream: TokenStream, gamma: float, group_K: Tensor) -> TokenStream:
    """Return each turn as an episode with its reward-to-go as score, in the given groups."""
    to_go_K = turns_to_go(stream, gamma)
    reward_T = to_go_K.new_zeros(stream.reward_T.shape)
    reward_T[stream.turn_ends_T] = to_go_K
    return TokenStream(reward_T=reward_T, lengths_E=stream.turn_lengths_K, group_E=group_K)
