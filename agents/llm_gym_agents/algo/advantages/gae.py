"""Generalised advantage estimation with a critic: per token and per turn.

Shapes: T sampled tokens of all episodes, E episodes, K turns of all episodes.
"""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from llm_gym.core.errors import ConfigError
from llm_gym.core.settings import check_range
from llm_gym_agents.algo.registry import Advantages, register_advantage
from llm_gym_agents.algo.stream import TokenStream
from llm_gym_agents.algo.tensor_ops import (
    StreamError,
    result_dtype,
    segment_sum,
    spread,
    standardize,
    widen,
)

Discount = Literal["token", "turn"]


@register_advantage("gae", needs_critic=True)
def gae(
    stream: TokenStream,
    *,
    gamma: float = 1.0,
    lam: float = 0.95,
    discount: Discount = "token",
    whiten: bool = True,
) -> Advantages:
    """GAE over the sampled tokens: credit crosses turns, and observations add no discount.

    Args:
        stream: Needs ``value_T``, and ``bootstrap_E`` if an episode was truncated.
        gamma: Discount of one step.
        lam: GAE's lambda of one step.
        discount: The unit of a step. "turn" applies ``gamma`` and ``lam`` only after a turn's last
            token (both are 1 inside a turn), so that a longer answer is not discounted more.
        whiten: Scale the advantages to mean 0 and variance 1 over the stream. The returns use the
            unscaled advantages.
    """
    check_range("gamma", gamma, 0, 1)
    check_range("lam", lam, 0, 1)
    assert stream.value_T is not None, "as needs_critic says"
    value_T, terminated_E = widen(stream.value_T), stream.terminated_E
    if terminated_E is None:
        terminated_E = torch.ones_like(stream.lengths_E)
    terminated_E = terminated_E.bool()
    cut_E = ~terminated_E & (stream.lengths_E > 0)
    if stream.bootstrap_E is not None:
        after_E = torch.where(terminated_E, 0.0, stream.bootstrap_E.to(value_T.dtype))
    elif bool(cut_E.any()):
        raise StreamError(
            "a truncated episode needs bootstrap_E, the value after its final observation, "
            f"got None although episode {int(cut_E.nonzero()[0])} did not terminate"
        )
    else:
        after_E = torch.zeros_like(terminated_E, dtype=value_T.dtype)
    next_T = torch.cat([value_T[1:], value_T[:1]])
    next_T = torch.where(stream.last_T, stream.on_tokens(after_E), next_T)
    gamma_T, lam_T = (step_factor(stream, each, discount) for each in (gamma, lam))
    delta_T = widen(stream.reward_T) + gamma_T * next_T - value_T
    advantages_T = decayed_sums(stream, delta_T, lam_T * gamma_T)
    returns_T = advantages_T + value_T
    if whiten:
        advantages_T = standardize(advantages_T)
    dtype = result_dtype(stream.reward_T, stream.value_T)
    return Advantages(advantages_T.to(dtype), returns_T.to(dtype))


@register_advantage("gae_turn", needs_critic=True)
def gae_turn(
    stream: TokenStream, *, gamma: float = 1.0, lam: float = 0.95, whiten: bool = True
) -> Advantages:
    """GAE with one step per turn; every token of a turn gets the turn's advantage and return.

    The value of a turn is the value at its first token, before the turn was sampled; its reward is
    the sum over its tokens. Turns come from ``turn_ends_T``, not from rewards, so a turn with
    reward 0 counts too.

    Args:
        stream: Needs ``value_T`` and, unless each episode is one turn, ``turn_ends_T``.
        gamma: Discount from one turn to the next.
        lam: GAE's lambda from one turn to the next.
        whiten: Scale the advantages to mean 0 and variance 1 over the tokens of the stream.
    """
    assert stream.value_T is not None, "as needs_critic says"
    value_K = widen(stream.value_T)[stream.turn_starts_K]
    return turn_advantages(stream, value_K, gamma=gamma, lam=lam, whiten=whiten)


def turn_advantages(
    stream: TokenStream, value_K: Tensor, *, gamma: float, lam: float, whiten: bool
) -> Advantages:
    """GAE over turns with the given values before each turn, put on the turn's tokens."""
    turns = TokenStream(
        reward_T=segment_sum(widen(stream.reward_T), stream.turn_lengths_K),
        lengths_E=stream.turns_E,
        value_T=value_K,
        terminated_E=stream.terminated_E,
        bootstrap_E=stream.bootstrap_E,
    )
    advantages_K, returns_K = gae(turns, gamma=gamma, lam=lam, whiten=False)
    advantages_T = spread(advantages_K, stream.turn_lengths_K)
    if whiten:
        advantages_T = standardize(advantages_T)
    dtype = result_dtype(stream.reward_T, stream.value_T)
    return Advantages(advantages_T.to(dtype), spread(returns_K, stream.turn_lengths_K).to(dtype))


def decayed_sums(stream: TokenStream, delta_T: Tensor, decay_T: Tensor) -> Tensor:
    """A_t = delta_t + decay_t * A_{t+1} within each episode, by one loop.

    TorchRL's loop runs over a padded grid of episodes by time. One episode of 100,000 tokens and
    999 short ones would give 100 million cells. ``decay_T`` may be a scalar tensor.
    """
    decay_T = torch.where(stream.last_T, 0.0, decay_T)  # the next token is another episode's
    found, after = [], 0.0
    for delta, decay in zip(delta_T.flip(0).tolist(), decay_T.flip(0).tolist(), strict=True):
        after = delta + after * decay
        found.append(after)
    return torch.tensor(found[::-1], dtype=delta_T.dtype, device=delta_T.device)


def step_factor(stream: TokenStream, factor: float, discount: Discount) -> Tensor:
    """``factor`` for every token, or only for the last token of each turn and 1 elsewhere."""
    if discount not in get_args(Discount):
        raise ConfigError(
            f"discount must be one of {', '.join(get_args(Discount))}, got {discount!r}"
        )
    every = widen(stream.reward_T.new_ones(())) * factor
    return every if discount == "token" else torch.where(stream.turn_ends_T, every, 1.0)
