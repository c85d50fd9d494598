"""The model that is trained, and its tokenizer: made, loaded or handed over."""

from __future__ import annotations

from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from llm_gym.as_text import make_text
from llm_gym.core.env import TextEnv
from llm_gym.errors import ConfigError, MissingExtraError, install_command
from llm_gym.registry.sources import EnvSource
from llm_gym.registry.user_code import close_user_env
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.learn.memory_plan import gpu_memory, plan_run
from llm_gym_agents.model.lean_layers import recompute_contexts
from llm_gym_agents.model.load import load_config, load_model, load_tokenizer
from llm_gym_agents.model.precision import compute_dtype, keep_trained_in_float32, without_dropout
from llm_gym_agents.model.tiny import TINY_SPREAD, tiny_llama
from llm_gym_agents.text.tokenizers import (
    byte_tokenizer,
    collect_vocabulary,
    piece_tokenizer,
    texts_of,
    word_tokenizer,
)

TINY = "tiny"


def build_lm(
    config: ConfigStore, env: EnvSource, tokenizer: PreTrainedTokenizerBase | None = None
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return the model that is trained, and its tokenizer."""
    settings = config.model
    if is_embedded(config):
        tokenizer = tokenizer or tiny_tokenizer(env, config.environment.env_kwargs)
        seed = config.training.seed
        lm: PreTrainedModel = tiny_llama(tokenizer, spread=TINY_SPREAD, seed=seed)
        device = device_of(settings.device)
        lm.to(device=device, dtype=_kept_dtype(config, device))
    else:
        lm, own = load_lm(config, settings.model_name)
        tokenizer = tokenizer or own
    return prepare_lm(config, lm), tokenizer


def is_embedded(config: ConfigStore) -> bool:
    """Whether ``config`` names the model that is made on the spot."""
    return config.model.model_name == TINY


def language_model(
    config: ConfigStore,
    env: EnvSource,
    model: PreTrainedModel | None = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return the model that is trained and its tokenizer, those passed in where there are any."""
    if model is None:
        lm, tokenizer = build_lm(config, env, tokenizer)
    else:
        assert tokenizer is not None, "as check_arguments sees to"
        lm = prepare_lm(config, _placed(config, model))
    check_tokenizer(lm, tokenizer)
    return lm, tokenizer


def _placed(config: ConfigStore, model: PreTrainedModel) -> PreTrainedModel:
    """Return a model that was passed in, where the config wants it and in its precision.

    ``auto`` moves it to a GPU if there is one, and leaves its precision alone.
    """
    settings = config.model
    model.to(device=device_of(settings.device))
    if settings.dtype != "auto":
        model.to(dtype=_kept_dtype(config, settings.device))
    return model


def load_lm(config: ConfigStore, path: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return the model at ``path`` and its tokenizer, where and as the config wants them."""
    settings = config.model
    trust, device = settings.trust_remote_code, device_of(settings.device)
    # Weights that will be spread over cards are planned with all of them (``distributed.plan``).
    alone = config.parallel.mode != "fsdp"
    if alone and torch.device(device).type == "cuda":
        own = load_config(path, trust_remote_code=trust)
        plan_run(config, own).check(gpu_memory(torch.device(device)))
    dtype = str(_kept_dtype(config, device)).removeprefix("torch.")
    lm = load_model(path, dtype=dtype, device=device, trust_remote_code=trust)
    return lm, load_tokenizer(path, trust_remote_code=trust)


def _kept_dtype(config: ConfigStore, device: str) -> torch.dtype:
    """Return the precision that weights are loaded in: float32, unless they stay frozen."""
    if not config.model.lora_rank:
        return torch.float32
    return compute_dtype(config.model.dtype, torch.device(device.replace("auto", "cpu")))


def device_of(wanted: str) -> str:
    """Return the device that ``wanted`` means on this machine."""
    if wanted == "auto":
        if torch.cuda.is_available():
            return "cuda"
        return "mps" if torch.backends.mps.is_available() else "cpu"
    kind, _, number = wanted.partition(":")
    cards = torch.cuda.device_count() if kind == "cuda" else int(torch.backends.mps.is_available())
    if kind != "cpu" and int(number or 0) >= cards:
        raise ConfigError(
            f"model.device must be a device of this machine, got {wanted!r}, of which torch "
            f"{torch.__version__} finds {cards}; auto takes the best there is"
        )
    return wanted


def prepare_lm(config: ConfigStore, lm: PreTrainedModel) -> PreTrainedModel:
    """Return ``lm`` with the adapters and the memory savings that the config asks for."""
    if config.model.lora_rank:
        lm = _add_lora(lm, config.model.lora_rank, config.model.lora_alpha)
    if config.model.gradient_checkpointing:
        lm.gradient_checkpointing_enable(
            gradient_checkpointing_kwargs={"use_reentrant": False, "context_fn": recompute_contexts}
        )
        lm.enable_input_require_grads()
    without_dropout(lm)
    return lm


def check_tokenizer(lm: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
    """Refuse a tokenizer with ids that the model has no embedding for."""
    rows = len(lm.get_input_embeddings().get_parameter("weight"))
    if len(tokenizer) > rows:
        raise ConfigError(
            f"the tokenizer must have at most the {rows} tokens of the model's embedding, got "
            f"{len(tokenizer)}; pass the tokenizer that the model was made with"
        )


def _add_lora(lm: PreTrainedModel, rank: int, alpha: float) -> PreTrainedModel:
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError as error:
        raise MissingExtraError(
            f"model.lora_rank needs peft. Install it with: {install_command('lora')}"
        ) from error
    # To peft's types alpha is an int, and what comes back is any module; it is lm.
    settings = LoraConfig(r=rank, lora_alpha=alpha, target_modules="all-linear")
    adapted: PreTrainedModel = inject_adapter_in_model(settings, lm)
    for name, parameter in adapted.named_parameters():
        parameter.requires_grad_("lora_" in name)
    keep_trained_in_float32(adapted)
    return adapted


def tiny_tokenizer(env: EnvSource, env_kwargs: dict[str, Any]) -> PreTrainedTokenizerBase:
    """Return a tokenizer of the words that an environment uses, or of bytes where nobody plays."""
    if not isinstance(env, str):
        return byte_tokenizer()
    made = make_text(env, **env_kwargs)
    try:
        if isinstance(made.unwrapped, TextEnv):
            if made.spec is not None:
                return word_tokenizer(collect_vocabulary([made.spec], rules=True))
        elif made.has_wrapper_attr("random_action"):
            return piece_tokenizer(texts_of(made))
    finally:
        close_user_env(made)
    return byte_tokenizer()
