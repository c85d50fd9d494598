"""Tables about learning: the demo, learning curves, stabilizers, a real model, updates on a GPU."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from benchmarks.learn.learning import EPISODES, ESTIMATORS, SEEDS
from benchmarks.lib.curves import GOAL, NAMES, Row, learned, reached
from benchmarks.lib.tables import TEXT, figure, measured, read, table

MODELS = {
    "smollm2": "SmolLM2-135M-Instruct",
    "0.5B": "0.5B, vocabulary 152k, random weights",
    "1.5B": "1.5B, vocabulary 152k, random weights",
}
WARM_STARTS = {
    "as it is": "0.3 of the learning rate",
    "at once": "no critic warm-up",
    "leash": "KL loss 0.05",
    "fast": "full learning rate",
    "fast, leash": "full learning rate, KL loss 0.05",
    "fast, ramp": "full learning rate after 8 iterations",
}
"""Variants of ``good_start.json`` that are shown, and what each changes."""
STABILIZERS = {
    "default": "defaults",
    "before": "constant rate, last weights",
    "linear": "full length",
    "cosine": "cosine decay",
    "normalised values": "normalised values",
    "detached critic": "detached critic",
    "groups": "GRPO, groups of 8",
    "groups replaced": "GRPO, zero-variance groups resampled",
}
"""Variants of ``guards.json``, and what each changes."""


@measured("demo", "make bench-demo")
def demo(result: Any) -> str:
    """The laptop demo, seed by seed."""
    columns = {"seed": "{}"}
    columns |= dict.fromkeys(("before", "after", "1,000 fresh episodes"), "{:.1%}")
    columns |= dict.fromkeys(("iterations", "to 90 %"), "{}")
    columns |= dict.fromkeys(("seconds in all", "CPU seconds"), "{:.0f}")
    keys = ("seed", "before", "after", "fresh")
    keys += ("iterations", "iterations_to_90", "total_s", "cpu_s")
    return table(columns, [[row[key] for key in keys] for row in result["rows"]])


@measured("learning", "python -m benchmarks.learn.learning --lanes 13")
def learning(result: Any) -> str:
    """Every game with every estimator: success at the end, and the way to ``GOAL``."""
    rows, found = result["rows"], learned(result["rows"])
    wanted = len(EPISODES) * len(ESTIMATORS) * len(SEEDS)
    done = sum(len(game[name]) for game in found.values() for name in ESTIMATORS)
    cut = [key for key, row in rows.items() if row.get("error", "").startswith("stopped after")]
    failed = [key for key, row in rows.items() if "error" in row and key not in cut]
    won, pairs = pairs_won(found)
    columns = {"game": TEXT, "estimator": TEXT, "seeds": "{}", "start": "{:.1%}"}
    columns |= {"end, mean": "{:.1%}", "lowest to highest": "{}", "below its best": "{:.1f}"}
    columns |= {"CPU s": "{:.0f}"}
    columns |= dict.fromkeys((f"episodes to {GOAL:.0%}", f"CPU s to {GOAL:.0%}"), "{:,.0f}")
    lines = [
        (game, title, *_cells(runs))
        for game in EPISODES
        for name, title in NAMES.items()
        if game in found and (runs := found[game][name])
    ]
    return (
        f"{done} of {wanted} runs; in {won} of {pairs} pairs of game and estimator every seed "
        f"ended at {GOAL:.0%} or more."
        + (f" {len(cut)} more runs were cut by the time limit." if cut else "")
        + (f" {len(failed)} runs failed: {', '.join(failed)}." if failed else "")
        + "\n\n"
        + figure("learning_cpu.png", "success against CPU seconds, one panel per game")
        + figure("learning_episodes.png", "success against episodes, one panel per game")
        + table(columns, lines)
    )


def pairs_won(found: Mapping[str, Mapping[str, Sequence[Row]]]) -> tuple[int, int]:
    """Return the pairs of game and estimator whose seeds all end at ``GOAL``, and all pairs."""
    pairs = [found[game][name] for game in found for name in ESTIMATORS if found[game][name]]
    return sum(all(run["final"] >= GOAL for run in runs) for runs in pairs), len(pairs)


def _cells(runs: Sequence[Row]) -> tuple[Any, ...]:
    ends = [run["final"] for run in runs]
    return (
        len(runs),
        fmean(run["curve"][0]["success"] for run in runs),
        fmean(ends),
        f"{min(ends):.1%} to {max(ends):.1%}",
        100 * max(run["best"] - run["curve"][-1]["success"] for run in runs),
        fmean(run["cpu_s"] for run in runs),
        _way(runs, "episodes"),
        _way(runs, "cpu_s"),
    )


def _way(runs: Sequence[Row], what: str) -> float | str | None:
    """Return the mean over seeds, or how many of them got there."""
    ways = [reached(run["curve"], GOAL, what) for run in runs]
    there = [way for way in ways if way is not None]
    if len(there) == len(runs):
        return fmean(there)
    return f"{len(there)} of {len(runs)}" if there else None


@measured("good_start", "a one-off study")
def good_start(result: Any) -> str:
    """Reinforcement learning after imitating a solver: start, lowest evaluation, end."""
    found: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for key, row in result["rows"].items():
        if "curve" in row:
            found[row["game"], key.rpartition("/")[2]].append(row)
    columns = {"game": TEXT, "variant": TEXT, "seeds": "{}"}
    columns |= dict.fromkeys(("start", "lowest", "end"), "{:.1%}")
    rows = []
    for game in dict.fromkeys(game for game, _ in found):
        for name, title in WARM_STARTS.items():
            if runs := found.get((game, name)):
                curves = [[point["success"] for point in run["curve"]] for run in runs]
                lowest = fmean(min(curve[1:]) for curve in curves)
                start, end = fmean(c[0] for c in curves), fmean(run["final"] for run in runs)
                rows.append((game, title, len(runs), start, lowest, end))
    return table(columns, rows)


@measured("guards", "a one-off study")
def stabilizers(result: Any) -> str:
    """Long runs with one stabilizer changed, from the lowest to the highest of the runs."""
    columns = {"variant": TEXT}
    numbers = ("runs", "highest evaluation", "best weights", "last weights", "fell back")
    columns |= dict.fromkeys(numbers, "{}")
    rows = []
    for variant, title in STABILIZERS.items():
        runs = [row for row in result["rows"].values() if row.get("variant") == variant]
        if runs:
            spans = (percents([row[name] for row in runs]) for name in ("peak", "best", "last"))
            rows.append((title, len(runs), *spans, sum(row["fell"] for row in runs)))
    return table(columns, rows)


def percents(values: Sequence[float]) -> str:
    """Return the least and the most of shares.

    >>> percents([0.5, 0.25]), percents([0.5])
    ('25 to 50 %', '50 %')
    """
    ends = [f"{100 * value:.0f}" for value in (min(values), max(values))]
    return f"{' to '.join(dict.fromkeys(ends))} %"


def _gpu_rows(part: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read("train_gpu").get(part, {"rows": []})["rows"]
    return rows


def gpu_update() -> str:
    """One update beside a loop written by hand, by the size of micro-batches."""
    columns = {"model": TEXT, "`training.micro_batch_tokens`": "{:,}"}
    columns |= dict.fromkeys(("by hand", "ours", "speed, memory over the loop by hand"), TEXT)
    rows = [
        (
            MODELS.get(row["model"], row["model"]),
            row["ours"]["micro_batch_tokens"],
            *(
                f"{row[who]['seconds']:.2f} s, {row[who]['peak_gib']:.1f} GiB"
                for who in ("hand", "ours")
            ),
            f"{row['ratio']:.2f}, {row['memory']:.2f}",
        )
        for row in _gpu_rows("update")
    ]
    return table(columns, rows)


def gpu_fits() -> str:
    """What fits on one GPU that is otherwise empty."""
    found: dict[str, list[float | str]] = {}
    for row in _gpu_rows("fits"):
        cell = row["peak_gib"] if row["fits"] else f"refused: {row['planned_gib']:.0f} planned"
        found.setdefault(row["model"], []).append(cell)
    columns = {"": TEXT}
    columns |= dict.fromkeys(("all weights", "checkpointed", "LoRA on a bfloat16 base"), "{:.1f}")
    return table(columns, [(model, *cells) for model, cells in found.items()])


@measured("trl_gpu", "python -m benchmarks.peers.trl_gpu --model FOLDER")
def gpu_iteration(found: Any) -> str:
    """An iteration by its phases: those of the run that was measured beside TRL."""
    best = found["summary"]["best"]["ours"]
    run = next(run for name, run in found["sides"].items() if name.startswith(best))
    rows = run["rows"][1:]  # the first warms up

    def median(name: str) -> float:
        return statistics.median(row[name] for row in rows)

    names = {"collect": "play", "score": "score", "advantage": "advantages", "train": "train"}
    phases = [f"{name} {median(f'time/{key}_s'):.2f} s" for key, name in names.items()]
    return (
        f"{', '.join(phases)}, publish and check {rows[-1]['engine/weights_checked']:.0f} weights "
        f"{median('time/publish_s'):.2f} s; "
        f"{max(row['gpu/memory_peak_gib'] for row in rows):.1f} GiB at the peak."
    )


@measured("real_model", "python -m benchmarks.learn.real_model --model FOLDER")
def real_model(found: Any) -> str:
    """What a real model learned, and where its time went."""
    shown = figure("real_model.png", "success of each game's seeds against seconds")
    return f"{shown}{real_model_runs(found)}\n\n{_real_model_phases(found)}"


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


@measured("real_model", "python -m benchmarks.learn.real_model --model FOLDER")
def real_model_tried(found: Any) -> str:
    """What was tried besides the recipes, one row for all seeds of a try."""
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
    """Return the minutes of a run without the start of vLLM."""
    return (run["all_s"] - run.get("start_up_s", 0.0)) / 60


def _share(found: dict[str, float]) -> str:
    low, high = found["success_low"], found["success_high"]
    return f"{found['success']:.1%} ({low:.0%} to {high:.0%})"


def _real_model_phases(found: dict[str, Any]) -> str:
    columns = {"game": TEXT}
    columns |= dict.fromkeys(("play", "score", "advantages", "train", "publish"), "{:.0%}")
    speeds = ("tokens/s sampled, of all time", "tokens/s read in updates")
    columns |= {**dict.fromkeys(speeds, "{:,.0f}"), "GiB": "{:.1f}"}
    names = [f"{name}_share" for name in ("collect", "score", "advantage", "train", "publish")]
    names += ["time/tokens_per_s", "time/update_tokens_per_s"]
    games: dict[str, list[dict[str, Any]]] = {}
    for row in found["runs"]:
        if "error" not in row:
            games.setdefault(row["game"], []).append(row)
    rows = []
    for game, runs in sorted(games.items()):
        means = (fmean(run["phases"][name] for run in runs) for name in names)
        rows.append((game, *means, max(run["memory_peak_gib"] for run in runs)))
    return table(columns, rows)


TABLES = {
    "demo": demo,
    "learning": learning,
    "good-start": good_start,
    "stabilizers": stabilizers,
    "gpu-update": gpu_update,
    "gpu-fits": gpu_fits,
    "gpu-iteration": gpu_iteration,
    "real-model": real_model,
    "real-model-tried": real_model_tried,
}
