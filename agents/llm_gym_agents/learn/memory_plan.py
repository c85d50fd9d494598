"""Will it fit? What training takes of a GPU's memory, worked out before anything is loaded.

Two moments count. While the trainer learns, the card holds weights, gradients, optimizer state and
activations, and the engine sleeps if there is no room for both. While the engine plays, gradients
and activations are gone, and the card holds weights and optimizer state beside the engine's weights
and its keys and values. An engine that cannot sleep is there in both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from llm_gym.errors import ConfigError
from llm_gym_agents.lm.lean_layers import is_lean

GIB = 2**30
OVERHEAD = 3 * GIB
"""CUDA's own, kernels, and what an allocator cannot use."""
ENGINE_OVERHEAD = 6 * GIB
"""The same of vLLM: what it computes in, and its CUDA graphs."""
_KEPT = {"lean": (16.0, 6.0), "plain": (34.0, 8.0), "float32": (44.0, 16.0)}
"""Bytes of activations that a layer keeps for each token: per channel of the hidden state (norms,
q, k, v, attention, residuals) and of the MLP. In bfloat16 with lean layers or without, or wide.
Counted with ``saved_tensors_hooks``, and rounded up."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What the size of a model depends on."""

    parameters: int
    hidden: int
    layers: int
    mlp: int
    vocabulary: int
    kv_width: int
    """Numbers of a key, or a value, of one token in one layer."""
    lean: bool = False
    """Whether its layers keep less in bfloat16 (``lm.lean_layers``)."""

    @classmethod
    def of(cls, config: Any, *, trust_remote_code: bool = False) -> Shape:
        """Return the shape of a transformers config; nothing is allocated."""
        import torch
        from transformers import AutoModelForCausalLM

        text = config.get_text_config()  # of a model that reads pictures too
        try:
            with torch.device("meta"):
                made = AutoModelForCausalLM.from_config(config, trust_remote_code=trust_remote_code)
            heads = text.num_attention_heads
        except (AttributeError, ValueError) as error:
            why = str(error).partition("\n")[0]
            raise ConfigError(f"{type(config).__name__} is of no model to train: {why}") from error
        head = getattr(text, "head_dim", None) or text.hidden_size // heads
        groups = getattr(text, "num_key_value_heads", None) or heads
        mlp = getattr(text, "intermediate_size", None) or 4 * text.hidden_size
        return cls(
            parameters=sum(weight.numel() for weight in made.parameters()),
            hidden=text.hidden_size,
            layers=text.num_hidden_layers,
            mlp=mlp,
            vocabulary=text.vocab_size,
            kv_width=groups * head,
            lean=is_lean(made),
        )


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Bytes that a run takes on one card."""

    weights: int
    gradients: int
    optimizer: int
    reference: int
    activations: int
    engine: int
    """The engine's weights and cache; 0 without one of its own on this card."""
    engine_sleeps: bool = True

    @property
    def resident(self) -> int:
        """What the trainer holds all the time."""
        return self.weights + self.optimizer + self.reference

    @property
    def learning(self) -> int:
        """The most that is held while the trainer learns."""
        awake = 0 if self.engine_sleeps else self.engine
        return self.resident + self.gradients + self.activations + awake + OVERHEAD

    @property
    def playing(self) -> int:
        """The most that is held while the engine plays."""
        overhead = OVERHEAD + (ENGINE_OVERHEAD if self.engine else 0)
        return self.resident + self.engine + overhead

    def check(self, total: int) -> None:
        """Raise one sentence with the numbers unless the run fits into ``total`` bytes."""
        worst, doing = max((self.learning, "learning"), (self.playing, "playing"))
        if worst <= total:
            return
        parts = {
            "weights": self.weights,
            "optimizer": self.optimizer,
            "reference": self.reference,
            "gradients": self.gradients if doing == "learning" else 0,
            "activations": self.activations if doing == "learning" else 0,
            "engine": self.engine if doing == "playing" or not self.engine_sleeps else 0,
        }
        named = ", ".join(f"{name} {size / GIB:.1f}" for name, size in parts.items() if size)
        raise ConfigError(
            f"{doing} needs {worst / GIB:.1f} GiB on a card with {total / GIB:.1f} ({named}, in "
            "GiB); set model.lora_rank, model.gradient_checkpointing, "
            "training.optimizer='adamw_8bit' or fewer training.micro_batch_tokens"
        )


