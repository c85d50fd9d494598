"""Generalised advantages of a flat stream, in time linear in its tokens.

The recursion A_t = delta_t + gamma * lam * A_{t+1} is TorchRL's own loop. It takes one step for
all rows of a grid at once, so it is fast when the rows are many and equally long, which episodes
are not: one of 100,000 tokens beside 999 short ones would cost a grid of 100 million cells and
100,000 steps. Therefore episodes are cut into blocks of one length, TorchRL runs on the grid of
blocks, and the sums that should have crossed a block's end are added afterwards:

    A_t = A_t of the block alone + (product of gamma * lam to the block's end) * A of the next

The advantages at the blocks' first tokens obey the same recursion, one step per block, so the
same function computes them. Nothing here depends on the values of gamma and lam: 0 and 1 cost
the same as 0.95.

Shapes: T tokens, E episodes, L tokens of a block, R blocks (rows). Grids are ``[L, R]``, time
first, because one step of the loop then reads one contiguous row.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torchrl.objectives.value.functional import generalized_advantage_estimate

from llm_gym_agents.algo.tensor_ops import segment_starts, spread

# One step of TorchRL's loop costs about as much as this many cells of the grid.
_CELLS_PER_STEP = 250
# Blocks cost a second pass over the tokens.
_BLOCKED_COST = 1.5


def scan_advantages(
    *,
    reward_T: Tensor,
    value_T: Tensor,
    next_values_T: Tensor,
    terminated_T: Tensor,
    lengths_E: Tensor,
    gamma_T: Tensor,
    lam_T: Tensor,
) -> Tensor:
    """The advantage of every token, in the dtype of ``reward_T``.

    Args:
        reward_T: Reward of each token.
        value_T: Value before each token.
        next_values_T: Value after each token; at an episode's end, its bootstrap.
        terminated_T: True where the episode ended by its own rules, so that nothing follows.
        lengths_E: Tokens of each episode.
        gamma_T: Discount from each token to the next; a scalar tensor if it is one for all.
        lam_T: GAE's lambda from each token to the next; likewise.
    """
    if reward_T.numel() == 0:
        return reward_T.clone()
    grid = _Grid(lengths_E, block_length(lengths_E))
    # TorchRL wants [*batch, time, features] with time second to last: the rows are its features.
    # gamma and lam are tensors because it multiplies a Python float with an int32 mask, which
    # rounds 0.99 to float32 whatever the dtype of the rest.
    advantages_LR: Tensor
    advantages_LR, _ = generalized_advantage_estimate(
        grid.fill(gamma_T) if gamma_T.ndim else gamma_T,
        grid.fill(lam_T) if lam_T.ndim else lam_T,
        grid.fill(value_T),
        grid.fill(next_values_T),
        grid.fill(reward_T),
        grid.fill(grid.last_T),
        grid.fill(terminated_T),
    )
    if grid.rows == len(lengths_E):
        return grid.read(advantages_LR)

    # Only an episode's last block has empty cells, and nothing follows it: its products are unused.
    decay_LR = grid.fill((gamma_T * lam_T).expand_as(reward_T))
    decay_LR = decay_LR.flip(0).cumprod(0).flip(0)
    zeros_R = torch.zeros_like(advantages_LR[0])
    first_R = scan_advantages(
        reward_T=advantages_LR[0],
        value_T=zeros_R,
        next_values_T=zeros_R,
        terminated_T=torch.zeros_like(zeros_R, dtype=torch.bool),
        lengths_E=grid.blocks_E,
        gamma_T=decay_LR[0],
        lam_T=zeros_R.new_ones(()),
    )
    following_R = torch.cat([first_R[1:], first_R.new_zeros(1)])
    following_R[grid.blocks_E.cumsum(0) - 1] = 0.0
    return grid.read(advantages_LR + decay_LR * following_R)


def block_length(lengths_E: Tensor) -> int:
    """The number of tokens per block that makes the scan cheapest.

    >>> block_length(torch.full((1000,), 1000))  # even episodes stay whole
    1000
    >>> block_length(torch.tensor([1_000_000]))  # one long episode becomes a square
    1024
    """
    lengths_E = lengths_E.cpu()
    longest = int(lengths_E.max())
    best, best_cost = longest, float(len(lengths_E) * longest + _CELLS_PER_STEP * longest)
    length = 16
    while length < longest:
        blocks_E = _blocks(lengths_E, length)
        steps = length + int(blocks_E.max())
        cells = int(blocks_E.sum()) * length
        cost = _BLOCKED_COST * cells + _CELLS_PER_STEP * steps
        if cost < best_cost:
            best, best_cost = length, cost
        length *= 2
    return best


def _blocks(lengths_E: Tensor, length: int) -> Tensor:
    # An empty episode keeps one empty block, so that blocks and episodes stay aligned.
    return ((lengths_E + length - 1) // length).clamp(min=1)


class _Grid:
    """Where each token of a stream lies in the ``[L, R]`` grid of its blocks."""

    def __init__(self, lengths_E: Tensor, length: int) -> None:
        self.blocks_E = _blocks(lengths_E, length)
        self.length, self.rows = length, int(self.blocks_E.sum())
        tokens = int(lengths_E.sum())
        position_T = torch.arange(tokens, device=lengths_E.device)
        position_T -= spread(segment_starts(lengths_E), lengths_E)
        row_T = spread(segment_starts(self.blocks_E), lengths_E)
        self.last_T = position_T == spread(lengths_E - 1, lengths_E)
        if self.rows != len(lengths_E):
            row_T += position_T // length
            position_T %= length
        self._cell_T = position_T * self.rows + row_T

    def fill(self, value_T: Tensor) -> Tensor:
        """The grid of ``value_T``, with 0 where no token lies."""
        grid = value_T.new_zeros(self.length * self.rows)
        grid[self._cell_T] = value_T
        return grid.view(self.length, self.rows)

    def read(self, grid_LR: Tensor) -> Tensor:
        """The stream whose tokens lie in ``grid_LR``."""
        return grid_LR.reshape(-1)[self._cell_T]
