"""The last layer of a trunk, computed only at the sampled positions.

Hidden states at unsampled positions are unused: there the last layer needs only keys and values.
This makes training a small model a third cheaper. In a deep model the last layer costs little, and
on a GPU a plain pass is faster. So it is used only on a CPU, for families with Llama's layer.

Shapes: S ids of all sequences, P positions asked about, Q sequences, L the longest, A the most
positions asked about in one sequence, H heads, D of one head, C hidden channels.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from llm_gym_agents.model.packed_attention import Packing, pad

LAYERS = ("LlamaDecoderLayer", "MistralDecoderLayer", "Qwen2DecoderLayer", "Qwen3DecoderLayer")
"""Layers with this structure; a test compares each with its own forward."""
MOST = 0.5
"""Share of sampled positions above which the plain layer is as fast."""


def is_worth_it(trunk: Any, ids: int, asked: int) -> bool:
    """Whether the last layer of ``trunk`` can and should run at ``asked`` positions only."""
    layers = getattr(trunk, "layers", None)
    if layers is None or asked > MOST * ids or trunk.is_gradient_checkpointing:
        return False
    last = layers[-1]
    # Mistral's layers have no such attribute.
    window = getattr(trunk.config, "sliding_window", None)
    return (
        type(last).__name__ in LAYERS
        and trunk.device.type == "cpu"
        and not torch.is_autocast_enabled("cpu")
        and getattr(last.self_attn, "sliding_window", window) is None
    )


@contextmanager
def last_layer_at(trunk: Any, position_P: Tensor, packing: Packing) -> Iterator[None]:
    """Let ``trunk`` return its last hidden state at ``position_P`` only, within this block."""
    last = trunk.layers[-1]
    last.forward = partial(_forward, last, _Asked(position_P, packing))
    try:
        yield
    finally:
        del last.forward


class _Asked:
    """The positions asked about, by sequence."""

    def __init__(self, position_P: Tensor, packing: Packing) -> None:
        self.position_P, self.packing = position_P, packing
        slot_P = packing.slot_S[position_P]
        row_P, within_P = slot_P // packing.longest, packing.position_S[position_P]
        count_Q = torch.bincount(row_P, minlength=packing.rows)
        self.most = int(count_Q.max())
        # The rank of each within its sequence; positions come in any order.
        order_P = torch.argsort(row_P, stable=True)
        rank_P = torch.empty_like(order_P)
        rank_P[order_P] = torch.arange(len(order_P)) - (count_Q.cumsum(0) - count_Q)[row_P[order_P]]
        self.slot_P = row_P * self.most + rank_P
        # Padding attends to the first id; its result is unused.
        within = torch.zeros(packing.rows * self.most, dtype=torch.int64)
        within[self.slot_P] = within_P
        sees = torch.arange(packing.most_keys) <= within.unsqueeze(-1)
        self.mask = sees.view(packing.rows, 1, self.most, packing.most_keys)


def _forward(
    layer: Any,
    asked: _Asked,
    hidden_states: Tensor,
    *,
    position_embeddings: tuple[Tensor, Tensor],
    **_: Any,
) -> Tensor:
    """The forward of ``layer``, whose output is only that of the positions asked about."""
    hidden_SC, rotary = hidden_states.squeeze(0), [each.squeeze(0) for each in position_embeddings]
    attention, packing, at_P = layer.self_attn, asked.packing, asked.position_P
    normed_SC = layer.input_layernorm(hidden_SC)
    # ``index_select``: the backward of plain indexing adds up one by one.
    turned = [each.index_select(0, at_P) for each in rotary]
    query_PHD = _heads(attention, "q", normed_SC.index_select(0, at_P), turned)
    key_SHD = _heads(attention, "k", normed_SC, rotary)
    value_SHD = _heads(attention, "v", normed_SC, None)
    if packing.keep is not None:
        packing.keep(attention.layer_idx, key_SHD, value_SHD)
    out_QHAD = F.scaled_dot_product_attention(
        pad(query_PHD, asked.slot_P, packing.rows, asked.most),
        packing.pad_keys(key_SHD),
        packing.pad_keys(value_SHD),
        attn_mask=asked.mask,
        scale=attention.scaling,
        enable_gqa=query_PHD.shape[1] != key_SHD.shape[1],
    )
    out_PHD = out_QHAD.transpose(1, 2).flatten(0, 1).index_select(0, asked.slot_P)
    hidden_PC = hidden_SC.index_select(0, at_P) + attention.o_proj(out_PHD.flatten(1))
    out_PC: Tensor = hidden_PC + layer.mlp(layer.post_attention_layernorm(hidden_PC))
    return out_PC.unsqueeze(0)


def _heads(attention: Any, kind: str, hidden: Tensor, rotary: list[Tensor] | None) -> Tensor:
    projected: Tensor = getattr(attention, f"{kind}_proj")(hidden)
    heads: Tensor = projected.unflatten(-1, (-1, attention.head_dim))
    if hasattr(attention, f"{kind}_norm"):  # Qwen3
        heads = getattr(attention, f"{kind}_norm")(heads)
    if rotary is None:
        return heads
    cos, sin = (each.unsqueeze(1) for each in rotary)
    first, second = heads.chunk(2, -1)
    return heads * cos + torch.cat((-second, first), -1) * sin
