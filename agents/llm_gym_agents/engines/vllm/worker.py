"""What runs inside vLLM's workers: writing new weights into the model, and summing them.

vLLM imports this module by name in the process of each worker, before it builds the model.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from safetensors import safe_open
from torch import Tensor

from llm_gym_agents.engines.vllm.runtime import keep_weights_in_place
from llm_gym_agents.engines.weight_push import in_bucket
from llm_gym_agents.engines.weight_sums import weight_sums

_LOOK_EVERY_S = 1.0
if "vllm" in sys.modules:  # not where a test only imports this module
    # Here, because a worker's process runs nothing else of ours in time.
    keep_weights_in_place()


class WorkerSide:
    """What is mixed into vLLM's worker class, in whichever process that lives."""

    model_runner: Any
    """The worker's own, as is the device."""
    device: torch.device
    _llm_gym_slots: ParamSlots | None = None

    def llm_gym_load(self, bucket: Any) -> list[str]:
        """Put weights into the model, in place; return the names of what was written."""
        model = self.model_runner.model
        named = list(_tensors(bucket, self.device))
        if self._llm_gym_slots is None:
            self._llm_gym_slots = ParamSlots(model)
        if (written := self._llm_gym_slots.write(named)) is None:
            written = sorted(model.load_weights(named))
            self._llm_gym_slots.learn(named)
        if torch.cuda.is_available():
            torch.cuda.synchronize()  # the sender frees its buffer when this returns
        return written

    def llm_gym_parameters(self) -> dict[str, str]:
        """Return the names of all that a push has to reach, and the type of each."""
        model = self.model_runner.model
        return {name: str(weight.dtype) for name, weight in model.named_parameters()}

    def llm_gym_packed(self) -> dict[str, list[str]]:
        """Return which layers the model keeps as one, and what they are made of."""
        model = self.model_runner.model
        packed = getattr(model, "packed_modules_mapping", {})
        return {name: list(parts) for name, parts in packed.items()}

    def llm_gym_sums(self) -> dict[str, tuple[int, ...]]:
        """Return the sums of the parameters that the model computes with."""
        model = self.model_runner.model
        return {name: tuple(each) for name, each in weight_sums(model.named_parameters()).items()}

    def llm_gym_follow(self, owner: int) -> None:
        """End, and with it all of vLLM, when the process that started it is gone."""
        if os.getpid() != owner:
            threading.Thread(target=_end_with, args=(owner,), daemon=True).start()


def _end_with(owner: int) -> None:
    """End this process soon after ``owner``: one that is killed cannot end it any more."""
    parent = os.getppid()
    with contextlib.suppress(ProcessLookupError):
        while os.getppid() == parent:
            os.kill(owner, 0)
            time.sleep(_LOOK_EVERY_S)
    os._exit(1)


def _tensors(bucket: Any, device: torch.device) -> Iterator[tuple[str, Tensor]]:
    """Return the tensors of a bucket: a list of them, a file, or a handle to GPU memory."""
    if isinstance(bucket, str):
        with safe_open(bucket, framework="pt", device=str(device)) as file:
            for name in file.keys():  # noqa: SIM118 - it is no dictionary
                yield name, file.get_tensor(name)
    else:
        yield from in_bucket(bucket)


# --- where pushed weights lie ------------------------------------------------------------


class ParamSlot(NamedTuple):
    """A parameter of vLLM's model, or some rows of one."""

    parameter: str
    tensor: Tensor


class ParamSlots:
    """Where each pushed weight lies in vLLM's model, so that a push is one copy.

    ``load_weights`` looks every weight up in Python at each push: for a small model that takes
    longer than the copy. So after the first push the expected place of each weight is read, and
    kept as its slot if it holds that weight bit for bit. Weights that vLLM keeps in another form
    (sharded, quantized, transposed) have no slot and go through ``load_weights`` as before.
    """

    def __init__(self, model: Any) -> None:
        self._parameters: dict[str, Tensor] = dict(model.named_parameters())
        packed: Mapping[str, Sequence[str]] = getattr(model, "packed_modules_mapping", {})
        self._packed = [(whole, list(parts)) for whole, parts in packed.items()]
        self._shapes: dict[str, torch.Size] = {}
        self._known: dict[str, ParamSlot] = {}

    @torch.no_grad()
    def write(self, bucket: Sequence[tuple[str, Tensor]]) -> list[str] | None:
        """Write a bucket and return the parameters reached; None if a weight has no slot."""
        slots = [self._known.get(name) for name, _ in bucket]
        if not all(
            slot is not None and slot.tensor.shape == tensor.shape
            for slot, (_, tensor) in zip(slots, bucket, strict=True)
        ):
            return None
        found = [slot for slot in slots if slot is not None]
        torch._foreach_copy_([slot.tensor for slot in found], [tensor for _, tensor in bucket])
        return sorted({slot.parameter for slot in found})

    @torch.no_grad()
    def learn(self, bucket: Sequence[tuple[str, Tensor]]) -> None:
        """Find the slots of weights that the model has just loaded."""
        self._shapes |= {name: tensor.shape for name, tensor in bucket}
        for name, tensor in bucket:
            slot = self._slot(name)
            if slot is not None and torch.equal(slot.tensor, tensor.to(slot.tensor)):
                self._known[name] = slot

    def _slot(self, name: str) -> ParamSlot | None:
        if name in self._parameters:
            return self._rows(name, 0, self._shapes[name])
        *path, module, kind = name.split(".") if name.count(".") else ("", name)
        for whole, parts in self._packed:
            parameter = ".".join([*path, whole, kind])
            if module not in parts or parameter not in self._parameters:
                continue
            before = [".".join([*path, each, kind]) for each in parts[: parts.index(module)]]
            if all(each in self._shapes for each in before):
                first = sum(self._shapes[each][0] for each in before)
                return self._rows(parameter, first, self._shapes[name])
        return None

    def _rows(self, parameter: str, first: int, shape: torch.Size) -> ParamSlot | None:
        """Return the rows of a parameter from ``first`` on; padding rows may follow them."""
        whole = self._parameters[parameter]
        if whole.shape == shape:
            return ParamSlot(parameter, whole.data)
        if not shape or whole.shape[1:] != shape[1:] or first + shape[0] > len(whole):
            return None
        return ParamSlot(parameter, whole.data[first : first + shape[0]])
