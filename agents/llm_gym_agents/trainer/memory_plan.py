"""Estimates the GPU memory of a run before anything is loaded.

Two moments count. While the trainer learns, a GPU holds weights, gradients, optimizer state and
activations; the engine sleeps if there is no room for both. While the engine generates, gradients
and activations are gone, and the GPU holds weights and optimizer state beside the engine's weights
and KV cache. An engine that cannot sleep takes its memory in both.

``plan_memory`` computes both for one GPU. Policy, critic and reference share a process.
"""

from dataclasses import dataclass, replace

from llm_gym.core.errors import ConfigError
from llm_gym_agents.model.load import ModelShape

GIB = 2**30
OVERHEAD = 3 * GIB
"""CUDA context, kernels, and fragmentation."""
ENGINE_OVERHEAD = 6 * GIB
"""The same for vLLM, with its activations and CUDA graphs."""
_KEPT = {"lean": (16.0, 6.0), "plain": (34.0, 8.0), "float32": (44.0, 16.0)}
"""Bytes of activations that a layer keeps for each token: per channel of the hidden state (norms,
q, k, v, attention, residuals) and of the MLP. In bfloat16 with lean layers or without, or wide.
Counted with ``saved_tensors_hooks``, and rounded up."""


@dataclass(frozen=True, kw_only=True)
class MemoryPlan:
    """Bytes of a run on one GPU."""

    weights: int
    gradients: int
    optimizer: int
    reference: int
    activations: int
    engine: int
    """The engine's weights and KV cache; 0 if it has none of its own on this GPU."""
    engine_sleeps: bool = True

    @property
    def resident(self) -> int:
        """Memory that the trainer holds all the time."""
        return self.weights + self.optimizer + self.reference

    @property
    def learning(self) -> int:
        """Peak while the trainer learns."""
        awake = 0 if self.engine_sleeps else self.engine
        return self.resident + self.gradients + self.activations + awake + OVERHEAD

    @property
    def playing(self) -> int:
        """Peak while the engine generates."""
        overhead = OVERHEAD + (ENGINE_OVERHEAD if self.engine else 0)
        return self.resident + self.engine + overhead

    def engine_share(self, *, used: int, total: int) -> float:
        """Return vLLM's ``gpu_memory_utilization``.

        vLLM counts all memory in use, so the share includes ``used``, the trainer's memory at
        vLLM's start.
        """
        return round(min(0.95, (used + self.engine + ENGINE_OVERHEAD) / total), 3)

    def engine_must_sleep(self, *, used: int, total: int) -> bool:
        """Whether vLLM must free its memory while the trainer learns; that takes time."""
        return replace(self, engine_sleeps=False).learning + ENGINE_OVERHEAD + used > total

    def check(self, total: int) -> None:
        """Raise ``ConfigError`` with the numbers unless the run fits into ``total`` bytes."""
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


def plan_memory(
    shape: ModelShape,
    *,
    micro_batch_tokens: int,
    lora_rank: int = 0,
    kept_bytes: int = 4,
    optimizer_bytes: float = 8.0,
    checkpointing: bool = False,
    narrow: bool = True,
    has_reference: bool = False,
    engine_tokens: int = 0,
    engine_sleeps: bool = True,
) -> MemoryPlan:
    """Return the memory that training a model of ``shape`` takes.

    Args:
        shape: Shape of the model.
        micro_batch_tokens: Tokens of one forward pass.
        lora_rank: Rank of adapters on every linear layer; 0 trains all weights.
        kept_bytes: Bytes of a frozen weight; a trained weight has 4.
        optimizer_bytes: Bytes of optimizer state on the GPU per trained parameter.
        checkpointing: Whether gradient checkpointing is on.
        narrow: Whether model and engine compute in bfloat16, with casts of float32 weights.
        has_reference: Whether a KL penalty needs a copy of the policy (with LoRA it never does).
        engine_tokens: Tokens in the engine's KV cache; 0 without an engine of its own.
        engine_sleeps: Whether the engine frees its memory while the trainer learns.
    """
    computed_bytes = 2 if narrow else 4
    width = shape.hidden * 8 + shape.kv_width * 4 + shape.mlp * 3  # of a layer's linear maps
    trained = lora_rank * width * shape.layers if lora_rank else shape.parameters
    frozen = shape.parameters if lora_rank else 0
    channel, mlp = _KEPT[("lean" if shape.lean else "plain") if narrow else "float32"]
    layer = micro_batch_tokens * (channel * shape.hidden + mlp * shape.mlp)
    boundary = computed_bytes * micro_batch_tokens * shape.hidden
    layers = layer + boundary * shape.layers if checkpointing else layer * shape.layers
    cast = 2 * shape.parameters if narrow and (not lora_rank or kept_bytes == 4) else 0
    if checkpointing:  # those of one layer at a time
        cast //= shape.layers
    head = 2 * (1 << 28) + 6 * shape.vocabulary * shape.hidden  # chunks; a cast copy, its gradient
    cache = engine_tokens * shape.layers * 2 * shape.kv_width * computed_bytes
    return MemoryPlan(
        weights=4 * trained + kept_bytes * frozen,
        gradients=4 * trained,
        optimizer=int(optimizer_bytes * trained),
        reference=2 * shape.parameters if has_reference and not lora_rank else 0,
        activations=int(layers + cast + head),
        engine=shape.parameters * computed_bytes + cache if engine_tokens else 0,
        engine_sleeps=engine_sleeps,
    )
