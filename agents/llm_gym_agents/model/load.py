"""Load a transformers model, its tokenizer and its generation config; or make a small one."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils import cached_file, logging

from llm_gym.cli.common import check_model_path
from llm_gym.core.errors import ConfigError
from llm_gym_agents.model.lean_layers import is_lean

_SMALL = 1_000_000
"""Parameters of a model that needs only one thread; the embedded model has a tenth of them."""
DTYPES = ("auto", "float32", "bfloat16", "float16")


def load_model(
    path: str,
    *,
    dtype: str | None = None,
    device: str | None = None,
    attn_implementation: str | None = None,
    trust_remote_code: bool = False,
) -> PreTrainedModel:
    """Return the causal language model at ``path``, a folder or a hub name.

    Args:
        path: Where the model is.
        dtype: float32, bfloat16, float16 or auto (as saved): by default float32 on a CPU and auto
            elsewhere.
        device: By default cuda if there is one, else cpu.
        attn_implementation: As in transformers, which chooses one by itself.
        trust_remote_code: Whether to run Python code that comes with the model.
    """
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    dtype = dtype or ("float32" if device.startswith("cpu") else "auto")
    if dtype not in DTYPES:
        raise ConfigError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    _check_config(path, trust_remote_code)
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
    """Return the configuration of the model at ``path``; no weights are read.

    Unless its code is trusted, the config is tried in a child process first: a few words of an
    untrusted config can describe a model that no machine can build.
    """
    _check_config(path, trust_remote_code)
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
    if tokenizer.pad_token_id is None and tokenizer.eos_token is not None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


@contextmanager
def _loading(what: str, path: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        why = _first(error) or type(error).__name__
        raise ConfigError(f"no {what} could be loaded from {path!r}: {why}") from error


_BUILD_S, _BUILD_BYTES = 60, 8 << 30
_MORE_THAN_KEPT = 4
"""Limit on weights, as a multiple of those in the files: some are tied, some newly created."""


def _check_config(path: str, trust_remote_code: bool) -> None:
    """Refuse a config that names code, or describes a model that its files do not hold."""
    from llm_gym.tools.sandbox.bounded import EndlessError, run_bounded

    check_model_path(path)
    if trust_remote_code:
        return
    folder = Path(path)
    if not folder.is_dir():
        try:
            found = cached_file(path, "config.json")
        except OSError:  # loading it will raise the reason
            return
        folder = Path(found or "").parent
    try:
        kept = sum(map(count_weights, folder.glob("*.safetensors")))
        made = int(run_bounded(lambda: _made(folder), cpu_s=_BUILD_S, memory=_BUILD_BYTES))
    except EndlessError as error:
        raise ConfigError(f"the config in {path!r} describes no model: {error}") from error
    except (ValueError, SafetensorError) as error:
        raise ConfigError(f"no model could be loaded from {path!r}: {_first(error)}") from error
    if made == _NAMES_CODE:
        raise ConfigError(
            f"the config in {path!r} names a kernel of the hub as its attention; remove "
            "attn_implementation from it, or set model.trust_remote_code"
        )
    if kept and made > _MORE_THAN_KEPT * kept + 1_000_000:
        raise ConfigError(
            f"the config in {path!r} describes {made:,} weights, but its files hold {kept:,}"
        )


_NAMES_CODE = -1


def _made(folder: Path) -> str:
    """Return how many weights the config in ``folder`` describes; 0 if it cannot be compared."""
    config = AutoConfig.from_pretrained(str(folder))
    words = config.to_dict()
    if any("/" in value for value in _attentions([words, vars(config)])):
        return str(_NAMES_CODE)
    if "quantization_config" in words:  # one stored number holds several weights
        return "0"
    with torch.device("meta"):
        built = AutoModelForCausalLM.from_config(config)
    return str(sum(each.numel() for each in built.parameters()))


def _attentions(value: Any) -> Iterator[str]:
    """Yield the attention implementations that a config and its nested configs name."""
    if isinstance(value, dict):
        for name, each in value.items():
            if "attn_implementation" in str(name) and isinstance(each, str):
                yield each
            yield from _attentions(each)
    elif isinstance(value, list):
        for each in value:
            yield from _attentions(each)
    elif isinstance(value, PreTrainedConfig):
        yield from _attentions(vars(value))


def count_weights(file: Path) -> int:
    """Return how many numbers a file of weights holds, in any format."""
    with safe_open(file, "np") as weights:
        shapes = [weights.get_slice(name).get_shape() for name in weights.keys()]  # noqa: SIM118
    return sum(math.prod(shape) for shape in shapes)


def load_generation_config(path: str) -> GenerationConfig | None:
    """Return the generation config at ``path``, or None."""
    try:
        return GenerationConfig.from_pretrained(path)
    except OSError:
        return None


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


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """The sizes of a model that its memory depends on."""

    parameters: int
    hidden: int
    layers: int
    mlp: int
    vocabulary: int
    kv_width: int
    """Width of a key, or value, of one token in one layer."""
    lean: bool = False
    """Whether its layers keep less in bfloat16 (``model.lean_layers``)."""

    @classmethod
    def of(cls, config: Any, *, trust_remote_code: bool = False) -> ModelShape:
        """Return the shape of a transformers config; nothing is allocated."""
        text = config.get_text_config()  # of a model that reads pictures too
        try:
            with torch.device("meta"):
                made = AutoModelForCausalLM.from_config(config, trust_remote_code=trust_remote_code)
            heads = text.num_attention_heads
        except (AttributeError, ValueError) as error:
            raise ConfigError(
                f"{type(config).__name__} is of no model to train: {_first(error)}"
            ) from error
        head = getattr(text, "head_dim", None) or text.hidden_size // heads
        groups = getattr(text, "num_key_value_heads", None) or heads
        return cls(
            parameters=sum(weight.numel() for weight in made.parameters()),
            hidden=text.hidden_size,
            layers=text.num_hidden_layers,
            mlp=getattr(text, "intermediate_size", None) or 4 * text.hidden_size,
            vocabulary=text.vocab_size,
            kv_width=groups * head,
            lean=is_lean(made),
        )


# --- the embedded model ------------------------------------------------------------------

TINY_SPREAD = 0.125
"""Standard deviation of the embedded model's weights, 1 / sqrt(width). With 0.02 FrozenLake stays
at 17 % after 60 iterations and GuessTheNumberEasy at chance; with this they reach 96 % and 84 %."""


def tiny_llama(
    tokenizer: PreTrainedTokenizerBase,
    *,
    hidden_size: int = 64,
    layers: int = 2,
    heads: int = 4,
    context_length: int = 1024,
    spread: float = 0.02,
    seed: int = 0,
) -> LlamaForCausalLM:
    """Return a small Llama with random weights, for a laptop.

    ``spread`` is the standard deviation of its weights. The usual 0.02 suits wide models; with 64
    channels it learns slowly.
    """
    with torch.random.fork_rng():
        torch.manual_seed(seed % 2**63)
        return LlamaForCausalLM(
            LlamaConfig(
                vocab_size=len(tokenizer),
                hidden_size=hidden_size,
                intermediate_size=2 * hidden_size,
                num_hidden_layers=layers,
                num_attention_heads=heads,
                num_key_value_heads=heads,
                max_position_embeddings=context_length,
                tie_word_embeddings=False,
                initializer_range=spread,
                pad_token_id=tokenizer.pad_token_id,
                bos_token_id=tokenizer.bos_token_id,
                eos_token_id=tokenizer.eos_token_id,
            )
        )
