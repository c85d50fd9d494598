"""Attention over packed sequences, for any Hugging Face model.

Sequences lie one after another in a batch of one, so embeddings, projections and MLPs see no
padding. Attention must stay within each sequence: on a GPU in 16 bits a variable-length kernel does
that; elsewhere queries, keys and values are padded to ``[sequences, longest]`` for this step. It
plugs into transformers as an attention implementation, switched on only while a packed batch is
read, so the same module can generate with its usual attention in between.

Sequences may share prefixes (``model.shared_prefix``). A shared id is read once, as part of one
sequence, and is a key of all others.

Shapes: S ids that are read, K keys of all sequences (S unless prefixes are shared), Q sequences, L
the longest, H heads, D of one head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface

from llm_gym.core.errors import ConfigError

NAME = "llm_gym_packed"
Keep = Callable[[int, Tensor, Tensor], None]
"""Called with the number of a layer and its keys and values, ``[S, H, D]``."""
_current: ContextVar[Packing] = ContextVar("packing")
_config: ContextVar[Any] = ContextVar("config")


@dataclass(frozen=True, slots=True)
class SharedKeys:
    """The keys of sequences that share prefixes."""

    index_K: Tensor
    """The index of each key's id. Unused keys at the end have index S."""
    starts: Tensor
    """Where the keys of each sequence begin, and where the last ones end, as int32."""
    longest: int
    position_S: Tensor
    """Position of each id in its sequence."""
    derived: dict[Any, Tensor] = field(default_factory=dict)
    """Tensors that padded attention derives once for all layers."""

    def padded(self) -> Tensor:
        """Return the id of each key, padded to ``[Q, L]`` and flattened."""
        if "keys" not in self.derived:
            slot_K = _slots(self.starts.diff(), self.longest)
            empty = self.index_K.new_zeros((len(self.starts) - 1) * self.longest)
            self.derived["keys"] = empty.index_copy_(0, slot_K, self.index_K[: len(slot_K)])
        return self.derived["keys"]


@dataclass(frozen=True, slots=True)
class Packing:
    """Where each id of a packed batch belongs."""

    rows: int
    slot_S: Tensor
    """Index into the flattened ``[Q, L]`` of each id."""
    starts: Tensor
    """Where each sequence begins, and where the last one ends, as int32."""
    longest: int
    shared: SharedKeys | None = None
    """None if each sequence attends only to its own ids."""
    keep: Keep | None = None
    """Receives the keys and values of each layer, for a cache."""

    @classmethod
    def of(cls, lengths_Q: Tensor, *, longest: int | None = None) -> Packing:
        """Return the packing of sequences of these lengths.

        Lengths are best on the CPU, because reading them from a GPU has to wait. ``longest`` may
        exceed the longest length.
        """
        longest = longest or int(lengths_Q.max())
        starts = F.pad(lengths_Q.cumsum(0), (1, 0)).to(torch.int32)
        return cls(len(lengths_Q), _slots(lengths_Q, longest), starts, longest)

    def to(self, device: torch.device) -> Packing:
        shared = self.shared
        if shared is not None:
            index_K, starts, position_S = (
                each.to(device, non_blocking=True)
                for each in (shared.index_K, shared.starts, shared.position_S)
            )
            shared = SharedKeys(index_K, starts, shared.longest, position_S)
        slot_S, starts = (each.to(device, non_blocking=True) for each in (self.slot_S, self.starts))
        return replace(self, slot_S=slot_S, starts=starts, shared=shared)

    def copy_(self, other: Packing) -> None:
        """Overwrite the tensors by those of another packing of the same shapes."""
        self.slot_S.copy_(other.slot_S, non_blocking=True)
        self.starts.copy_(other.starts, non_blocking=True)
        if self.shared is not None and other.shared is not None:
            self.shared.derived.clear()
            for name in ("index_K", "starts", "position_S"):
                getattr(self.shared, name).copy_(getattr(other.shared, name), non_blocking=True)

    @property
    def position_S(self) -> Tensor:
        """Position of each id in its own sequence."""
        return self.slot_S % self.longest if self.shared is None else self.shared.position_S

    @property
    def most_keys(self) -> int:
        """Keys of the sequence that has most."""
        return self.longest if self.shared is None else self.shared.longest

    def pad(self, x_SHD: Tensor) -> Tensor:
        """Return queries as ``[Q, H, L, D]``."""
        if len(x_SHD) == self.rows * self.longest:  # sequences of one length are not padded
            x_QLHD: Tensor = x_SHD.unflatten(0, (self.rows, self.longest))
            return x_QLHD.transpose(1, 2)
        return pad(x_SHD, self.slot_S, self.rows, self.longest)

    def pad_keys(self, x_SHD: Tensor) -> Tensor:
        """Return keys or values as ``[Q, H, L, D]``."""
        if self.shared is None:
            return self.pad(x_SHD)
        x_SHD = x_SHD.index_select(0, self.shared.padded())
        x_QLHD: Tensor = x_SHD.unflatten(0, (self.rows, -1))
        return x_QLHD.transpose(1, 2)


