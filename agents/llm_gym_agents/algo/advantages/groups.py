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
from llm_gym.core.settings import check_range
from llm_gym_agents.algo.advantages.gae import step_factor
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
    items = compared(stream, credit, gamma)
    centred_I = items.centred_I
    if norm_by_std:
        # The deviation of the whole group: that of a single turn number would be too noisy.
        centred_I = centred_I / (items.std(centred_I) + epsilon)
    return items.on_tokens(centred_I, result_dtype(stream.reward_T))


@register_advantage("dr_grpo", needs_groups=True)
def dr_grpo(stream: TokenStream, *, credit: Credit = "episode", gamma: float = 1.0) -> Advantages:
    """The score minus its group's mean, so that easy and hard starts weigh the same."""
    return grpo(stream, norm_by_std=False, credit=credit, gamma=gamma)


@register_advantage("rloo", needs_groups=True)
def rloo(stream: TokenStream, *, credit: Credit = "episode", gamma: float = 1.0) -> Advantages:
    """The score minus the mean score of the *other* episodes of its group; 0 if there is none."""
    items = compared(stream, credit, gamma)
    score_I, others = items.stream.scores_E, (items.size_I - 1).clamp(min=1)
    led_I = torch.where(items.size_I > 1, score_I - (items.sum_I - score_I) / others, 0.0)
    return items.on_tokens(led_I, result_dtype(stream.reward_T))


@register_advantage("reinforce_plus_plus_baseline", needs_groups=True)
def reinforce_plus_plus_baseline(stream: TokenStream, *, whiten: bool = True) -> Advantages:
    """The centred score, whitened over the tokens of the whole batch instead of per group."""
    episodes = compared(stream, "episode", 1.0)
    centred = episodes.on_tokens(episodes.centred_I, result_dtype(stream.reward_T))
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

    @property
    def sum_I(self) -> Tensor:
        """The sum of the scores with which each item is compared, its own included."""
        assert self.stream.group_E is not None
        return self._sum(self.stream.scores_E, self.stream.group_E)

    @property
    def centred_I(self) -> Tensor:
        """Scores minus their mean; 0 for an episode that is alone in its group."""
        mean_I = self.sum_I / self.size_I.clamp(min=1)
        return torch.where(self.size_I > 1, self.stream.scores_E - mean_I, 0.0)

    def std(self, centred_I: Tensor) -> Tensor:
        """The unbiased standard deviation of each item's group; 1 for a group of one."""
        count_I = self._sum(torch.ones_like(centred_I), self.group_I)
        squares_I = self._sum(centred_I.square(), self.group_I)
        return torch.where(count_I > 1, (squares_I / (count_I - 1).clamp(min=1)).sqrt(), 1.0)

    def _sum(self, values_I: Tensor, group_I: Tensor) -> Tensor:
        names_G, at_I = torch.unique(group_I, return_inverse=True)
        played_I = torch.where(self.stream.lengths_E > 0, values_I, 0.0)
        return values_I.new_zeros(len(names_G)).index_add(0, at_I, played_I)[at_I]

    def on_tokens(self, advantages_I: Tensor, dtype: torch.dtype) -> Advantages:
        on_tokens, scores_I = self.stream.on_tokens, self.stream.scores_E
        return Advantages(on_tokens(advantages_I).to(dtype), on_tokens(scores_I).to(dtype))


def compared(stream: TokenStream, credit: Credit, gamma: float) -> Compared:
    """Return the items to compare.

    With ``turn``, the score of an item is its discounted reward-to-go; it is compared with the
    turns of the same number in its group.
    """
    if credit not in get_args(Credit):
        raise ConfigError(f"credit must be one of {', '.join(get_args(Credit))}, got {credit!r}")
    check_range("gamma", gamma, 0, 1)
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
