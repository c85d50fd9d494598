"""Advantages from turns that were taken in the same state, without a critic.

``gigpo`` compares such turns with each other. ``state_td`` makes a table of state values. ``vine``
plays branches (extra episodes) from each state. Without a critic, a truncated episode cannot be
bootstrapped, so its return ends where it was cut.

Shapes: T sampled tokens of all episodes, E episodes, K turns, B visits in branches, S states.
"""

from dataclasses import replace

import torch
from torch import Tensor

from llm_gym.core.settings import check_range
from llm_gym_agents.algo.advantages.gae import turn_advantages
from llm_gym_agents.algo.advantages.groups import grpo, turn_items, turns_to_go
from llm_gym_agents.algo.registry import Advantages, register_advantage
from llm_gym_agents.algo.stream import TokenStream
from llm_gym_agents.algo.tensor_ops import StreamError, spread, widen


@register_advantage("gigpo", needs_groups=True, needs_states=True)
def gigpo(
    stream: TokenStream,
    *,
    step_weight: float = 1.0,
    norm_by_std: bool = True,
    epsilon: float = 1e-6,
    gamma: float = 1.0,
) -> Advantages:
    """``grpo`` of episodes plus ``grpo`` of the turns taken in one state (GiGPO, 2505.10978).

    Args:
        stream: Needs ``group_E`` and ``state_K``.
        step_weight: Weight of the second part, which is 0 for a state that occurs once.
        norm_by_std: Divide each part by its group's standard deviation.
        epsilon: Added to the standard deviation.
        gamma: Discount from one turn to the next in a turn's reward to go.
    """
    assert stream.state_K is not None, "as needs_states says"
    check_range("gamma", gamma, 0, 1)
    of_states = turn_items(stream, gamma, stream.state_K)
    whole, steps = (
        grpo(each, norm_by_std=norm_by_std, epsilon=epsilon) for each in (stream, of_states)
    )
    summed_T = widen(whole.advantages_T) + step_weight * widen(steps.advantages_T)
    return whole._replace(advantages_T=summed_T.to(whole.advantages_T.dtype))


@register_advantage("state_td", needs_groups=True, needs_states=True)
def state_td(
    stream: TokenStream,
    *,
    shrinkage: float = 4.0,
    table_lambda: float = 0.0,
    branches: int = 0,
    gamma: float = 1.0,
    whiten: bool = True,
) -> Advantages:
    """TD errors of a table of state values, which are shrunk towards the game's potential.

    The value of a state is (sum of the returns of its visits + c prior) / (visits + c). The prior
    is the least-squares line of returns over the potential, fitted in each group; without a
    potential it is the group's mean return.

    Args:
        stream: Needs ``group_E`` and ``state_K``; ``potential_K`` and visits in branches are
            optional.
        shrinkage: c, the number of visits that the prior is worth. 0 is the plain table.
        table_lambda: GAE's lambda over turns. 0 uses the table only, 1 the episode's return only.
        branches: Branches to play from every state; their visits count in the table too.
        gamma: Discount from one turn to the next.
        whiten: Scale the advantages to mean 0 and variance 1 over the tokens of the stream.
    """
    check_range("table_lambda", table_lambda, 0, 1)
    check_range("shrinkage", shrinkage, 0)
    _check_branches(stream, branches, least=0)
    value_K = _table(stream, shrinkage, gamma)
    return _on_turns(stream, value_K, gamma=gamma, lam=table_lambda, whiten=whiten)


@register_advantage("vine", needs_states=True)
def vine(
    stream: TokenStream, *, branches: int = 4, gamma: float = 1.0, whiten: bool = True
) -> Advantages:
    """R + gamma V(s') - V(s), with V the mean return of branches from the state (VinePPO).

    If all branches of a state failed, its value is the episode's return.

    Args:
        stream: Needs ``state_K`` and branches.
        branches: Number of branches to play from every state.
        gamma: Discount from one turn to the next.
        whiten: Scale the advantages to mean 0 and variance 1 over the tokens of the stream.
    """
    _check_branches(stream, branches, least=1)
    assert stream.branch_turn_B is not None
    assert stream.branch_return_B is not None
    own_K = turns_to_go(stream, gamma)
    value_K = _means(stream.branch_turn_B, stream.branch_return_B, own_K)
    return _on_turns(stream, value_K, gamma=gamma, lam=0.0, whiten=whiten)


