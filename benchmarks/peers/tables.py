"""Tables of training beside other trainers."""

from __future__ import annotations

from typing import Any

from benchmarks.lib.tables import TEXT, table
from benchmarks.peers.trl import ARMS, alone, summary

VERL_PARTS = {"gae": "GAE", "grpo": "GRPO", "rloo": "RLOO", "ppo": "PPO loss and its gradient"}


def trl_cpu(result: Any) -> str:
    """The same tiny model, game and batch trained by TRL, by AgileRL and by us, on a CPU."""
    return _arms(result, "CPU s")


def trl_goal(result: Any) -> str:
    """SmolLM2-135M on one GPU, both sides with vLLM: success over time."""
    return _arms(result, "s")


def _arms(result: Any, unit: str) -> str:
    goal = result["goal"]
    columns = {"who": TEXT, "setting": TEXT, "start": "{:.0%}", "end, 95 % interval": "{}"}
    columns |= {"range": "{}", "episodes": "{:,.0f}", f"{unit} an update": "{:.2f}"}
    columns |= {f"{unit} to {goal:.0%}, median": "{}", f"seeds at {goal:.0%}": "{}"}
    rows = [
        (
            *(row[key] for key in ("name", "setting", "start")),
            f"{row['final']:.0%} ± {100 * row['interval']:.0f}",
            f"{100 * row['lowest']:.0f}-{row['highest']:.0%}",
            *(row[key] for key in ("episodes", "seconds_per_update")),
            "never" if row["to_goal"] is None else f"{row['to_goal']:.0f}",
            f"{row['reached']}/{row['seeds']}",
        )
        for row in summary(result["rows"], goal).values()
    ]
    return table(columns, rows)


def trl_gpu(result: Any) -> str:
    """How fast updates are there, for each arm alone on the machine."""
    columns = {"who": TEXT, "updates in 20 s": "{}", "s an update, median": "{:.2f}"}
    counts = {
        key.split("/")[1]: len(row["batches"])
        for key, row in result["rows"].items()
        if key.startswith("alone/") and "batches" in row
    }
    took = alone(result["rows"])
    return table(columns, [(name_of(arm), counts[arm], took[arm]) for arm in took])


def name_of(arm: str) -> str:
    """Return the name of an arm on pages.

    >>> name_of("trl, compile")
    "TRL's GRPO, compile"
    """
    return ARMS.get(arm) or ARMS[arm.partition(",")[0]] + arm[arm.index(",") :]


TABLES = {
    "trl-cpu": (trl_cpu, "trl_cpu"),
    "trl-goal": (trl_goal, "trl_h200"),
    "trl-gpu": (trl_gpu, "trl_h200"),
}
