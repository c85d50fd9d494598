"""The tables of ``docs/results.md``, and that of ``docs/remote.md``, from their result files.

A figure stands above its table where there is one. A file that is not there yet is said to be
missing, with the command that makes it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from curves.table import GOAL, learned
from curves.table import table as table_of_curves
from doc_tables import TEXT, figure, measured, read, table
from good_start import table as table_of_starts
from learning import EPISODES, ESTIMATORS, SEEDS

VERL_PARTS = {"gae": "GAE", "grpo": "GRPO", "rloo": "RLOO", "ppo": "PPO loss and its gradient"}


@measured("learning", "python benchmarks/learning.py --lanes 13")
def learning(result: Any) -> str:
    rows = result["rows"]
    found = learned(rows)
    done = sum(len(game[name]) for game in found.values() for name in ESTIMATORS)
    wanted = len(EPISODES) * len(ESTIMATORS) * len(SEEDS)
    cut = [key for key, row in rows.items() if row.get("error", "").startswith("stopped after")]
    failed = [key for key, row in rows.items() if "error" in row and key not in cut]
    games = [game for game in EPISODES if game in found]
    reached = sum(
        all(run["final"] >= GOAL for run in found[game][name])
        for game in games
        for name in ESTIMATORS
        if found[game][name]
    )
    asked = sum(bool(found[game][name]) for game in games for name in ESTIMATORS)
    return (
        f"{done} of {wanted} runs; with {reached} of {asked} pairs of game and estimator every "
        f"seed that was run ended at {GOAL:.0%} or more."
        + (f" {len(cut)} more were cut when the time was up." if cut else "")
        + (f" {len(failed)} runs failed: {', '.join(failed)}." if failed else "")
        + "\n\n"
        + figure("learning_cpu.png", "success against CPU seconds, a panel for each game")
        + figure("learning_episodes.png", "success against episodes, a panel for each game")
        + table_of_curves(rows, games)
    )


@measured("good_start", "python benchmarks/good_start.py --lanes 8")
def good_start(result: Any) -> str:
    return table_of_starts(result["rows"])


def _trl_summary(result: Any) -> dict[str, Any]:
    sys.path.insert(0, str(Path(__file__).parent / "peers"))
    from trl_train import summary

    return summary(result["rows"])


@measured("trl_train", "python benchmarks/peers/trl_train.py")
def trl_train(result: Any) -> str:
    columns = {
        "side, setting": TEXT,
        "seeds": "{}",
        "start": "{:.1%}",
        "end, mean": "{:.1%}",
        "lowest to highest": "{}",
        "peak, mean": "{:.1%}",
        "episodes": "{:,.0f}",
        "CPU s": "{:.0f}",
        "CPU s of an update": "{:.2f}",
        "CPU s to 60 %": "{:.0f}",
        "to TRL's end": "{:.0f}",
        "times faster": "{:.1f}x",
    }
    rows = [
        (
            name,
            *(row[key] for key in ("seeds", "start", "final")),
            f"{row['lowest']:.1%} to {row['highest']:.1%}",
            *(row[key] for key in ("peak", "episodes", "cpu_s", "cpu_s_per_update")),
            *(row.get(key) for key in ("cpu_s_to_60", "cpu_s_to_trl_final", "times_faster")),
        )
        for name, row in _trl_summary(result).items()
    ]
    curves = figure("trl.png", "success of both sides against episodes and CPU seconds")
    return curves + table(columns, rows)


def trl_best(result: Any) -> tuple[Any, Any]:
    """Return the best setting of our side and of TRL's; None where a side has none."""
    told = _trl_summary(result)
    peers = [row for name, row in told.items() if name.startswith("trl")]
    ours = [row for name, row in told.items() if name.startswith("ours")]
    return (
        max(ours, key=lambda row: row.get("times_faster") or 0.0, default=None),
        max(peers, key=lambda row: row["final"], default=None),
    )


def trl_headline() -> str:
    """Return how we compare with TRL in one sentence, empty while nobody has measured it."""
    if (result := read("trl_train")) is None:
        return ""
    best, theirs = trl_best(result)
    if theirs is None or best is None or not best.get("times_faster") or best["seeds"] < 3:
        return ""  # one seed is no headline
    return (
        "On the same tiny model, game and batch it reaches the "
        f"{theirs['final']:.0%} that TRL 1.16 ends with in "
        f"{best['cpu_s_to_trl_final']:.0f} CPU seconds instead of "
        f"{theirs['cpu_s_to_trl_final']:.0f}, and goes on to {best['final']:.0%} "
        "([results](docs/results.md))."
    )


