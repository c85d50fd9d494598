"""Tiny models and a tokenizer, made on the spot: real ones, only small.

``tiny_model`` gives two layers of any family with random weights, large enough that what it
predicts depends on every token it read and on its place. ``tiny_tokenizer`` reads and writes any
text, a token per byte, and knows a chat template. ``save_tiny`` puts both into a folder.

    model, tokenizer = tiny_model("gpt2"), tiny_tokenizer()
    engine = TransformersEngine(model, tokenizer=tokenizer)
"""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, PreTrainedModel, PreTrainedTokenizerFast
from transformers.models.auto.configuration_auto import AutoConfig

from llm_gym_agents.engines.base import Engine
from llm_gym_agents.engines.transformers.engine import TransformersEngine
from llm_gym_agents.rollouts.policy import LLMPolicy
from llm_gym_agents.text.chat import ChatFormat
from llm_gym_agents.text.tokenizers import byte_tokenizer

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
VOCABULARY = 264
"""256 bytes, the special tokens, and a few ids that mean nothing, as real models have."""
_SHAPE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 512,
    "initializer_range": 0.2,
    "bos_token_id": 257,
    "eos_token_id": 258,
    "pad_token_id": None,
}
_FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {"num_key_value_heads": 2},
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 512},
    "qwen2": {"num_key_value_heads": 2},
    "qwen3": {"num_key_value_heads": 2, "head_dim": 8},
    "phi3": {"num_key_value_heads": 2},
    "gpt_neox": {},
    "opt": {"ffn_dim": 48, "word_embed_proj_dim": 32},
    # Logits are changed behind the head.
    "granite": {"num_key_value_heads": 2, "logits_scaling": 3.0},
    "cohere": {"num_key_value_heads": 2, "logit_scale": 0.25},
    # Some layers, or all, look back no further than a few tokens.
    "mistral": {"num_key_value_heads": 2, "sliding_window": 6},
    "gemma2": {"num_key_value_heads": 2, "head_dim": 8, "sliding_window": 6},
    "gemma3_text": {
        "num_key_value_heads": 2,
        "head_dim": 8,
        "sliding_window": 6,
        "layer_types": ["sliding_attention", "full_attention"],
    },
}
FAMILIES = tuple(_FAMILIES)
WIDE = {"hidden_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2}
"""Heads of 32 numbers: the smallest that the variable-length kernel takes."""


def tiny_model(family: str = "llama", *, seed: int = 0, **settings: Any) -> PreTrainedModel:
    """Return a tiny causal language model of ``family``, in eval mode.

    Args:
        family: One of ``FAMILIES``.
        seed: Of its weights.
        **settings: For the family's own configuration.
    """
    config = AutoConfig.for_model(family, **{**_SHAPE, **_FAMILIES[family], **settings})
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model: PreTrainedModel = AutoModelForCausalLM.from_config(config)
    return model.eval()


def tiny_tokenizer(*, chat: bool = True, pad: bool = True) -> PreTrainedTokenizerFast:
    """Return a byte tokenizer.

    Args:
        chat: Add ``<|im_start|>``, ``<|im_end|>`` and a chat template that uses them.
        pad: Leave it its padding token.
    """
    tokenizer = byte_tokenizer()
    if chat:
        tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
        tokenizer.chat_template = CHATML
    if not pad:
        tokenizer.pad_token = None
    return tokenizer


def tiny_policy(engine: Engine | None = None, **settings: Any) -> LLMPolicy:
    """Return a policy that asks ``engine``, or a tiny model, in the tiny tokenizer's chat."""
    chat = ChatFormat.from_tokenizer(tiny_tokenizer())
    return LLMPolicy(engine or TransformersEngine(tiny_model()), chat, **settings)


def save_tiny(folder: Path, family: str = "llama", *, pad: bool = True, **settings: Any) -> str:
    """Save a tiny model with its tokenizer; return the folder as a path to load it from."""
    tiny_model(family, **settings).save_pretrained(folder)
    tiny_tokenizer(pad=pad).save_pretrained(folder)
    return str(folder)
