"""The weights of a module, such as a value head or a critic of its own."""

from __future__ import annotations

import torch
from torch import nn

from llm_gym_agents.checkpoint.part import CheckpointError, Part


def module_state(module: nn.Module, *, skip: tuple[str, ...] = ()) -> Part:
    """Return the weights of ``module``, without those whose names begin with one of ``skip``."""
    state = module.state_dict()
    return Part(tensors={name: state[name] for name in state if not name.startswith(skip)})


@torch.no_grad()
def set_module_state(module: nn.Module, part: Part, *, skip: tuple[str, ...] = ()) -> None:
    """Copy the weights of ``part`` into ``module``, in place. The names must be the same."""
    state = module_state(module, skip=skip).tensors
    odd = sorted(state.keys() ^ part.tensors.keys())
    odd += [
        name for name in state if name not in odd and state[name].shape != part.tensors[name].shape
    ]
    if odd:
        raise CheckpointError(
            f"{type(module).__name__} must have the weights of the checkpoint, got a difference "
            f"in {odd[0]!r}; was the model built with other settings?"
        )
    for name, tensor in part.tensors.items():
        state[name].copy_(tensor)
