"""Norms and gated MLPs that save fewer activations for backward: half of a transformer's.

transformers writes both in plain operations, and autograd saves the output of each. Under autocast
a norm's output is float32 again after the multiplication with its weight, so every projection after
it saves its own cast copy. Here the norm is one fused kernel with a narrow output, and the MLP
recomputes its activation.

This is on only under autocast, so float32 stays exact to the bit, and only for modules that were
tested to compute the formula, whatever their family.
"""

from __future__ import annotations

import copy
import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from llm_gym_agents.model.packed_attention import recompute_packed

Forward = Callable[[Tensor], Tensor]
Leaner = tuple[nn.Module, Forward]
_known: WeakKeyDictionary[nn.Module, list[Leaner]] = WeakKeyDictionary()
_current: ContextVar[Sequence[Leaner]] = ContextVar("lean layers", default=())
_EPS = ("variance_epsilon", "eps")
_GATED = ("gate_proj", "up_proj", "down_proj")
_ROWS = 4
_log = logging.getLogger(__name__)


def lean_layers(trunk: nn.Module) -> AbstractContextManager[None]:
    """Let ``trunk`` save fewer activations within this block, under autocast."""
    if not torch.is_autocast_enabled(next(trunk.parameters()).device.type):
        return nullcontext()
    if trunk not in _known:
        _known[trunk] = [(each, lean) for each in trunk.modules() if (lean := _lean(each))]
    return _instead(_known[trunk])


def is_lean(model: nn.Module) -> bool:
    """Whether the layers of ``model`` will be lean; works on the meta device."""
    norms = [each for each in model.modules() if type(each).__name__.endswith("RMSNorm")]
    gated = any(hasattr(each, name) for each in model.modules() for name in _GATED[:1])
    return gated and bool(norms) and _lean_norm(norms[-1]) is not None


@contextmanager
def _instead(leaner: Sequence[Leaner]) -> Iterator[None]:
    # A forward that another library (such as for offloading) has set stays.
    ours = [(each.__dict__, lean) for each, lean in leaner if "forward" not in each.__dict__]
    for own, lean in ours:
        own["forward"] = lean
    token = _current.set(leaner)
    try:
        yield
    finally:
        _current.reset(token)
        for own, _ in ours:
            own.pop("forward", None)


class GatedProduct(torch.autograd.Function):
    """``act(gate) * up``; the activation is recomputed in backward."""

    @staticmethod
    def forward(ctx: Any, act: Forward, gate: Tensor, up: Tensor) -> Tensor:
        """Return the product; ``act`` has no weights."""
        ctx.act = act
        ctx.save_for_backward(gate, up)
        return act(gate) * up

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor, Tensor]:
        gate, up = ctx.saved_tensors
        with torch.enable_grad():
            again = gate.detach().requires_grad_()
            active = ctx.act(again)
        (grad_gate,) = torch.autograd.grad(active, again, grad * up)
        return None, grad_gate, active.detach() * grad


def _lean(module: nn.Module) -> Forward | None:
    """Return a lean forward with the result of ``module``, or None."""
    if "forward" in module.__dict__:
        return None
    if type(module).__name__.endswith("RMSNorm"):
        return _lean_norm(module)
    if all(isinstance(getattr(module, name, None), nn.Module) for name in _GATED):
        return _lean_mlp(module)
    return None


def _lean_norm(module: Any) -> Forward | None:
    eps = next((getattr(module, name) for name in _EPS if hasattr(module, name)), None)
    weight: Any = getattr(module, "weight", None)
    if eps is None or not _is_plain(weight):
        return None
    trial = copy.deepcopy(module)  # with weights that differ
    if weight.is_meta:
        trial.to_empty(device="cpu")
    with torch.no_grad():
        trial.weight.copy_(torch.linspace(0.25, 3, weight.numel()).view_as(weight))
    # Fails for Gemma, whose weights are added to 1: in bfloat16 the sum would lose them.
    try:
        agrees = _agree(trial, functools.partial(_norm, trial, eps), trial.weight)
        with torch.enable_grad():  # the first pass may be a no-grad one
            narrow = trial.weight.detach().bfloat16()[None].requires_grad_()
            _norm(trial, eps, narrow).sum().backward()
    except (AttributeError, NotImplementedError, RuntimeError, TypeError) as error:
        _log.warning("the norms of transformers are used: torch's fused norm fails: %s", error)
        return None
    return functools.partial(_norm, module, eps) if agrees else None


def _lean_mlp(module: Any) -> Forward | None:
    act = getattr(module, "act_fn", None)
    trained = isinstance(act, nn.Module) and next(act.parameters(), None) is not None
    weight: Any = getattr(module.gate_proj, "weight", None)
    if act is None or trained or not _is_plain(weight):  # a trained one would lose its gradient
        return None
    lean = functools.partial(_gated, module)
    return lean if _agree(module, lean, weight) else None


def _is_plain(weight: Any) -> bool:
    plain = isinstance(weight, Tensor) and not hasattr(weight, "placements")
    return plain and weight.is_floating_point()


def _norm(module: Any, eps: float, x: Tensor) -> Tensor:
    weight = module.weight
    # Autocast would run the public ``rms_norm`` in float32.
    found: Tensor = torch.ops.aten._fused_rms_norm(x, [x.shape[-1]], weight.to(x.dtype), eps)[0]
    device = x.device.type
    if not torch.is_autocast_enabled(device):
        return found
    return found.to(torch.get_autocast_dtype(device))


def _gated(module: Any, x: Tensor) -> Tensor:
    gate, up = module.gate_proj(x), module.up_proj(x)
    product: Any = GatedProduct.apply  # untyped in torch
    found: Tensor = module.down_proj(product(module.act_fn, gate, up))
    return found


@torch.no_grad()
def _agree(module: nn.Module, lean: Forward, weight: Tensor) -> bool:
    x = torch.linspace(-2, 3, _ROWS * weight.shape[-1], device=weight.device)
    x = x.view(_ROWS, -1).to(weight.dtype)
    with torch.autocast(weight.device.type, enabled=False):
        theirs, ours = module.forward(x), lean(x)
    allowed = 1e-4 if weight.dtype == torch.float32 else 2e-2
    return torch.allclose(ours.float(), theirs.float(), rtol=allowed, atol=allowed)


Block = AbstractContextManager[None]


def recompute_contexts() -> tuple[Block, Block]:
    """Return the contexts of a checkpointed layer's forward and of its recomputation."""
    return nullcontext(), _both(recompute_packed(), _instead(_current.get()))


@contextmanager
def _both(packing: Block, lean: Block) -> Iterator[None]:
    with packing, lean:
        yield
