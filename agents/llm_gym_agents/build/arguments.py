"""What a program hands to a trainer, looked at before anything is built of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from llm_gym.errors import ConfigError
from llm_gym_agents.config import ConfigStore


def list_callbacks(callbacks: Any) -> list[Callable[..., Any]]:
    """Return the callbacks of any iterable; raise ``ConfigError`` where they are none."""
    if not isinstance(callbacks, Iterable) or not all(map(callable, found := list(callbacks))):
        raise ConfigError(f"callbacks must be a list of functions, got {callbacks!r:.100}")
    return found


def check_arguments(config: Any, model: Any, tokenizer: Any) -> None:
    """Raise ``ConfigError`` where one of them is not what its name says."""
    if not isinstance(config, ConfigStore):
        raise ConfigError(
            f"config must be a ConfigStore, got {type(config).__name__}; ConfigStore.from_dict "
            "makes one of a dictionary, and ConfigStore.load of a file"
        )
    if model is not None:
        _check_model(model, will_adapt=config.model.lora_rank > 0)
        if tokenizer is None:
            raise ConfigError("a model that is passed in needs its tokenizer as well")
    if tokenizer is not None and not isinstance(tokenizer, PreTrainedTokenizerBase):
        raise ConfigError(
            f"tokenizer must be a transformers tokenizer, got {type(tokenizer).__name__}; "
            "AutoTokenizer.from_pretrained loads one"
        )


def _check_model(model: Any, *, will_adapt: bool) -> None:
    name = type(model).__name__
    if hasattr(model, "merge_and_unload"):
        raise ConfigError(
            f"model must be without adapters, got {name}; set config.model.lora_rank to train some "
            "on its base, or pass model.merge_and_unload()"
        )
    if not isinstance(model, PreTrainedModel) or model.get_output_embeddings() is None:
        raise ConfigError(
            f"model must be a transformers causal language model, got {name}; "
            "AutoModelForCausalLM.from_pretrained loads one, and config.model.model_name names one"
        )
    if any(parameter.is_meta for parameter in model.parameters()):
        raise ConfigError(f"model must have its weights, got a {name} on the device meta")
    if not will_adapt and not any(parameter.requires_grad for parameter in model.parameters()):
        raise ConfigError(
            f"model must have a weight that can be trained, got a {name} that is frozen; "
            "model.requires_grad_(True) lets all of them be, or set config.model.lora_rank"
        )
