"""A Hugging Face causal language model as trunk and head, and its log-probs of given tokens.

The trunk turns ids into hidden states; the head turns the requested ones into logits.
``CausalModel`` finds both, refuses models that the engine cannot sample from, and knows the context
length. ``score`` reads sequences of like length together, padded on the right.

Shapes: B rows, T tokens, L cached positions, C hidden channels, N hidden states, V vocabulary.
"""

import inspect
import platform
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Cache

from llm_gym.core.errors import ConfigError
from llm_gym_agents.model.head import Head, logit_scaling, scale_logits, token_log_probs
from llm_gym_agents.model.weights import plain_lm

Mask = Tensor | dict[str, Tensor]
"""Additive, ``[B, 1, T, L]``; one for each kind of layer where a model has two."""

_ARGUMENTS = ("input_ids", "attention_mask", "position_ids", "past_key_values")
_LAYERS = {"full_attention", "sliding_attention"}
_STRETCHED = {"dynamic", "longrope"}
"""Rotary embeddings that change with the longest row of a batch, past the original length."""

_SLOW_ONEDNN = platform.machine() == "aarch64"
"""There float32 products go through oneDNN, which takes 0.1 ms to prepare each: a third of a
decode step of a small model."""
_onednn: Any = torch.backends.mkldnn


