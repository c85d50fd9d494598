"""What a run takes of a card, before it takes it."""

from __future__ import annotations

from typing import Any

import torch
from transformers import PreTrainedModel

from llm_gym_agents.config import ConfigStore
from llm_gym_agents.learn.memory_plan import Plan, Shape, engine_must_sleep, engine_share, plan
from llm_gym_agents.learn.optimizer import bytes_of_state
from llm_gym_agents.lm.precision import compute_dtype

MOST_CACHED = 1 << 19
"""Tokens whose keys and values an engine is given room for, if the model allows as many."""
UNSAID = 2048
"""Length of a text for a model that states none, as vLLM assumes it."""


def run_plan(config: ConfigStore, own: Any) -> Plan:
    """Return what a run takes of a card; ``own`` is the config of its model."""
    settings, inference = config.model, config.inference
    served = inference.backend == "vllm"
    longest = inference.engine.get("max_model_len") or _most_positions(own)
    rows = min(inference.num_envs, config.training.batch_size)
    device = torch.device("cuda")
    narrow = compute_dtype(settings.dtype, device) != torch.float32
    return plan(
        Shape.of(own, trust_remote_code=settings.trust_remote_code),
        micro_batch_tokens=config.training.micro_batch_tokens,
        lora_rank=settings.lora_rank,
        kept_bytes=2 if settings.lora_rank and narrow else 4,
        optimizer_bytes=bytes_of_state(config.training.optimizer, lora_rank=settings.lora_rank),
        checkpointing=settings.gradient_checkpointing,
        narrow=narrow,
        has_reference=config.training.kl != "none",
        engine_tokens=max(longest, min(rows * longest, MOST_CACHED)) if served else 0,
        engine_bytes=2 if narrow else 4,
        engine_sleeps=bool(inference.engine.get("sleeps", True)),
    )


def _most_positions(own: Any) -> int:
    """Return how long a text a model was made for, or what is assumed where it does not say."""
    return getattr(own.get_text_config(), "max_position_embeddings", None) or UNSAID


def total_memory(device: torch.device) -> int:
    """Return the bytes of a card."""
    found: int = torch.cuda.get_device_properties(device).total_memory
    return found


def shared_card(config: ConfigStore, lm: PreTrainedModel) -> dict[str, Any]:
    """Return how vLLM shares the trainer's card, unless the config says how."""
    if config.inference.backend != "vllm" or lm.device.type != "cuda":
        return {}
    free, total = torch.cuda.mem_get_info(lm.device)
    made, used = run_plan(config, lm.config), total - free
    return {
        "gpu_memory_utilization": engine_share(made, used=used, total=total),
        "sleeps": engine_must_sleep(made, used=used, total=total),
    }
