"""Are packed sequences scored as the model's own ``forward`` scores each of them alone?

A model whose attention does not go through transformers' interface, or has parts that ours lacks,
would be trained on log-probs that are not its own, and nothing would say so.

Shapes: T tokens that are scored, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import PreTrainedModel

from llm_gym.errors import ConfigError
from llm_gym_agents.learn.model import hidden_states
from llm_gym_agents.lm.agreement import agrees, full_float32, refusing
from llm_gym_agents.lm.head import Head, token_log_probs
from llm_gym_agents.lm.packed_attention import Packing, attending
from llm_gym_agents.lm.precision import computing_in

_LENGTHS = (7, 4)
_KNOWN = (
    "; models of the families Llama, Qwen 2, Qwen 3, Mistral, Gemma 3, Phi 3, Granite, Cohere, "
    "OPT, GPT-NeoX and GPT-2 can be"
)
_ANY_DTYPE = ("sdpa", "eager")
"""Attention that takes float32 too, which flash attention does not."""


def check_reading(lm: PreTrainedModel, compute_dtype: torch.dtype) -> None:
    """Raise ``ConfigError`` if two short sequences, packed, are not scored as each alone."""
    vocabulary = len(lm.get_input_embeddings().get_parameter("weight"))
    rows = [
        torch.tensor([(7 * at + 3 * row + 1) % vocabulary for at in range(n)], device=lm.device)
        for row, n in enumerate(_LENGTHS)
    ]
    # In float32 wherever the weights are: what is looked for is structure, and no rounding.
    whole = all(each.dtype == torch.float32 for each in lm.parameters())
    dtype = torch.float32 if whole else compute_dtype
    name, cannot = type(lm).__name__, f"{type(lm).__name__} cannot be trained here"
    with torch.no_grad(), full_float32(), computing_in(dtype, lm.device), refusing(cannot, _KNOWN):
        logits_TV = _alone(lm, rows)
        found_T = _packed(lm, rows)
    if not bool(logits_TV.isfinite().all()):
        raise ConfigError(f"the logits of {name} are not finite; are its weights loaded?")
    told_T1 = torch.cat([row[1:] for row in rows])[:, None]
    wanted_T = logits_TV.log_softmax(-1).gather(1, told_T1)[:, 0]
    gap = float((found_T - wanted_T).abs().max())
    if not agrees(gap, float(logits_TV.std()), dtype):
        raise ConfigError(
            f"{cannot}: log-probs of packed sequences are off by up to {gap:.2g} from those "
            f"of its own forward{_KNOWN}"
        )


def _alone(lm: PreTrainedModel, rows: list[Tensor]) -> Tensor:
    """Return the logits ``[T, V]`` of the model's own forward, which reads each row by itself."""
    usual = lm.config._attn_implementation
    with attending(lm.config, usual if usual in _ANY_DTYPE else "eager"):
        logits = [lm(row[None], use_cache=False).logits[0, :-1].float() for row in rows]
    return torch.cat(logits)


def _packed(lm: PreTrainedModel, rows: list[Tensor]) -> Tensor:
    """Return the log-prob of every token but the first of each row, read in one pass."""
    lengths = torch.tensor([len(row) for row in rows])
    hidden_SC = hidden_states(lm.base_model, torch.cat(rows), Packing.of(lengths, lm.device))
    states = [part[:-1] for part in hidden_SC.split(lengths.tolist())]
    told_T = torch.cat([row[1:] for row in rows])
    head = Head.of(lm)
    return token_log_probs(head, torch.cat(states), told_T, entropy="none", kernel="chunked")[0]
