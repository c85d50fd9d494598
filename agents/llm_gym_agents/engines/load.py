"""Loads an engine and its tokenizer from a path and a few settings."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from transformers import PreTrainedTokenizerBase

from llm_gym.core.errors import ConfigError, require_package
from llm_gym.core.settings import check_types
from llm_gym.core.text import closest
from llm_gym.registry.user_code import import_object
from llm_gym_agents.engines.base import Engine
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from llm_gym_agents.model.load import load_model, load_tokenizer

Backend = Literal["transformers", "vllm", "sglang"]
BACKENDS: tuple[Backend, ...] = ("transformers", "vllm", "sglang")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Transformers:
    """Settings of the transformers engine."""

    dtype: str | None = None
    device: str | None = None
    attn_implementation: str | None = None
    trust_remote_code: bool = False
    max_model_len: int | None = None
    max_rows: int = 256
    prefix_cache: bool = True
    tensor_parallel_size: int = 1


def load_engine(
    path: str, backend: str = "transformers", config: Mapping[str, Any] | None = None
) -> tuple[Engine, PreTrainedTokenizerBase]:
    """Return an engine for the model at ``path``, and its tokenizer.

    Args:
        path: A model folder or a hub name.
        backend: transformers, vllm or sglang; or ``module:Class``, a subclass of ``Engine``, which
            gets the path, ``tokenizer=`` and ``config``.
        config: ``dtype``, ``max_model_len`` (maximum tokens of prompt and reply),
            ``tensor_parallel_size`` and ``trust_remote_code``; for transformers also ``device``,
            ``attn_implementation``, ``max_rows`` and ``prefix_cache``; for the others every
            argument of ``VLLMEngine`` or ``SGLangEngine``.
    """
    settings = dict(config or {})
    check_settings(backend, settings)
    if backend == "transformers":
        own = _Transformers(**settings)
        model = load_model(
            path,
            dtype=own.dtype,
            device=own.device,
            attn_implementation=own.attn_implementation,
            trust_remote_code=own.trust_remote_code,
        )
        tokenizer = load_tokenizer(path, trust_remote_code=own.trust_remote_code)
        engine = TransformersEngine(
            model,
            tokenizer=tokenizer,
            context_length=own.max_model_len,
            max_rows=own.max_rows,
            prefix_cache=own.prefix_cache,
        )
        return engine, tokenizer
    served = _taker(backend)
    if backend in BACKENDS and not settings.get("url"):
        require_package(backend, f"backend={backend!r}")  # before a model is read
    tokenizer = load_tokenizer(path, trust_remote_code=settings.get("trust_remote_code", False))
    return served(path, tokenizer=tokenizer, **settings), tokenizer


def settings_of(backend: str) -> tuple[str, ...]:
    """Return the names that ``config`` of ``load_engine`` may have."""
    taken = inspect.signature(_taker(backend)).parameters
    return tuple(name for name in taken if name not in ("path", "tokenizer", "end_ids"))


def check_settings(
    backend: str, settings: Mapping[str, Any], known: Sequence[str] | None = None
) -> None:
    """Refuse an unknown backend, settings that it does not have, and values of a wrong type."""
    if backend not in BACKENDS and ":" not in backend:
        raise ConfigError(
            f"backend must be one of {', '.join(BACKENDS)}, or module:Class, got {backend!r}"
        )
    known = settings_of(backend) if known is None else known
    for name in settings:
        if name not in known:
            like = closest(name, known)
            hint = f"did you mean {like}?" if like else f"it takes {', '.join(known)}"
            raise ConfigError(f"config for {backend} has no setting {name!r}; {hint}")
    check_types(_taker(backend), settings)
    parallel = settings.get("tensor_parallel_size", 1)
    if backend == "transformers" and parallel != 1:
        raise ConfigError(
            f"tensor_parallel_size must be 1 with backend='transformers', got {parallel}; "
            "use backend='vllm' for more"
        )


def _taker(backend: str) -> Any:
    """Return the class that takes the settings of ``backend``."""
    if backend == "transformers":
        return _Transformers
    if ":" in backend:
        found = import_object(backend)
        if not (isinstance(found, type) and issubclass(found, Engine)):
            raise ConfigError(f"{backend!r} must be a subclass of Engine, got {found!r:.60}")
        return found
    if backend == "vllm":
        from llm_gym_agents.engines.vllm.engine import VLLMEngine

        return VLLMEngine
    from llm_gym_agents.engines.sglang.engine import SGLangEngine

    return SGLangEngine
