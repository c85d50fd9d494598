"""Where pushed weights lie in vLLM's model, so that a push is one copy instead of hundreds.

``load_weights`` finds the place of a weight anew each time, in Python: for a small model that takes
longer than the copy. Where a weight went at its first push is looked for, and is a place of its own
if what is read there is that weight, bit for bit. Weights that are kept in another way (sharded,
quantized, turned) have none, and go through ``load_weights`` as usual.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

Named = Sequence[tuple[str, Tensor]]


class Place(NamedTuple):
    """Part of a parameter, or all of it."""

    parameter: str
    tensor: Tensor


class Places:
    """What is known of the places in one model.

    Args:
        model: vLLM's.
    """

    def __init__(self, model: Any) -> None:
        self._parameters: dict[str, Tensor] = dict(model.named_parameters())
        packed: Mapping[str, Sequence[str]] = getattr(model, "packed_modules_mapping", {})
        self._packed = [(whole, list(parts)) for whole, parts in packed.items()]
        self._shapes: dict[str, torch.Size] = {}
        self._known: dict[str, Place] = {}

    @torch.no_grad()
    def write(self, bucket: Named) -> list[str] | None:
        """Write weights that all have a place; return what was reached, None if some have none."""
        there = [self._known.get(name) for name, _ in bucket]
        if not all(
            place is not None and place.tensor.shape == tensor.shape
            for place, (_, tensor) in zip(there, bucket, strict=True)
        ):
            return None
        found = [place for place in there if place is not None]
        torch._foreach_copy_([place.tensor for place in found], [tensor for _, tensor in bucket])
        return sorted({place.parameter for place in found})

    @torch.no_grad()
    def learn(self, bucket: Named) -> None:
        """Find the places of weights that the model has just loaded."""
        self._shapes |= {name: tensor.shape for name, tensor in bucket}
        for name, tensor in bucket:
            place = self._place(name)
            if place is not None and torch.equal(place.tensor, tensor.to(place.tensor)):
                self._known[name] = place

    def _place(self, name: str) -> Place | None:
        if name in self._parameters:
            return self._part(name, 0, self._shapes[name])
        *path, module, kind = name.split(".") if name.count(".") else ("", name)
        for whole, parts in self._packed:
            parameter = ".".join([*path, whole, kind])
            if module not in parts or parameter not in self._parameters:
                continue
            before = [".".join([*path, each, kind]) for each in parts[: parts.index(module)]]
            if all(each in self._shapes for each in before):
                first = sum(self._shapes[each][0] for each in before)
                return self._part(parameter, first, self._shapes[name])
        return None

    def _part(self, parameter: str, first: int, shape: torch.Size) -> Place | None:
        """Return the rows of a parameter from ``first`` on; behind them may be rows of padding."""
        whole = self._parameters[parameter]
        if whole.shape == shape:
            return Place(parameter, whole.data)
        if not shape or whole.shape[1:] != shape[1:] or first + shape[0] > len(whole):
            return None
        return Place(parameter, whole.data[first : first + shape[0]])
