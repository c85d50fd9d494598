"""What an iteration costs: seconds, tokens per second, GPU memory and MFU."""

from __future__ import annotations

import torch

from llm_gym_agents.run.metrics import ELAPSED, TOKENS_PER_SECOND, Row

PEAK_FLOPS = {
    "H200": 989e12,
    "H100": 989e12,
    "A100": 312e12,
    "L40S": 362e12,
    "B200": 2250e12,
    "RTX 4090": 165e12,
}
"""Dense bfloat16, from the vendor; other GPUs report no MFU."""


class GpuMonitor:
    """Peak memory and MFU of one GPU; no metrics on a CPU."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)

    def metrics(
        self,
        model: torch.nn.Module,
        tokens: int,
        learned: dict[str, float],
        seconds: float,
    ) -> dict[str, float]:
        """Return the peak of memory, and the MFU of an update on ``tokens`` in ``seconds``."""
        if self._device.type != "cuda":
            return {}
        found = {
            "gpu/memory_peak_gib": torch.cuda.max_memory_allocated(self._device) / 2**30,
            "gpu/memory_gib": torch.cuda.memory_allocated(self._device) / 2**30,
        }
        name = torch.cuda.get_device_name(self._device)
        peak = next((speed for card, speed in PEAK_FLOPS.items() if card in name), None)
        if peak is not None:
            flops = update_flops(model, tokens, learned)
            found["gpu/mfu"] = flops / seconds / peak
        return found


def update_flops(model: torch.nn.Module, tokens: int, learned: dict[str, float]) -> float:
    """Return the FLOPs of an update: 2 per weight and token forward, 4 backward.

    Only the trunk counts: embeddings are lookups, and the head sees sampled tokens only.
    Recomputed activations do not count.
    """
    trunk = sum(
        weight.numel()
        for name, weight in model.named_parameters()
        if "embed" not in name and "lm_head" not in name
    )
    passes = 6.0 * learned.get("train/epochs", 1.0)
    passes += 2.0 if learned.get("time/score_s", 0.0) > 1e-3 else 0.0
    return passes * trunk * tokens


def timing(
    start: float,
    played: float,
    updated: float,
    end: float,
    *,
    sampled: int,
    read: int,
    all_s: float,
) -> Row:
    """Return the time metrics of an iteration."""
    return {
        "time/collect_s": played - start,
        "time/update_s": end - played,
        "time/collect_tokens_per_s": sampled / (played - start),
        "time/update_tokens_per_s": read / (updated - played),
        TOKENS_PER_SECOND: sampled / (end - start),
        ELAPSED: all_s,
    }
