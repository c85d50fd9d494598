"""Tables of training beside other trainers."""

from __future__ import annotations

from typing import Any

from benchmarks.lib.tables import TEXT, figure, measured, table
from benchmarks.peers.trl import summary

VERL_PARTS = {"gae": "GAE", "grpo": "GRPO", "rloo": "RLOO", "ppo": "PPO loss and its gradient"}


@measured("trl_cpu", "python -m benchmarks.peers.trl")
def trl_cpu(result: Any) -> str:
    """The same tiny model, game and batch trained by TRL, by AgileRL and by us, on a CPU."""
    goal = result["goal"]
    columns = {"who": TEXT, "setting": TEXT, "seeds": "{}", "start": "{:.0%}"}
    columns |= {"end, mean and 95 % interval": "{}", "range": "{}", "episodes": "{:,.0f}"}
    columns |= {"CPU s an update": "{:.2f}", f"seeds at {goal:.0%}": "{}"}
    columns |= {f"CPU s to {goal:.0%}, median": "{}"}
    rows = [
        (
            *(row[key] for key in ("name", "setting", "seeds", "start")),
            f"{row['final']:.0%} ± {100 * row['interval']:.0f}",
            f"{100 * row['lowest']:.0f}-{row['highest']:.0%}",
            *(row[key] for key in ("episodes", "seconds_per_update", "reached")),
            "never" if row["to_goal"] is None else f"{row['to_goal']:.0f}",
        )
        for row in summary(result["rows"], goal).values()
    ]
    return figure("trl.png", "success of all arms against episodes and CPU seconds") + table(
        columns, rows
    )


@measured("trl_gpu", "python -m benchmarks.peers.trl --model FOLDER")
def trl_gpu(result: Any) -> str:
    """SmolLM2-135M on one GPU, both sides with vLLM."""
    columns = {"side, setting": TEXT}
    several = ("first batch", "last five", "best five", "seconds per update")
    columns |= dict.fromkeys((*several, "seconds to the same success"), "{}")
    formats = {"first": "{:.0%}", "final": "{:.0%}", "peak": "{:.0%}", "s_per_update": "{:.2f}"}
    formats |= {"seconds_to_goal": "{:.0f}"}
    found, rows = result["summary"], []
    settings: dict[str, list[Any]] = {}
    for name, run in sorted(found["runs"].items()):
        settings.setdefault(name.partition(", seed")[0], []).append(run)
    for name in found["best"].values():
        runs = settings[name]
        cells = (
            ", ".join("-" if run.get(key) is None else form.format(run[key]) for run in runs)
            for key, form in formats.items()
        )
        rows.append((name, *cells))
    shown = figure("trl_gpu.png", "success of both sides against seconds and episodes")
    shown += table(columns, rows)
    if found.get("times_faster"):
        ours, theirs = found["best"]["ours"], found["best"]["trl"]
        shown += (
            f"\n\nThe best setting of each side ({ours}; {theirs}), to the {found['goal']:.1%} "
            f"that both reach: {found['times_faster']:.1f}x as fast; an update: "
            f"{found['times_per_update']:.1f}x as fast."
        )
    return shown


TABLES = {"trl-cpu": trl_cpu, "trl-gpu": trl_gpu}
