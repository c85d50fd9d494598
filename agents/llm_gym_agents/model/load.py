"""Load a transformers model, its tokenizer and its generation config from a path."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import logging

from llm_gym.cli.common import check_model_path
from llm_gym.errors import ConfigError

_SMALL = 1_000_000
"""Parameters; the embedded model has a tenth of them."""
DTYPES = ("auto", "float32", "bfloat16", "float16")


def load_model(
    path: str,
    *,
    dtype: str | None = None,
    device: str | None = None,
    attn_implementation: str | None = None,
    trust_remote_code: bool = False,
) -> PreTrainedModel:
    """Return the causal language model at ``path``; see ``TransformersEngine.from_pretrained``."""
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    dtype = dtype or ("float32" if torch.device(device).type == "cpu" else "auto")
    if dtype not in DTYPES:
        raise ConfigError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    check_model_path(path)
    with _loading("model", path), no_progress_bars():
        model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
            path,
            dtype=dtype,
            attn_implementation=attn_implementation,
            trust_remote_code=trust_remote_code,
        )
    model.to(device=torch.device(device))
    return model


def load_config(path: str, *, trust_remote_code: bool = False) -> PreTrainedConfig:
    """Return the configuration of the model at ``path``; no weights are read."""
    check_model_path(path)
    with _loading("model", path):
        found: PreTrainedConfig = AutoConfig.from_pretrained(
            path, trust_remote_code=trust_remote_code
        )
    return found


def load_tokenizer(path: str, *, trust_remote_code: bool = False) -> PreTrainedTokenizerBase:
    """Return the tokenizer at ``path``, with a padding token."""
    check_model_path(path)
    with _loading("tokenizer", path):
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            path, trust_remote_code=trust_remote_code
        )
    return with_padding(tokenizer)


@contextmanager
def _loading(what: str, path: str) -> Iterator[None]:
    """Raise loading errors as one-sentence ``ConfigError``."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise ConfigError(f"no {what} could be loaded from {path!r}: {_first(error)}") from error


def load_generation_config(path: str) -> GenerationConfig | None:
    """Return the generation config at ``path``, or None."""
    try:
        return GenerationConfig.from_pretrained(path)
    except OSError:
        return None


def with_padding(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """Set the padding token of ``tokenizer``, in place, to its end of text if it has none."""
    if tokenizer.pad_token_id is None and tokenizer.eos_token is not None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def _first(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0]


@contextmanager
def no_progress_bars() -> Iterator[None]:
    """Hide transformers' progress bars, which tear a live display, within this block."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


def limit_threads(lm: nn.Module) -> None:
    """Use one torch thread for a small model on the CPU, unless ``OMP_NUM_THREADS`` is set.

    Its tensors are too small to split: threads would mostly wait for each other. This holds for the
    whole process, so only commands call it.
    """
    if "OMP_NUM_THREADS" in os.environ:
        return
    weights = list(lm.parameters())
    on_cpu = all(each.device.type == "cpu" for each in weights)
    if on_cpu and sum(each.numel() for each in weights) < _SMALL:
        torch.set_num_threads(1)