def pad(x_SHD: Tensor, slot_S: Tensor, rows: int, longest: int) -> Tensor:
    """Return rows of ``x_SHD`` at their slots of ``[Q, H, L, D]``, and 0 elsewhere."""
    empty = x_SHD.new_zeros(rows * longest, *x_SHD.shape[1:])
    x_QLHD: Tensor = empty.index_copy_(0, slot_S, x_SHD).unflatten(0, (rows, longest))
    return x_QLHD.transpose(1, 2)


class _TakeKeys(torch.autograd.Function):
    """Keys by index. The gradient of a key that many sequences share is summed in float32.

    An unused key has index S. Attention does not read it, and its gradient is dropped.
    """

    @staticmethod
    def forward(ctx: Any, x_SHD: Tensor, index_K: Tensor) -> Tensor:
        ctx.save_for_backward(index_K)
        ctx.shape = x_SHD.shape
        return x_SHD.index_select(0, index_K.clamp(max=len(x_SHD) - 1))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        (index_K,), grad_KHD = ctx.saved_tensors, grads[0]
        ids, *rest = ctx.shape
        total_SHD = grad_KHD.new_zeros((ids + 1, *rest), dtype=torch.float32)
        total_SHD.index_add_(0, index_K, grad_KHD.float())
        return total_SHD[:ids].to(grad_KHD.dtype), None


def _slots(lengths_Q: Tensor, longest: int) -> Tensor:
    """Return the index into the flattened ``[Q, L]`` of each id.

    >>> _slots(torch.tensor([2, 0, 1]), 3)
    tensor([0, 1, 6])
    """
    if lengths_Q.device.type != "cpu":
        row_S = torch.repeat_interleave(lengths_Q)
    else:  # torch would start its threads, however short the input
        lengths = lengths_Q.numpy()
        row_S = torch.from_numpy(np.repeat(np.arange(len(lengths), dtype=lengths.dtype), lengths))
    starts_Q = lengths_Q.cumsum(0) - lengths_Q
    within_S = torch.arange(len(row_S), device=lengths_Q.device) - starts_Q[row_S]
    return row_S * longest + within_S


@contextmanager
def packed(config: Any, packing: Packing) -> Iterator[None]:
    """Let the model of ``config`` read a packed batch within this block."""
    token, own = _current.set(packing), _config.set(config)
    try:
        with attention_implementation(config, NAME):
            yield
    finally:
        _current.reset(token)
        _config.reset(own)


def recompute_packed() -> AbstractContextManager[None]:
    """For gradient checkpointing: recompute layers with the packing of their forward.

    Backward runs after the block of ``packed`` has ended.
    """
    packing = _current.get(None)
    return nullcontext() if packing is None else packed(_config.get(), packing)


@contextmanager
def attention_implementation(config: Any, name: str) -> Iterator[None]:
    """Use the attention implementation ``name`` within this block."""
    usual = config._attn_implementation
    config._attn_implementation = name
    try:
        yield
    finally:
        config._attn_implementation = usual


