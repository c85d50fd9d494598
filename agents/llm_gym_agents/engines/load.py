"""From a path and a few settings to an engine and its tokenizer.

``load_engine`` is the one place that knows which backends there are and which settings each takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from llm_gym.core.hints import closest
from llm_gym.errors import ConfigError
from llm_gym_agents.engines.base import Engine
from llm_gym_agents.engines.transformers.engine import TransformersEngine

Backend = Literal["transformers", "vllm", "sglang"]
BACKENDS: tuple[Backend, ...] = ("transformers", "vllm", "sglang")
DTYPES = ("auto", "float32", "bfloat16", "float16")
_COMMON = ("dtype", "max_model_len", "tensor_parallel_size", "trust_remote_code")
_OWN = ("attn_implementation", "device", "max_rows", "prefix_cache")
_VLLM = (
    "cache_gb",
    "eager",
    "gpu_memory_utilization",
    "max_rows",
    "patterns",
    "separate",
    "sleeps",
    "stall_s",
)
_SGLANG = ("arguments", "max_rows", "patterns", "stall_s", "url")
SETTINGS: dict[Backend, tuple[str, ...]] = {
    "transformers": (*_COMMON, *_OWN),
    "vllm": (*_COMMON, *_VLLM),
    "sglang": (*_COMMON, *_SGLANG),
}
"""What ``config`` may hold for each backend."""


def load_engine(
    path: str, backend: str = "transformers", config: Mapping[str, Any] | None = None
) -> tuple[Engine, PreTrainedTokenizerBase]:
    """Return an engine for the model at ``path``, and its tokenizer.

    Args:
        path: A model folder or a hub name.
        backend: transformers, vllm or sglang.
        config: ``dtype``, ``max_model_len`` (most tokens of prompt and reply),
            ``tensor_parallel_size`` and ``trust_remote_code``; for transformers also ``device``,
            ``attn_implementation``, ``max_rows`` and ``prefix_cache``, as in
            ``TransformersEngine``; for the others what ``VLLMEngine`` and ``SGLangEngine`` take.
    """
    settings = dict(config or {})
    check_settings(backend, settings)
    if backend != "transformers":
        return _load_served(path, backend, settings)
    settings.pop("tensor_parallel_size", None)
    length = settings.pop("max_model_len", None)
    engine = TransformersEngine.from_pretrained(path, context_length=length, **settings)
    return engine, engine.tokenizer


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
    _check_path(path)
    try:
        model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
            path,
            dtype=dtype,
            attn_implementation=attn_implementation,
            trust_remote_code=trust_remote_code,
        )
    except (OSError, ValueError) as error:
        raise ConfigError(f"no model could be loaded from {path!r}: {_first(error)}") from error
    model.to(device=torch.device(device))  # type: ignore[call-arg]
    return model


def load_tokenizer(path: str, *, trust_remote_code: bool = False) -> PreTrainedTokenizerBase:
    """Return the tokenizer at ``path``. One without a padding token pads with its end of text."""
    _check_path(path)
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            path, trust_remote_code=trust_remote_code
        )
    except (OSError, ValueError) as error:
        raise ConfigError(f"no tokenizer could be loaded from {path!r}: {_first(error)}") from error
    return with_padding(tokenizer)


def load_generation_config(path: str) -> GenerationConfig | None:
    """Return the generation settings at ``path``, which a folder may do without."""
    try:
        return GenerationConfig.from_pretrained(path)
    except OSError:
        return None


def with_padding(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """Give ``tokenizer`` a padding token, in place: its end of text, if it has none."""
    if tokenizer.pad_token_id is None and tokenizer.eos_token is not None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def check_settings(
    backend: str, settings: Mapping[str, Any], known: Sequence[str] | None = None
) -> None:
    """Refuse a backend that does not exist, and settings that it does not have."""
    if backend not in BACKENDS:
        raise ConfigError(f"backend must be one of {', '.join(BACKENDS)}, got {backend!r}")
    known = SETTINGS[backend] if known is None else known
    for name in settings:
        if name not in known:
            like = closest(name, known)
            hint = f"did you mean {like}?" if like else f"it takes {', '.join(known)}"
            raise ConfigError(f"config for {backend} has no setting {name!r}; {hint}")
    parallel = settings.get("tensor_parallel_size", 1)
    if backend == "transformers" and parallel != 1:
        raise ConfigError(
            f"tensor_parallel_size must be 1 with backend='transformers', got {parallel}; "
            "use backend='vllm' for more"
        )


def _load_served(
    path: str, backend: str, settings: dict[str, Any]
) -> tuple[Engine, PreTrainedTokenizerBase]:
    # A package is missed before a model is: nothing needs to be read for that.
    if backend == "vllm":
        from llm_gym_agents.engines.vllm.engine import VLLMEngine as ServedEngine
    else:
        from llm_gym_agents.engines.sglang.engine import (  # type: ignore[assignment]
            SGLangEngine as ServedEngine,
        )
    ServedEngine.need_package(settings)
    tokenizer = load_tokenizer(path, trust_remote_code=settings.get("trust_remote_code", False))
    return ServedEngine(path, tokenizer=tokenizer, **settings), tokenizer


def _check_path(path: str) -> None:
    """Refuse what can only be a folder and is none, before anybody asks the hub about it."""
    looks_local = path.startswith((".", "/", "~", "\\")) or path.count("/") > 1
    if looks_local and not Path(path).is_dir():
        raise ConfigError(f"there is no model folder {path!r}; pass a folder or a hub name")


def _first(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0]