def _check_branches(stream: TokenStream, branches: int, least: int) -> None:
    check_range("branches", branches, least)
    if branches and stream.branch_turn_B is None:
        raise StreamError("branches need branch_turn_B, the visits of states in them, got None")


def _on_turns(
    stream: TokenStream, value_K: Tensor, *, gamma: float, lam: float, whiten: bool
) -> Advantages:
    """Return GAE over turns with the given values, and the reward-to-go, on tokens."""
    ended = replace(stream, value_T=None, terminated_E=None, bootstrap_E=None)
    found = turn_advantages(ended, value_K, gamma=gamma, lam=lam, whiten=whiten)
    to_go_T = spread(turns_to_go(stream, gamma), stream.turn_lengths_K)
    return found._replace(returns_T=to_go_T.to(found.advantages_T.dtype))


def _table(stream: TokenStream, shrinkage: float, gamma: float) -> Tensor:
    assert stream.state_K is not None, "as needs_states says"
    to_go_K = turns_to_go(stream, gamma)
    state_V, return_V = stream.state_K, to_go_K
    if stream.branch_state_B is not None and stream.branch_return_B is not None:
        state_V = torch.cat([state_V, stream.branch_state_B])
        return_V = torch.cat([return_V, stream.branch_return_B.to(to_go_K)])
    states = int(state_V.max()) + 1 if state_V.numel() else 0
    sums_S = to_go_K.new_zeros(states).index_add(0, state_V, return_V)
    visits_S = to_go_K.new_zeros(states).index_add(0, state_V, torch.ones_like(return_V))
    prior_K = _prior(stream, to_go_K) if shrinkage else torch.zeros_like(to_go_K)
    own_K = stream.state_K
    return (sums_S[own_K] + shrinkage * prior_K) / (visits_S[own_K] + shrinkage)


def _prior(stream: TokenStream, to_go_K: Tensor) -> Tensor:
    """Return the prior at each turn: a line of returns over the potential, fitted in each group.

    It is clipped to the returns of its group, because a line through few states may leave them.
    """
    assert stream.group_E is not None, "as needs_groups says"
    _, group_E = torch.unique(stream.group_E, return_inverse=True)
    group_K = spread(group_E, stream.turns_E)
    zeros_G = to_go_K.new_zeros(len(group_E))

    def mean(of_K: Tensor) -> Tensor:
        return _means(group_K, of_K, zeros_G)[group_K]

    x_K = torch.zeros_like(to_go_K)
    if stream.potential_K is not None:
        everywhere_K = mean(stream.potential_K.isfinite().to(to_go_K)) == 1.0
        x_K = torch.where(everywhere_K, stream.potential_K.to(to_go_K), 0.0)
    x_K, y_K = x_K - mean(x_K), to_go_K - mean(to_go_K)
    spread_K = mean(x_K * x_K)
    slope_K = torch.where(spread_K > 1e-12, mean(x_K * y_K) / spread_K.clamp(min=1e-12), 0.0)
    line_K = mean(to_go_K) + slope_K * x_K
    low_G, high_G = (
        zeros_G.scatter_reduce(0, group_K, to_go_K, how, include_self=False)
        for how in ("amin", "amax")
    )
    return torch.minimum(torch.maximum(line_K, low_G[group_K]), high_G[group_K])


def _means(at_B: Tensor, of_B: Tensor, otherwise_K: Tensor) -> Tensor:
    """Return the mean of ``of_B`` at each index in ``at_B``; ``otherwise_K`` for other indices.

    >>> _means(torch.tensor([0, 0, -1]), torch.tensor([1.0, 3.0, 9.0]), torch.tensor([5.0, 7.0]))
    tensor([2., 7.])
    """
    kept_B = at_B >= 0
    at_B, of_B = at_B[kept_B], of_B[kept_B].to(otherwise_K)
    zeros_K = torch.zeros_like(otherwise_K)
    counts_K = zeros_K.index_add(0, at_B, torch.ones_like(of_B))
    sums_K = zeros_K.index_add(0, at_B, of_B)
    return torch.where(counts_K > 0, sums_K / counts_K.clamp(min=1.0), otherwise_K)
