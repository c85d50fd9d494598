"""What an iteration took of a GPU: memory, and the share of its peak speed (MFU)."""

from __future__ import annotations

import torch

PEAK_FLOPS = {
    "H200": 989e12,
    "H100": 989e12,
    "A100": 312e12,
    "L40S": 362e12,
    "B200": 2250e12,
    "RTX 4090": 165e12,
}
"""Dense bfloat16, as the vendor says; what is not here has no MFU."""


class GpuMonitor:
    """Looks at one device from its making on; says nothing of a CPU."""

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
    """Return the arithmetic of an update: 2 per weight and token forward, 4 backward.

    Embeddings are looked up and not multiplied, and the head sees sampled tokens only, so both are
    left out: what is counted is the trunk. Recomputed activations are no progress and not counted.
    """
    trunk = sum(
        weight.numel()
        for name, weight in model.named_parameters()
        if "embed" not in name and "lm_head" not in name
    )
    passes = 6.0 * learned.get("train/epochs", 1.0)
    passes += 2.0 if learned.get("time/score_s", 0.0) > 1e-3 else 0.0
    return passes * trunk * tokens
