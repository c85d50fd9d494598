"""Tables of training beside other trainers."""

from __future__ import annotations

from typing import Any

from benchmarks.lib.tables import TEXT, figure, measured, table
from benchmarks.peers.trl import ARMS, alone, summary

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


@measured("trl_h200", "python -m benchmarks.peers.trl --model FOLDER")
def trl_gpu(result: Any) -> str:
    """SmolLM2-135M on one GPU, both sides with vLLM: how fast updates are."""
    columns = {"who": TEXT, "updates in 20 s": "{}", "s an update, median": "{}"}
    counts = {
        key.split("/")[1]: len(row["batches"])
        for key, row in result["rows"].items()
        if key.startswith("alone/") and "batches" in row
    }
    seconds = alone(result["rows"])
    rows = [
        (name_of(arm), count, "-" if (took := seconds[arm]) is None else f"{took:.2f}")
        for arm, count in counts.items()
    ]
    return table(columns, rows)


def name_of(arm: str) -> str:
    """Return the name of an arm on pages.

    >>> name_of("trl, compile")
    "TRL's GRPO, compile"
    """
    return ARMS.get(arm) or ARMS[arm.partition(",")[0]] + arm[arm.index(",") :]


TABLES = {"trl-cpu": trl_cpu, "trl-gpu": trl_gpu}
