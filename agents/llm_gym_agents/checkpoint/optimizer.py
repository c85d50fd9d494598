"""An optimizer's state, by the names of its parameters.

Names and not positions, so that parameters may be handed to a new optimizer in another order.
Tensors come back in the dtype they had: ``Optimizer.load_state_dict`` would cast them to the
dtype of their parameter.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from llm_gym_agents.checkpoint.part import CheckpointError, Part


def optimizer_state(optimizer: Optimizer, model: nn.Module) -> Part:
    """Return the state of ``optimizer``, whose parameters are those of ``model``."""
    names = _names(optimizer, model)
    tensors: dict[str, Tensor] = {}
    scalars: dict[str, dict[str, Any]] = {}
    for parameter, state in optimizer.state.items():
        name = names[parameter]
        for key, value in state.items():
            if isinstance(value, Tensor):
                tensors[f"{name}.{key}"] = value
            else:
                scalars.setdefault(name, {})[key] = value
    groups = [
        {**group, "params": [names[parameter] for parameter in group["params"]]}
        for group in optimizer.param_groups
    ]
    values = {
        "kind": type(optimizer).__name__,
        "groups": groups,
        "shapes": {name: list(parameter.shape) for parameter, name in names.items()},
        "scalars": scalars,
    }
    return Part(tensors=tensors, values=values)


def set_optimizer_state(optimizer: Optimizer, model: nn.Module, part: Part) -> None:
    """Make ``optimizer`` go on from ``part``; it must have the same groups of parameters."""
    names = _names(optimizer, model)
    parameters = {name: parameter for parameter, name in names.items()}
    _check_same(optimizer, part, names)
    for group, saved in zip(optimizer.param_groups, part.values["groups"], strict=True):
        for key, value in saved.items():
            if key != "params":
                group[key] = tuple(value) if isinstance(group.get(key), tuple) else value
    optimizer.state.clear()
    for full_name, tensor in part.tensors.items():
        name, _, key = full_name.rpartition(".")
        parameter = parameters[name]
        # AdamW counts its steps on the CPU unless it is told to compile or fuse them.
        on_cpu = tensor.ndim == 0 and not _counts_on_device(optimizer, parameter)
        device = torch.device("cpu") if on_cpu else parameter.device
        optimizer.state[parameter][key] = tensor.to(device, copy=True)
    for name, state in part.values["scalars"].items():
        optimizer.state[parameters[name]].update(state)


def _names(optimizer: Optimizer, model: nn.Module) -> dict[Tensor, str]:
    known: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    mine = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    strange = [parameter for parameter in mine if parameter not in known]
    if strange:
        raise CheckpointError(
            "every parameter of the optimizer must belong to the model, got "
            f"{len(strange)} that do not, the first of shape {tuple(strange[0].shape)}"
        )
    return {parameter: known[parameter] for parameter in mine}


def _check_same(optimizer: Optimizer, part: Part, names: dict[Tensor, str]) -> None:
    kind = type(optimizer).__name__
    if part.values["kind"] != kind:
        raise CheckpointError(
            f"the checkpoint holds the state of {part.values['kind']}, got a {kind} to load it into"
        )
    ours = [{names[each] for each in group["params"]} for group in optimizer.param_groups]
    theirs = [set(group["params"]) for group in part.values["groups"]]
    if ours != theirs:
        odd = sorted(set().union(*ours) ^ set().union(*theirs))
        what = f"such as {odd[0]!r}" if odd else "in other groups"
        raise CheckpointError(
            "the optimizer must have the parameters of the checkpoint, got different ones, "
            f"{what}; was the model built with other settings?"
        )
    for parameter, name in names.items():
        shape = tuple(part.values["shapes"][name])
        if shape != tuple(parameter.shape):
            raise CheckpointError(
                f"the optimizer's {name!r} must have shape {tuple(parameter.shape)}, got {shape}; "
                "was the model built with other settings?"
            )


def _counts_on_device(optimizer: Optimizer, parameter: Tensor) -> bool:
    return any(
        group.get("capturable") or group.get("fused")
        for group in optimizer.param_groups
        if any(parameter is each for each in group["params"])
    )