def packed_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    dropout: float = 0.0,
    sliding_window: int | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Causal attention within each sequence; called by transformers with ``[1, H, S, D]``."""
    if kwargs.get("softcap") is not None:
        raise ConfigError(
            f"{type(module).__name__} caps attention scores, which packed attention cannot do; "
            "choose a model without attention softcapping"
        )
    packing = _current.get()
    if torch.is_autocast_enabled(query.device.type):
        # Rotary embeddings in float32 widen their result.
        dtype = torch.get_autocast_dtype(query.device.type)
        query, key, value = (x.to(dtype) for x in (query, key, value))
    query_SHD, key_SHD, value_SHD = (x.squeeze(0).transpose(0, 1) for x in (query, key, value))
    if packing.keep is not None:
        packing.keep(int(module.layer_idx), key_SHD, value_SHD)  # type: ignore[arg-type]
    window = (
        None if sliding_window is None or sliding_window >= packing.most_keys else sliding_window
    )
    if query.is_cuda and query.dtype in (torch.bfloat16, torch.float16) and dropout == 0.0:
        out_SHD = _varlen(query_SHD, key_SHD, value_SHD, packing, scaling, window)
    else:
        out_SHD = _padded(query_SHD, key_SHD, value_SHD, packing, scaling, dropout, window)
    return out_SHD.unsqueeze(0), None


def _padded(
    query_SHD: Tensor,
    key_SHD: Tensor,
    value_SHD: Tensor,
    packing: Packing,
    scaling: float | None,
    dropout: float,
    window: int | None,
) -> Tensor:
    causal = window is None and packing.shared is None
    out_QHLD = F.scaled_dot_product_attention(
        packing.pad(query_SHD),
        packing.pad_keys(key_SHD),
        packing.pad_keys(value_SHD),
        attn_mask=None if causal else _mask(packing, window, query_SHD.dtype),
        is_causal=causal,
        dropout_p=dropout,
        scale=scaling,
        enable_gqa=query_SHD.shape[1] != key_SHD.shape[1],
    )
    out_SHD = out_QHLD.transpose(1, 2).flatten(0, 1)
    return out_SHD if len(out_SHD) == len(query_SHD) else out_SHD.index_select(0, packing.slot_S)


def _mask(packing: Packing, window: int | None, dtype: torch.dtype) -> Tensor:
    """Return 0 where a query sees a key, else -inf; padding sees the first key, unused."""
    known = {} if packing.shared is None else packing.shared.derived
    if window not in known:
        at_L = torch.arange(packing.most_keys, device=packing.slot_S.device)
        position = at_L
        if packing.shared is not None:
            padded_QL = at_L.new_zeros(packing.rows * packing.longest)
            padded_QL.index_copy_(0, packing.slot_S, packing.position_S)
            position = padded_QL.view(packing.rows, 1, packing.longest)
        back = position.unsqueeze(-1) - at_L
        hidden = back < 0 if window is None else (back < 0) | (back >= window)
        known[window] = torch.zeros_like(back, dtype=dtype).masked_fill_(hidden, float("-inf"))
    return known[window]


def _varlen(
    query_SHD: Tensor,
    key_SHD: Tensor,
    value_SHD: Tensor,
    packing: Packing,
    scaling: float | None,
    window: int | None,
) -> Tensor:
    # The kernel behind ``torch.nn.attention.varlen.varlen_attn``, whose Python wrapper costs a
    # tenth of a small model's update. It handles grouped key heads itself. The last query of a
    # sequence is that of its last key, so a sequence may have fewer queries than keys.
    keys_from, most_keys = packing.starts, packing.longest
    if (shared := packing.shared) is not None:
        take: Any = _TakeKeys.apply  # untyped in torch
        key_SHD, value_SHD = (take(each, shared.index_K) for each in (key_SHD, value_SHD))
        keys_from, most_keys = shared.starts, shared.longest
    out_SHD: Tensor = torch.ops.aten._flash_attention_forward(
        query_SHD.contiguous(),
        key_SHD.contiguous(),
        value_SHD.contiguous(),
        packing.starts,
        keys_from,
        packing.longest,
        most_keys,
        0.0,
        True,
        False,
        scale=scaling,
        window_size_left=None if window is None else window - 1,
        window_size_right=None if window is None else 0,
    )[0]
    return out_SHD


# Without a mask of the same name transformers makes none, and does not search for packed
# sequences, which would wait for the GPU.
AttentionInterface.register(NAME, packed_attention)