def plan(
    shape: Shape,
    *,
    micro_batch_tokens: int,
    lora_rank: int = 0,
    kept_bytes: int = 4,
    optimizer_bytes: float = 8.0,
    checkpointing: bool = False,
    narrow: bool = True,
    has_reference: bool = False,
    engine_tokens: int = 0,
    engine_bytes: int = 2,
    engine_sleeps: bool = True,
) -> Plan:
    """Return what training a model of ``shape`` takes.

    Args:
        shape: Of the model.
        micro_batch_tokens: Tokens of one forward pass.
        lora_rank: Of adapters on every linear layer; 0 trains all weights.
        kept_bytes: Of a frozen weight; what is trained has 4.
        optimizer_bytes: Of optimizer state on the card, for each number that is trained.
        checkpointing: Whether activations are computed again.
        narrow: Whether it computes in bfloat16, for which weights kept in float32 are cast.
        has_reference: Whether a KL penalty needs a copy of the policy (with LoRA it never does).
        engine_tokens: Tokens whose keys and values the engine holds; 0 for no engine of its own.
        engine_bytes: Of a number in the engine.
        engine_sleeps: Whether the engine frees its memory while the trainer learns.
    """
    width = shape.hidden * 8 + shape.kv_width * 4 + shape.mlp * 3  # of a layer's linear maps
    trained = lora_rank * width * shape.layers if lora_rank else shape.parameters
    frozen = shape.parameters if lora_rank else 0
    channel, mlp = _KEPT[("lean" if shape.lean else "plain") if narrow else "float32"]
    layer = micro_batch_tokens * (channel * shape.hidden + mlp * shape.mlp)
    boundary = (2 if narrow else 4) * micro_batch_tokens * shape.hidden
    layers = layer + boundary * shape.layers if checkpointing else layer * shape.layers
    cast = 2 * shape.parameters if narrow and (not lora_rank or kept_bytes == 4) else 0
    if checkpointing:  # those of one layer at a time
        cast //= shape.layers
    head = 2 * (1 << 28) + 6 * shape.vocabulary * shape.hidden  # chunks; a cast copy, its gradient
    cache = engine_tokens * shape.layers * 2 * shape.kv_width * engine_bytes
    return Plan(
        weights=4 * trained + kept_bytes * frozen,
        gradients=4 * trained,
        optimizer=int(optimizer_bytes * trained),
        reference=2 * shape.parameters if has_reference and not lora_rank else 0,
        activations=int(layers + cast + head),
        engine=shape.parameters * engine_bytes + cache if engine_tokens else 0,
        engine_sleeps=engine_sleeps,
    )


def engine_share(made: Plan, *, used: int, total: int) -> float:
    """Return the share of a card that vLLM is to be told.

    It counts what everybody holds on the card, the trainer included, so what is ``used`` when it
    starts is part of it.

    >>> made = Plan(weights=0, gradients=0, optimizer=0, reference=0, activations=0, engine=8 * GIB)
    >>> engine_share(made, used=6 * GIB, total=80 * GIB)
    0.25
    """
    wanted = used + made.engine + ENGINE_OVERHEAD
    return round(min(0.95, wanted / total), 3)


def engine_must_sleep(made: Plan, *, used: int, total: int) -> bool:
    """Return whether vLLM has to give its memory back while the trainer learns.

    Sleeping and waking cost time in every iteration, so where there is room for both it stays
    awake. What is ``used`` when it starts is the trainer's own, or somebody else's, who stays.

    >>> made = Plan(weights=0, gradients=0, optimizer=0, reference=0, activations=0, engine=8 * GIB)
    >>> engine_must_sleep(made, used=6 * GIB, total=80 * GIB)
    False
    >>> engine_must_sleep(made, used=6 * GIB, total=16 * GIB)
    True
    """
    awake = replace(made, engine_sleeps=False)
    return awake.learning + ENGINE_OVERHEAD + used > total
