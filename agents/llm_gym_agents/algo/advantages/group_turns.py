"""Episodes of one start compared turn by turn, instead of by what each earned in all.

A whole episode's score says nothing of which turn earned it, and potential-based shaping adds up
to 0 over an episode: who compares scores does not see it. Here each turn is compared with the same
turn of the group's other episodes, by what it and the turns after it brought. It is what the
authors of GRPO call process supervision.

Shapes: T sampled tokens, E episodes, K turns of all episodes.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from llm_gym.errors import ConfigError
from llm_gym_agents.algo.advantages.gae import check_fraction, step_factor
from llm_gym_agents.algo.advantages.reinforce import rewards_to_go
from llm_gym_agents.algo.segments import segment_starts, spread
from llm_gym_agents.algo.stream import TokenStream

Credit = Literal["episode", "turn"]


def compared(stream: TokenStream, credit: Credit, gamma: float) -> tuple[TokenStream, Tensor]:
    """Return the stream whose scores are compared, and the group of each of them.

    With ``turn`` each turn is an episode of its own there: its score is the discounted reward-to-go
    and its ``group_E`` the turns of the same number in its group.
    """
    if credit not in get_args(Credit):
        raise ConfigError(f"credit must be one of {', '.join(get_args(Credit))}, got {credit!r}")
    check_fraction("gamma", gamma)
    assert stream.group_E is not None
    if credit == "episode":
        return stream, stream.group_E
    to_go_T = rewards_to_go(stream, step_factor(stream, gamma, "turn"))
    whole_K = spread(stream.group_E, stream.turns_E)
    number_K = torch.arange(len(whole_K), device=whole_K.device)
    number_K = number_K - spread(segment_starts(stream.turns_E), stream.turns_E)
    _, group_K = torch.unique(torch.stack([whole_K, number_K]), dim=1, return_inverse=True)
    # At a turn's first token: none of its own rewards has come by then.
    reward_T = torch.zeros_like(to_go_T)
    reward_T[stream.turn_ends_T] = to_go_T[stream.turn_starts_K]
    turns = TokenStream(
        reward_T=reward_T,
        lengths_E=stream.turn_lengths_K,
        group_E=group_K,
    )
    return turns, whole_K
