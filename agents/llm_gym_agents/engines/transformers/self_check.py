"""Does decoding with our cache agree with the model's own forward?

Masks, positions, caches and heads differ between families in ways no list keeps up with. So the
engine tries once, when it is built, and refuses a model that it would sample from wrongly.
"""

from __future__ import annotations

import torch
from torch import Tensor

from llm_gym.errors import ConfigError
from llm_gym_agents.engines.transformers.causal import CausalModel
from llm_gym_agents.engines.transformers.prefill import Prefill
from llm_gym_agents.engines.transformers.slot_pool import SlotPool
from llm_gym_agents.engines.transformers.slots import Batch, SlotCache
from llm_gym_agents.lm.agreement import agrees, full_float32, refusing

_LONGEST = 7


def check_decoding(model: CausalModel) -> None:
    """Raise ``ConfigError`` if two short prompts are not continued as the model would."""
    rows = [min(length, model.context_length - 1) for length in (_LONGEST, 4)]
    ids = [
        [(7 * at + 3 * row + 1) % model.vocabulary for at in range(n + 1)]
        for row, n in enumerate(rows)
    ]
    name = type(model.model).__name__
    with model.reading(), full_float32():
        wanted = [
            model.model(torch.tensor([row], device=model.device)).logits[0].float() for row in ids
        ]
        with refusing(f"{name} cannot be decoded by this engine"):
            found = _decode(model, [row[:-1] for row in ids], [row[-1] for row in ids])
    for (first_V, second_V), wanted_TV in zip(found, wanted, strict=True):
        if not bool(wanted_TV.isfinite().all()):
            raise ConfigError(f"the logits of {name} are not finite; are its weights loaded?")
        gaps_2V = torch.stack([first_V, second_V]) - wanted_TV[-2:]
        gap, spread = float(gaps_2V.abs().max()), float(wanted_TV.std())
        if not agrees(gap, spread, model.dtype):
            raise ConfigError(
                f"{name} does not decode as it reads: logits with a cache are off by up to "
                f"{gap:.2g}; this engine cannot sample from it rightly"
            )


def _decode(
    model: CausalModel, prompts: list[list[int]], nexts: list[int]
) -> list[tuple[Tensor, Tensor]]:
    """Return each prompt's logits after its last token, and those after one token more."""
    cache, pool = SlotCache(model.layers, len(prompts)), SlotPool(len(prompts), keep=True)
    work = Prefill(model, cache, pool)
    slots = work.assign(prompts)
    cache.reserve(len(slots), max(map(len, prompts)) + 1)
    first_NV = work.read()
    slot_N = torch.tensor(slots, device=model.device)
    position_N1 = torch.tensor([[len(prompt)] for prompt in prompts], device=model.device)
    cache.plan = Batch(slot_N, None, position_N1, cache.length)
    token_N1 = torch.tensor([[token] for token in nexts], device=model.device)
    mask = model.mask(position_N1, cache.length)
    second_NV = model.logits(model.hidden(token_N1, cache, position_N1, mask)[:, 0])
    return list(zip(first_NV, second_NV, strict=True))
