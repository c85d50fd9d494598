"""What ``train_gpu.py`` and ``real_model.py`` measured, as tables of the docs."""

from __future__ import annotations

import statistics
from typing import Any

from doc_tables import TEXT, measured, read, table

NAMES = {
    "smollm2": "SmolLM2-135M-Instruct",
    "0.5B": "0.5B, vocabulary 152k, random weights",
    "1.5B": "1.5B, vocabulary 152k, random weights",
}


def _rows(part: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read("train_gpu").get(part, {"rows": []})["rows"]
    return rows


def update() -> str:
    """One update beside a loop written by hand, by the size of micro-batches."""
    columns = {"model": TEXT, "`training.micro_batch_tokens`": "{:,}"}
    columns |= dict.fromkeys(("by hand", "ours", "speed, memory of the loop by hand"), TEXT)
    rows = [
        (
            NAMES.get(row["model"], row["model"]),
            row["ours"]["micro_batch_tokens"],
            *(
                f"{row[who]['seconds']:.2f} s, {row[who]['peak_gib']:.1f} GiB"
                for who in ("hand", "ours")
            ),
            f"{row['ratio']:.2f}, {row['memory']:.2f}",
        )
        for row in _rows("update")
    ]
    return table(columns, rows)


def fits() -> str:
    """What fits on the card beside nothing else."""
    found: dict[str, list[float | str]] = {}
    for row in _rows("fits"):
        cell = row["peak_gib"] if row["fits"] else f"refused: {row['planned_gib']:.0f} planned"
        found.setdefault(row["model"], []).append(cell)
    columns = {"": TEXT}
    columns |= dict.fromkeys(("all weights", "checkpointed", "LoRA on a bfloat16 base"), "{:.1f}")
    return table(columns, [(model, *cells) for model, cells in found.items()])


def iteration() -> str:
    """A whole iteration by its phases: those of the run that was measured beside TRL."""
    rows = _rows("iteration")
    if (found := read("trl_gpu")) is not None:
        best = found["summary"]["best"]["ours"]
    run = next(run for name, run in found["sides"].items() if name.startswith(best))
    rows = run["rows"][1:]  # the first warms up
    names = {"collect": "play", "score": "score", "advantage": "advantages", "train": "train"}
    phases = [f"{name} {_median(rows, f'time/{key}_s'):.2f} s" for key, name in names.items()]
    return (
        f"{', '.join(phases)}, publish and check {rows[-1]['engine/weights_checked']:.0f} weights "
        f"{_median(rows, 'time/publish_s'):.2f} s; "
        f"{max(row['gpu/memory_peak_gib'] for row in rows):.1f} GiB at the peak."
    )


def _median(rows: list[dict[str, float]], name: str) -> float:
    return statistics.median(row[name] for row in rows)


@measured("real_model", "python benchmarks/real_model.py --model FOLDER")
def real_model(found: Any) -> str:
    """What a real model learned, and where its time went."""
    figure = "![success of each game's seeds against seconds](images/real_model.png)"
    return f"{figure}\n\n{real_model_runs(found)}\n\n{_real_model_phases(found)}"


def real_model_runs(found: dict[str, Any]) -> str:
    """Every run: held-out success at its three stages, and what it took."""
    columns = {"game": TEXT, "seed": "{}", "start": TEXT, "warm start": TEXT, "trained": TEXT}
    columns |= dict.fromkeys(("minutes", "and to start vLLM"), "{:.1f}")
    columns |= {"episodes": "{:,}", "iterations": "{}"}
    rows, failed = [], []
    for row in sorted(found["runs"], key=lambda row: (row["game"], row["seed"])):
        if "error" in row:
            rows.append((row["game"], row["seed"], "failed"))
            failed.append(f"- {row['game']}, seed {row['seed']}: {row['error']}")
            continue
        rows.append(
            (
                *(row["game"], row["seed"]),
                *(_share(row[each]) for each in ("start", "warm", "trained")),
                *(minutes(row), row.get("start_up_s", 0.0) / 60),
                *(row["episodes_played"], row["iterations"]),
            )
        )
    return "\n".join([table(columns, rows), *(["", *failed] if failed else [])])


@measured("real_model", "python benchmarks/real_model.py --model FOLDER")
def real_model_tried(found: Any) -> str:
    """What was tried besides the recipes, a row for all seeds of a try."""
    columns = {"game": TEXT, "with": TEXT, "seeds": TEXT, "warm start": TEXT, "trained": TEXT}
    rows = []
    for tried in sorted(found.get("tried", []), key=lambda tried: tried["game"]):
        runs = sorted(tried["runs"], key=lambda run: run["seed"])
        cells = [", ".join(str(run["seed"]) for run in runs)]
        for each in ("warm", "trained"):
            cells.append(", ".join(f"{run[each]['success']:.1%}" for run in runs))
        rows.append((tried["game"], tried["what"], *cells, max(map(minutes, runs))))
    return table(columns | {"minutes, most": "{:.1f}"}, rows)


def minutes(run: dict[str, float]) -> float:
    """Return those of all of a run, without the start of vLLM."""
    return (run["all_s"] - run.get("start_up_s", 0.0)) / 60


def _share(found: dict[str, float]) -> str:
    low, high = found["success_low"], found["success_high"]
    return f"{found['success']:.1%} ({low:.0%} to {high:.0%})"


def _real_model_phases(found: dict[str, Any]) -> str:
    columns = {"game": TEXT}
    columns |= dict.fromkeys(("play", "score", "advantages", "train", "publish"), "{:.0%}")
    speeds = ("tokens/s sampled, of all time", "tokens/s read in updates")
    columns |= {**dict.fromkeys(speeds, "{:,.0f}"), "GiB": "{:.1f}"}
    phases = ("collect", "score", "advantage", "train", "publish")
    names = [f"{name}_share" for name in phases]
    names += ["time/tokens_per_s", "time/update_tokens_per_s"]
    games: dict[str, list[dict[str, Any]]] = {}
    for row in found["runs"]:
        if "error" not in row:
            games.setdefault(row["game"], []).append(row)
    rows = []
    for game, runs in sorted(games.items()):
        means = (_mean([run["phases"] for run in runs], name) for name in names)
        rows.append((game, *means, max(run["memory_peak_gib"] for run in runs)))
    return table(columns, rows)


def _mean(rows: list[dict[str, float]], name: str) -> float:
    return sum(row[name] for row in rows) / len(rows)


TABLES = {
    "gpu-update": update,
    "gpu-fits": fits,
    "gpu-iteration": iteration,
    "real-model": real_model,
    "real-model-tried": real_model_tried,
}
