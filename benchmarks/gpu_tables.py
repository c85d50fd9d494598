"""What ``train_gpu.py`` and ``real_model.py`` measured, as tables of the docs."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

RESULT = Path(__file__).parent / "results" / "train_gpu.json"
REAL = Path(__file__).parent / "results" / "real_model.json"
BESIDE = Path(__file__).parent / "results" / "trl_gpu.json"
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
    for row in _rows("update"):
        hand, ours = (
            f"{row[who]['seconds']:.2f} s, {row[who]['peak_gib']:.1f} GiB"
            for who in ("hand", "ours")
        )
        name = NAMES.get(row["model"], row["model"])
        micro = row["ours"]["micro_batch_tokens"]
        ratios = f"{row['ratio']:.2f}, {row['memory']:.2f}"
        lines.append(f"| {name} | {micro:,} | {hand} | {ours} | {ratios} |")
    return "\n".join(lines)


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
    """A whole iteration by its phases: those of the run that was measured beside TRL."""
    rows = _rows("iteration")
    if BESIDE.exists():
        found = json.loads(BESIDE.read_text())
        rows = found["sides"][found["summary"]["best"]["ours"]]["rows"][1:]  # the first warms up
    names = {"collect": "play", "score": "score", "advantage": "advantages", "train": "train"}
    phases = [f"{name} {_median(rows, f'time/{key}_s'):.2f} s" for key, name in names.items()]
    return (
        f"{', '.join(phases)}, publish and check {rows[-1]['engine/weights_checked']:.0f} weights "
        f"{_median(rows, 'time/publish_s'):.2f} s; "
        f"{max(row['gpu/memory_peak_gib'] for row in rows):.1f} GiB at the peak."
    )


def _median(rows: list[dict[str, float]], name: str) -> float:
    return statistics.median(row[name] for row in rows)


def real_model() -> str:
    """What a real model learned, and where its time went."""
    if not REAL.exists():
        command = "python benchmarks/real_model.py --model FOLDER"
        return f"Not measured yet: `{command}` writes `benchmarks/results/real_model.json`."
    found = json.loads(REAL.read_text())
    figure = "![success of each game's seeds against seconds](images/real_model.png)"
    return f"{figure}\n\n{real_model_runs(found)}\n\n{_real_model_phases(found)}"


def real_model_runs(found: dict[str, Any]) -> str:
    """Every run: held-out success at its three stages, and what it took."""
    lines = [
        "| game | seed | start | warm start | trained | minutes | and to start vLLM | episodes "
        "| iterations |",
        "|---|---:|---|---|---|---:|---:|---:|---:|",
    ]
    failed = []
    for row in sorted(found["runs"], key=lambda row: (row["game"], row["seed"])):
        if "error" in row:
            lines.append(f"| {row['game']} | {row['seed']} | failed | | | | | | |")
            failed.append(f"- {row['game']}, seed {row['seed']}: {row['error']}")
            continue
        cells = [_share(row[each]) for each in ("start", "warm", "trained")]
        starting = row.get("start_up_s", 0.0)
        cells += [f"{(row['all_s'] - starting) / 60:.1f}", f"{starting / 60:.1f}"]
        cells += [f"{row['episodes_played']:,}", str(row["iterations"])]
        lines.append(f"| {row['game']} | {row['seed']} | {' | '.join(cells)} |")
    return "\n".join(lines + (["", *failed] if failed else []))


def _share(found: dict[str, float]) -> str:
    low, high = found["success_low"], found["success_high"]
    return f"{found['success']:.1%} ({low:.0%} to {high:.0%})"


def _real_model_phases(found: dict[str, Any]) -> str:
    names = ("collect", "score", "advantage", "train", "publish")
    head = "play | score | advantages | train | publish"
    lines = [
        f"| game | {head} | tokens/s sampled, of all time | tokens/s read in updates | GiB |",
        "|---|" + "---:|" * 8,
    ]
    games: dict[str, list[dict[str, Any]]] = {}
    for row in found["runs"]:
        if "error" not in row:
            games.setdefault(row["game"], []).append(row)
    for game, rows in sorted(games.items()):
        phases = [row["phases"] for row in rows]
        cells = [f"{_mean(phases, f'{name}_share'):.0%}" for name in names]
        speeds = ("time/tokens_per_s", "time/update_tokens_per_s")
        cells += [f"{_mean(phases, name):,.0f}" for name in speeds]
        cells.append(f"{max(row['memory_peak_gib'] for row in rows):.1f}")
        lines.append(f"| {game} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _mean(rows: list[dict[str, float]], name: str) -> float:
    return sum(row[name] for row in rows) / len(rows)
