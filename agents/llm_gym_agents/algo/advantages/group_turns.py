"""Episodes of one start compared turn by turn, instead of by what each earned in all.

A whole episode's score says nothing of which turn earned it, and potential-based shaping adds up
to 0 over an episode: who compares scores does not see it. Here each turn is compared with the same
turn of the group's other episodes, by what it and the turns after it brought. It is what the
authors of GRPO call process supervision.

Shapes: T sampled tokens, E episodes, K turns of all episodes, I items that are compared.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from llm_gym.errors import ConfigError
from llm_gym_agents.algo.advantages.gae import check_fraction, step_factor
from llm_gym_agents.algo.advantages.reinforce import rewards_to_go
from llm_gym_agents.algo.segments import segment_starts, spread
from llm_gym_agents.algo.stream import TokenStream

Credit = Literal["episode", "turn"]


class Compared(NamedTuple):
    """What is compared with what. An item is an episode, or a turn of one."""

    stream: TokenStream
    """Each item as an episode, whose score is compared within ``group_E``."""
    group_I: Tensor
    """The episodes' group that each item is of."""
    size_I: Tensor
    """Episodes of that group. One that is over by some turn has nothing more to come: 0."""


def compared(stream: TokenStream, credit: Credit, gamma: float) -> Compared:
    """Return what to compare.

    With ``turn`` the score of an item is the discounted reward-to-go, and it is compared with the
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
    to_go_T = rewards_to_go(stream, step_factor(stream, gamma, "turn"))
    # At a turn's first token: none of its own rewards has come by then.
    reward_T = torch.zeros_like(to_go_T)
    reward_T[stream.turn_ends_T] = to_go_T[stream.turn_starts_K]
    group_K, size_K = (spread(each_E, stream.turns_E) for each_E in (group_E, size_E))
    number_K = torch.arange(len(group_K), device=group_K.device)
    number_K = number_K - spread(segment_starts(stream.turns_E), stream.turns_E)
    _, same_K = torch.unique(torch.stack([group_K, number_K]), dim=1, return_inverse=True)
    turns = TokenStream(reward_T=reward_T, lengths_E=stream.turn_lengths_K, group_E=same_K)
    return Compared(turns, group_K, size_K)
