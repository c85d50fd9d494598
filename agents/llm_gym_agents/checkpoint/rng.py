"""The state of every global random generator: torch on each device, numpy, Python."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch

from llm_gym_agents.checkpoint.part import Part


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
    """Put every global generator back; a device that is not here any more is passed over."""
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
