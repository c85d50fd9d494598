"""From a path and a few settings to an engine and its tokenizer.

``load_engine`` is the one place that knows which backends there are and which settings each takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from transformers import PreTrainedTokenizerBase

from llm_gym.core.text import closest
from llm_gym.errors import ConfigError
from llm_gym_agents.engines.base import Engine
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from llm_gym_agents.model.load import load_tokenizer

Backend = Literal["transformers", "vllm", "sglang"]
BACKENDS: tuple[Backend, ...] = ("transformers", "vllm", "sglang")
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