@measured("trl_gpu", "python benchmarks/peers/trl_gpu.py --model FOLDER")
def trl_gpu(result: Any) -> str:
    columns = {"side": TEXT, "engine": TEXT, "updates": "{}"}
    columns |= dict.fromkeys(("first batch", "last five", "best five"), "{:.1%}")
    columns["seconds of an update"] = "{:.2f}"
    columns |= dict.fromkeys(("seconds to the same success", "episodes to it"), "{:,.0f}")
    told, rows = result["summary"], []
    for name, side in sorted(result["sides"].items()):
        if name not in told["runs"]:
            why = side["error"].splitlines()[-1] if side["error"] else "no batch"
            rows.append((name, side["backend"], f"failed: {why}"))
            continue
        row = told["runs"][name]
        found = (row[key] for key in ("updates", "first", "final", "peak", "s_per_update"))
        ways = (row.get(key) for key in ("seconds_to_goal", "episodes_to_goal"))
        rows.append((name, side["backend"], *found, *ways))
    shown = "![success of both sides against seconds and episodes](images/trl_gpu.png)\n\n"
    shown += table(columns, rows)
    if told.get("times_faster"):
        ours, theirs = told["best"]["ours"], told["best"]["trl"]
        shown += (
            f"\n\nThe best of each side ({ours}; {theirs}), to the {told['goal']:.1%} that both "
            f"reach: {told['times_faster']:.1f}x as fast; an update: "
            f"{told['times_per_update']:.1f}x as fast."
        )
    return shown


@measured("verl_parts", "python benchmarks/peers/verl_parts.py")
def verl_parts(result: Any) -> str:
    columns = {
        "part": TEXT,
        "ours, ms": "{:.0f}",
        "verl, ms": "{:.0f}",
        "times as fast": "{:.1f}x",
        "largest difference": "{:.0e}",
    }
    rows = []
    for name, row in result["rows"].items():
        ours, theirs = (VERL_PARTS[name], 1e3 * row["ours_s"]), row["verl"]
        if "error" in theirs:
            rows.append((*ours, theirs["error"]))
        else:
            rows.append((*ours, 1e3 * theirs["seconds"], row["times"], row["apart"]))
    return table(columns, rows)


@measured("agilerl_train", "python benchmarks/peers/agilerl_train.py")
def agilerl(result: Any) -> str:
    columns = {"side": TEXT, "updates": "{}"}
    columns |= dict.fromkeys(("CPU s of an update", "playing", "learning"), "{:.2f}")
    columns |= dict.fromkeys(("success of the first batches", "of the last"), "{:.1%}")
    keys = ("updates", "cpu_s_per_update", "play_s", "learn_s", "first", "last")
    rows = [
        (name, f"does not run: {row['error']}")
        if "error" in row
        else (name, *(row.get(key) for key in keys))
        for name, row in result["rows"].items()
    ]
    return table(columns, rows)


@measured("serve", "python benchmarks/serve.py")
def serve(result: Any) -> str:
    columns = {"": TEXT, "steps/s": "{:,}"}
    columns |= dict.fromkeys(("beside OpenEnv's", "by the server's processor time"), "{:.1f}x")
    keys = ("steps_per_s", "times_openenv", "times_openenv_by_cpu")
    rows = [
        (name.replace("llm-gym serve", "`llm-gym serve`"), *(row[key] for key in keys))
        for name, row in result["speed"].items()
    ]
    memory = result["memory"]
    return (
        f"{table(columns, rows)}\n\nThe server holds {memory['rss_mib_after_5000']:.1f} MiB after "
        f"5,000 sessions, and {memory['rss_mib_at_the_end']:.1f} MiB after "
        f"{memory['sessions']:,}."
    )


TABLES = {
    "learning": learning,
    "good-start": good_start,
    "trl-train": trl_train,
    "trl-gpu": trl_gpu,
    "agilerl": agilerl,
    "verl-parts": verl_parts,
    "serve": serve,
}
