"""The tables of ``docs/one_gpu.md``, from what ``train_gpu.py`` measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RESULT = Path(__file__).parent / "results" / "train_gpu.json"
NAMES = {
    "smollm2": "SmolLM2-135M-Instruct",
    "0.5B": "0.5B, vocabulary 152k, random weights",
    "1.5B": "1.5B, vocabulary 152k, random weights",
}


def _rows(part: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(RESULT.read_text()).get(part, {"rows": []})["rows"]
    return rows


def update() -> str:
    """One update beside a loop written by hand, by the size of micro-batches."""
    lines = [
        "| model | `training.micro_batch_tokens` | by hand | ours | speed, memory of the loop by "
        "hand |",
        "|---|---:|---|---|---|",
    ]
    rows = _rows("update") + _rows("update_less_memory")
    for row in sorted(rows, key=lambda row: _names().index(row["model"])):
        hand, ours = (
            f"{row[who]['seconds']:.2f} s, {row[who]['peak_gib']:.1f} GiB"
            for who in ("hand", "ours")
        )
        name = NAMES.get(row["model"], row["model"])
        micro = row["ours"]["micro_batch_tokens"]
        ratios = f"{row['ratio']:.2f}, {row['memory']:.2f}"
        lines.append(f"| {name} | {micro:,} | {hand} | {ours} | {ratios} |")
    return "\n".join(lines)


def _names() -> list[str]:
    """Return the models in the order in which they were measured."""
    return list(dict.fromkeys(row["model"] for row in _rows("update")))


def fits() -> str:
    """What fits on the card beside nothing else."""
    lines = ["| | all weights | checkpointed | LoRA on a bfloat16 base |", "|---|---:|---:|---:|"]
    found: dict[str, list[str]] = {}
    for row in _rows("fits"):
        cell = f"{row['peak_gib']:.1f}" if row["fits"] else f"refused: {row['planned_gib']:.0f}"
        found.setdefault(row["model"], []).append(cell + ("" if row["fits"] else " planned"))
    return "\n".join(
        lines + [f"| {model} | {' | '.join(cells)} |" for model, cells in found.items()]
    )


def iteration() -> str:
    """A whole iteration by its phases."""
    row = _rows("iteration")[0]
    names = {"collect": "play", "score": "score", "advantage": "advantages", "train": "train"}
    phases = [f"{name} {row[f'time/{key}_s']:.2f} s" for key, name in names.items()]
    return (
        f"{', '.join(phases)}, publish and check {row['engine/weights_checked']:.0f} weights "
        f"{row['time/publish_s']:.2f} s; {row['gpu/memory_peak_gib']:.1f} GiB at the peak."
    )