class CausalModel:
    """Trunk and head of ``model``, which is shared and never copied.

    Args:
        model: A transformers causal language model, or a PEFT model around one.
        context_length: Less than the model allows, or None for all of it.
    """

    def __init__(self, model: nn.Module, context_length: int | None = None) -> None:
        inner = plain_lm(model)
        name = type(inner).__name__
        trunk = getattr(inner, "base_model", None)
        find_head = getattr(inner, "get_output_embeddings", lambda: None)
        if trunk is None or trunk is inner or find_head() is None:
            raise ConfigError(f"a model must be a transformers causal language model, got {name}")
        taken = inspect.signature(trunk.forward).parameters
        if missing := [argument for argument in _ARGUMENTS if argument not in taken]:
            raise ConfigError(
                f"{name} cannot be decoded in one batch: its forward takes no {missing[0]}"
            )
        self.model, self.config = model, inner.config
        self._inner, self.trunk = inner, trunk
        devices = {parameter.device for parameter in model.parameters()}
        if len(devices) != 1:
            raise ConfigError(
                f"{name} must be on one device, got {', '.join(sorted(map(str, devices)))}"
            )
        text = self.config.get_text_config()  # of a model that reads pictures too
        self.layers = int(text.num_hidden_layers)
        self.vocabulary = int(inner.get_input_embeddings().weight.shape[0])
        self.context_length = _context_length(text, name, context_length)
        self._windows = _windows(text, name)

    @property
    def dtype(self) -> torch.dtype:
        """The type of the weights. The owner of the model may change it between batches."""
        dtype: torch.dtype = self._inner.get_input_embeddings().weight.dtype
        return dtype

    @property
    def device(self) -> torch.device:
        """Where the model is. Its owner may move it between batches."""
        device: torch.device = self._inner.get_input_embeddings().weight.device
        return device

    def hidden(
        self,
        ids_BT: Tensor,
        cache: Cache | None = None,
        position_BT: Tensor | None = None,
        mask: Mask | None = None,
    ) -> Tensor:
        """Return the trunk's hidden states ``[B, T, C]``.

        Without positions and mask the rows begin at 0 and each token sees those before it.
        """
        states: Tensor = self.trunk(
            input_ids=ids_BT,
            attention_mask=mask,
            position_ids=position_BT,
            past_key_values=cache,
            use_cache=cache is not None,
        ).last_hidden_state
        return states

    def mask(self, position_BT: Tensor, length: int) -> Mask:
        """Return the mask of tokens at ``position_BT`` over cached positions 0 to ``length``."""
        column_L = torch.arange(length, device=position_BT.device)
        position_B1T1 = position_BT[:, None, :, None]
        dtype = self.dtype
        kinds = {}
        for kind, window in self._windows.items():
            hides_B1TL = column_L > position_B1T1
            if window is not None:
                hides_B1TL |= column_L <= position_B1T1 - window
            mask_B1TL = torch.where(hides_B1TL, float("-inf"), 0.0)
            kinds[kind] = mask_B1TL if mask_B1TL.dtype == dtype else mask_B1TL.to(dtype)
        return kinds if len(kinds) > 1 else next(iter(kinds.values()))

    def logits(self, hidden_NC: Tensor) -> Tensor:
        logits_NV: Tensor = self._inner.get_output_embeddings()(hidden_NC).float()
        return scale_logits(logits_NV, *logit_scaling(self.config.get_text_config()))

    @property
    def head(self) -> Head:
        """What turns hidden states into log-probs of given tokens."""
        return Head.of(self._inner)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Let the model read without gradient, dropout or an attention that takes no mask.

        Afterwards every submodule is in the mode it was in.
        """
        training = [module for module in self.model.modules() if module.training]
        usual, onednn = self.config._attn_implementation, _onednn.enabled
        for module in training:
            module.training = False
        if _SLOW_ONEDNN and self.dtype == torch.float32:
            _onednn.enabled = False
        if usual not in ("sdpa", "eager"):
            takes_sdpa = getattr(self._inner, "_supports_sdpa", False)
            self.config._attn_implementation = "sdpa" if takes_sdpa else "eager"
        try:
            with torch.no_grad():
                yield
        finally:
            self.config._attn_implementation, _onednn.enabled = usual, onednn
            for module in training:
                module.training = True


def _windows(config: Any, name: str) -> dict[str, int | None]:
    """Return how far back each kind of attention layer sees; None for all the way."""
    window = getattr(config, "sliding_window", None)
    kinds = getattr(config, "layer_types", None)
    if "local" in (getattr(config, "attention_layers", None) or ()):  # GPT-Neo has its own way
        raise ConfigError(f"{name} has local attention layers, which this engine cannot mask")
    if not kinds:
        return {"full_attention": window}
    if strange := sorted(set(kinds) - _LAYERS):
        raise ConfigError(f"{name} has {strange[0]} layers, whose state this engine cannot keep")
    return {kind: window if kind == "sliding_attention" else None for kind in sorted(set(kinds))}


def _context_length(config: Any, name: str, wanted: int | None) -> int:
    limits = {"the model": getattr(config, "max_position_embeddings", None)}
    if original := _stretched_from(getattr(config, "rope_parameters", None)):
        limits["its rotary embedding"] = original
    known = {reason: limit for reason, limit in limits.items() if limit is not None}
    if not known and wanted is None:
        raise ConfigError(f"{name} does not say how long its context is; pass context_length")
    reason, limit = min(known.items(), key=itemgetter(1), default=("nothing", wanted))
    assert limit is not None
    if wanted is None:
        return int(limit)
    if not 2 <= wanted <= limit:
        raise ConfigError(f"context_length must be in [2, {limit}] ({reason}), got {wanted}")
    return wanted


def _stretched_from(rope: Mapping[str, Any] | None) -> int | None:
    if rope is None:
        return None
    if rope.get("rope_type") in _STRETCHED:
        return rope.get("original_max_position_embeddings")
    nested = [_stretched_from(inner) for inner in rope.values() if isinstance(inner, Mapping)]
    return min((length for length in nested if length is not None), default=None)


GROUP_TOKENS = 8192
"""Tokens of one forward, padding included."""


def score(
    model: CausalModel, sequences: Sequence[Sequence[int]], temperature: float
) -> list[list[float]]:
    """Return the log-prob of every token of each sequence but the first."""
    scores: list[list[float]] = [[] for _ in sequences]
    by_length = sorted(range(len(sequences)), key=lambda at: len(sequences[at]))
    groups: list[list[int]] = [[]]
    for at in by_length:
        if len(sequences[at]) < 2:
            continue
        if groups[-1] and (len(groups[-1]) + 1) * len(sequences[at]) > GROUP_TOKENS:
            groups.append([])
        groups[-1].append(at)
    with model.reading():
        for group in filter(None, groups):
            found = _score_group(model, [sequences[at] for at in group], temperature)
            for at, scored in zip(group, found, strict=True):
                scores[at] = scored
    return scores


def _score_group(
    model: CausalModel, group: list[Sequence[int]], temperature: float
) -> list[list[float]]:
    longest = len(group[-1])
    padded = [[*ids, *[ids[-1]] * (longest - len(ids))] for ids in group]
    ids_BT = torch.tensor(padded, device=model.device)
    length_B1 = torch.tensor([[len(ids)] for ids in group], device=model.device)
    real_BT = torch.arange(1, longest, device=model.device) < length_B1
    # The last token predicts nothing that is asked for.
    hidden_NC = model.hidden(ids_BT[:, :-1])[real_BT]
    token_N = ids_BT[:, 1:][real_BT]
    log_prob_N, _ = token_log_probs(model.head, hidden_NC, token_N, temperature=temperature)
    found = iter(log_prob_N.tolist())
    return [list(islice(found, len(ids) - 1)) for ids in group]
