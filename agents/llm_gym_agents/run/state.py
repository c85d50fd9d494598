"""``Part``: the state of one component of a run, as tensors and JSON.

An optimizer's state is stored by parameter name, so the order of parameters may change. Its tensors
keep their dtype, which ``Optimizer.load_state_dict`` would cast.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from llm_gym.core.errors import LLMGymError


class CheckpointError(LLMGymError, RuntimeError):
    """A checkpoint cannot be written, or cannot be used."""


@dataclass(kw_only=True)
class Part:
    """The state of one component: an optimizer, a critic, a counter."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    values: Any = None
    """Anything made of dictionaries with text keys, lists, text, numbers, True, False and None."""


def as_json(value: Any, where: str) -> Any:
    """Return ``value`` as JSON reads it back; raise if a part of it is not JSON.

    Tuples become lists, numpy scalars become numbers. NaN and infinity are allowed, because a bad
    metric must not prevent a checkpoint.

    >>> as_json({"betas": (0.9, 0.999)}, "optimizer")
    {'betas': [0.9, 0.999]}
    """
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        return [as_json(each, f"{where}[{at}]") for at, each in enumerate(value)]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: as_json(each, f"{where}.{key}") for key, each in value.items()}
    raise CheckpointError(
        f"{where} must be JSON to be saved, got {type(value).__name__}; tensors go into "
        "Part.tensors, and keys of dictionaries must be text"
    )


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
    """Load ``part`` into ``optimizer``, which must have the same parameter groups."""
    names = _names(optimizer, model)
    parameters = {name: parameter for parameter, name in names.items()}
    _check_same(optimizer, part, names)
    for group, saved in zip(optimizer.param_groups, part.values["groups"], strict=True):
        for key, value in saved.items():
            if key != "params":
                group[key] = tuple(value) if isinstance(group.get(key), tuple) else value
    counted_on_device = {
        parameter
        for group in optimizer.param_groups
        if group.get("capturable") or group.get("fused")
        for parameter in group["params"]
    }
    optimizer.state.clear()
    for full_name, tensor in part.tensors.items():
        name, _, key = full_name.rpartition(".")
        parameter = parameters[name]
        # AdamW counts its steps on the CPU unless it is told to compile or fuse them.
        on_cpu = tensor.ndim == 0 and parameter not in counted_on_device
        device = torch.device("cpu") if on_cpu else parameter.device
        optimizer.state[parameter][key] = tensor.to(device, copy=True)
    for name, state in part.values["scalars"].items():
        optimizer.state[parameters[name]].update(state)


def _names(optimizer: Optimizer, model: nn.Module) -> dict[Tensor, str]:
    known: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    return {each: known[each] for group in optimizer.param_groups for each in group["params"]}


def _check_same(optimizer: Optimizer, part: Part, names: dict[Tensor, str]) -> None:
    kind, saved = type(optimizer).__name__, part.values
    if saved["kind"] != kind:
        raise CheckpointError(
            f"the checkpoint holds the state of {saved['kind']}, got a {kind} to load it into"
        )
    groups = [{names[each] for each in group["params"]} for group in optimizer.param_groups]
    shapes = {name: list(parameter.shape) for parameter, name in names.items()}
    same_groups = groups == [set(group["params"]) for group in saved["groups"]]
    if not same_groups or shapes != saved["shapes"]:
        known = saved["shapes"]
        odd = [name for name in {*shapes, *known} if shapes.get(name) != known.get(name)]
        what = f"such as {' and '.join(sorted(odd)[:2])}" if odd else "in other groups"
        raise CheckpointError(
            "the optimizer must have the parameters of the checkpoint, got different ones, "
            f"{what}; was the model built with other settings?"
        )


def seed_generators(seed: int) -> None:
    """Seed every global generator: a user's environment may draw from any of them.

    Like ``transformers.set_seed``, but without its import of PEFT.
    """
    random.seed(seed := seed % 2**32)  # the largest seed that NumPy takes
    np.random.seed(seed)  # noqa: NPY002 - as above
    torch.manual_seed(seed)  # of the devices too


def rng_state() -> Part:
    """Return the state of every global generator."""
    tensors = {"torch": torch.get_rng_state()}
    for at, state in enumerate(torch.cuda.get_rng_state_all()):
        tensors[f"cuda.{at}"] = state
    if torch.backends.mps.is_available():
        tensors["mps"] = torch.mps.get_rng_state()
    numpy: Any = np.random.get_state(legacy=False)  # noqa: NPY002 - as above
    tensors["numpy"] = torch.tensor(numpy["state"].pop("key").astype(np.int64))
    version, internal, gauss = random.getstate()
    tensors["python"] = torch.tensor(internal)
    return Part(tensors=tensors, values={"numpy": numpy, "python": [version, gauss]})


def set_rng_state(part: Part) -> None:
    """Restore every global generator; missing devices are skipped."""
    torch.set_rng_state(part.tensors["torch"])
    for at in range(torch.cuda.device_count()):
        if f"cuda.{at}" in part.tensors:
            torch.cuda.set_rng_state(part.tensors[f"cuda.{at}"], at)
    if "mps" in part.tensors and torch.backends.mps.is_available():
        torch.mps.set_rng_state(part.tensors["mps"])
    numpy = part.values["numpy"]
    key = part.tensors["numpy"].numpy().astype(np.uint32)
    np.random.set_state({**numpy, "state": {**numpy["state"], "key": key}})  # noqa: NPY002
    version, gauss = part.values["python"]
    random.setstate((version, tuple(part.tensors["python"].tolist()), gauss))
