"""Check once that our logits agree with the model's own ``forward``.

A model whose attention bypasses transformers' interface, or has parts that ours lacks, would be
trained on wrong log-probs without notice. No list of model families stays up to date, so trainer
and embedded engine each check a model before they use it.

Shapes: T tokens that are scored, V vocabulary.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from transformers import PreTrainedModel

from llm_gym.core.errors import ConfigError
from llm_gym_agents.model.head import Head, token_log_probs
from llm_gym_agents.model.packed_attention import Packing, attention_implementation
from llm_gym_agents.model.policy_value import hidden_states
from llm_gym_agents.model.weights import computing_in

_LENGTHS = (7, 4)
_KNOWN = (
    "; models of the families Llama, Qwen 2, Qwen 3, Mistral, Gemma 3, Phi 3, Granite, Cohere, "
    "OPT, GPT-NeoX and GPT-2 can be"
)
_ANY_DTYPE = ("sdpa", "eager")
"""Attention that also takes float32; flash attention does not."""
TOLERANCE = {torch.float64: 1e-4, torch.float32: 1e-3}
"""Largest error of a logit, in standard deviations of the logits."""
COARSE = 0.25
"""The tolerance in 16 bits."""
ABSOLUTE = 1e-6
"""Additional absolute tolerance, for a model whose logits are all equal."""
_CANNOT = (AttributeError, IndexError, KeyError, TypeError, ValueError, RuntimeError)
"""Exceptions of a model that does not support a call."""
_MACHINE = (torch.OutOfMemoryError, torch.AcceleratorError)
_MACHINE_SAYS = ("cuda", "cublas", "cudnn")
"""First words of a ``RuntimeError`` that comes from the machine, not from the model."""


def check_packed_reading(lm: PreTrainedModel, compute_dtype: torch.dtype) -> None:
    """Raise ``ConfigError`` unless two packed sequences get the same scores as each alone."""
    vocabulary = len(lm.get_input_embeddings().get_parameter("weight"))
    rows = [
        torch.tensor([(7 * at + 3 * row + 1) % vocabulary for at in range(n)], device=lm.device)
        for row, n in enumerate(_LENGTHS)
    ]
    # In float32 if the weights are: errors of structure count, not rounding.
    whole = all(each.dtype == torch.float32 for each in lm.parameters())
    dtype = torch.float32 if whole else compute_dtype
    name, cannot = type(lm).__name__, f"{type(lm).__name__} cannot be trained here"
    with (
        torch.no_grad(),
        full_float32(),
        computing_in(dtype, lm.device),
        as_config_error(cannot, _KNOWN),
    ):
        usual = lm.config._attn_implementation
        with attention_implementation(lm.config, usual if usual in _ANY_DTYPE else "eager"):
            alone = [lm(row[None], use_cache=False).logits[0, :-1].float() for row in rows]
        logits_TV = torch.cat(alone)
        lengths = torch.tensor([len(row) for row in rows])
        packing = Packing.of(lengths).to(lm.device)
        hidden_SC = hidden_states(lm.base_model, torch.cat(rows), packing)
        state_TC = torch.cat([part[:-1] for part in hidden_SC.split(lengths.tolist())])
        next_T = torch.cat([row[1:] for row in rows])
        found_T, _ = token_log_probs(Head.of(lm), state_TC, next_T, entropy="none", fused=False)
    if not bool(logits_TV.isfinite().all()):
        raise ConfigError(f"the logits of {name} are not finite; are its weights loaded?")
    if (gap := unexplained_gap(found_T, logits_TV, next_T, dtype)) is not None:
        raise ConfigError(
            f"{cannot}: log-probs of packed sequences are off by up to {gap:.2g} from those "
            f"of its own forward{_KNOWN}"
        )


def unexplained_gap(
    log_prob_T: Tensor, logits_TV: Tensor, token_T: Tensor, dtype: torch.dtype
) -> float | None:
    """Return the largest error of log-probs; None if it can be rounding in ``dtype``."""
    wanted_T = logits_TV.log_softmax(-1).gather(1, token_T[:, None])[:, 0]
    gap = float((log_prob_T - wanted_T).abs().max())
    most = TOLERANCE.get(dtype, COARSE) * float(logits_TV.std()) + ABSOLUTE
    return None if gap <= most else gap  # NaN is an error


@contextmanager
def as_config_error(what: str, advice: str = "") -> Iterator[None]:
    """Raise errors of a model as ``ConfigError``; errors of the machine stay as they are.

    >>> with as_config_error("Bert cannot be decoded"):
    ...     raise TypeError("no position_ids" + chr(10) + "and so on")
    Traceback (most recent call last):
    llm_gym.core.errors.ConfigError: Bert cannot be decoded: no position_ids
    """
    try:
        yield
    except (ConfigError, *_MACHINE):
        raise
    except _CANNOT as error:
        why = str(error).partition("\n")[0]
        if why.lower().startswith(_MACHINE_SAYS):
            raise
        raise ConfigError(f"{what}: {why}{advice}") from error


@contextmanager
def full_float32() -> Iterator[None]:
    """Switch TF32 off within this block: its rounding is as large as a mistake."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
