"""Fresh prompts in one go: no padding between them, and of the last layer only their last states.

Prompts of a batch are of many lengths, and of all their last hidden states sampling needs one each.
So on a CPU they are read as a trainer reads its batch, one after another, while the keys and values
of every layer go into the slots of the cache. A small model reads its prompts in half the time.

Shapes: S ids of all prompts, B prompts, C hidden channels, H heads, D of one head.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from llm_gym_agents.engines.transformers.slots import SlotCache
from llm_gym_agents.lm.last_layer import is_worth_it, last_layer_at
from llm_gym_agents.lm.packed_attention import Packing, packed


def can_pack(trunk: Any, prompts: Sequence[Sequence[int]]) -> bool:
    """Whether ``trunk`` is of a kind that reads these prompts better so."""
    return is_worth_it(trunk, sum(map(len, prompts)), len(prompts))


def read_packed(
    trunk: Any, prompts: Sequence[Sequence[int]], cache: SlotCache, slots: Sequence[int]
) -> Tensor:
    """Read prompts into their slots, from the first id on; return their last states ``[B, C]``."""
    lengths_B = torch.tensor([len(prompt) for prompt in prompts])
    ids_S = torch.tensor(list(chain.from_iterable(prompts)))
    slot_S = torch.tensor(slots).repeat_interleave(lengths_B)
    packing = Packing.of(lengths_B)
    position_S = packing.position_S

    def keep(layer: int, key_SHD: Tensor, value_SHD: Tensor) -> None:
        cache.write(layer, slot_S, position_S, (key_SHD, value_SHD))

    packing = packing.kept_by(keep)
    last_B = lengths_B.cumsum(0) - 1
    with packed(trunk, packing), last_layer_at(trunk, last_B, packing):
        out = trunk(
            input_ids=ids_S.unsqueeze(0), position_ids=position_S.unsqueeze(0), use_cache=False
        )
    hidden_BC: Tensor = out.last_hidden_state.squeeze(0)
    return hidden_BC
