"""Tables of training beside other trainers."""

from __future__ import annotations

from typing import Any

from benchmarks.lib.tables import TEXT, figure, measured, table
from benchmarks.peers.trl_train import summary

VERL_PARTS = {"gae": "GAE", "grpo": "GRPO", "rloo": "RLOO", "ppo": "PPO loss and its gradient"}


@measured("trl_train", "python -m benchmarks.peers.trl_train")
def trl_train(result: Any) -> str:
    """The same tiny model, game and batch trained by TRL and by us, on a CPU."""
    columns = {"side, setting": TEXT, "seeds": "{}"}
    columns |= {"start": "{:.1%}", "end, mean": "{:.1%}", "range": "{}"}
    columns |= {"episodes": "{:,.0f}", "CPU s": "{:.0f}"}
    columns |= {"to TRL's end": "{:.0f}", "times faster": "{:.1f}x"}
    rows = [
        (
            name,
            *(row[key] for key in ("seeds", "start", "final")),
            f"{100 * row['lowest']:.1f}-{row['highest']:.1%}",
            *(row[key] for key in ("episodes", "cpu_s")),
            *(row.get(key) for key in ("cpu_s_to_trl_final", "times_faster")),
        )
        for name, row in summary(result["rows"]).items()
    ]
    curves = figure("trl.png", "success of both sides against episodes and CPU seconds")
    return curves + table(columns, rows)


def trl_best(result: Any) -> tuple[Any, Any]:
    """Return the best setting of our side and of TRL's; None where a side has none."""
    found = summary(result["rows"])
    peers = [row for name, row in found.items() if name.startswith("trl")]
    ours = [row for name, row in found.items() if name.startswith("ours")]
    return (
        max(ours, key=lambda row: row.get("times_faster") or 0.0, default=None),
        max(peers, key=lambda row: row["final"], default=None),
    )


@measured("trl_gpu", "python -m benchmarks.peers.trl_gpu --model FOLDER")
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
    for name, runs in settings.items():
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


TABLES = {"trl-train": trl_train, "trl-gpu": trl_gpu}
