"""Tables about Ray actors, staleness and spread learners."""

from __future__ import annotations

from statistics import mean
from typing import Any

from benchmarks.lib.tables import TEXT, table

KINDS = {
    "in_process": "one process",
    "0": "2 actors, staleness 0",
    "1": "2 actors, staleness 1",
    "4": "2 actors, staleness 4",
}
STAGES = {"sync": "2 actors, staleness 0", "staleness_1": "2 actors, staleness 1"}


def chaos(row: Any) -> str:
    same = "every metric" if row["equal"] else "**not** every metric"
    return (
        f"{row['kills']} actors were killed at random moments, {row['kills_while_playing']} of "
        f"them during episodes. Of {row['episodes']:,} episodes {row['lost']} were lost\nand "
        f"{row['doubled']} counted twice, and {same} of {row['iterations']} iterations equals the "
        "undisturbed run to the bit."
    )


def staleness(result: Any) -> str:
    columns = {"sampler": TEXT, "episodes/s": "{:.1f}"}
    columns |= dict.fromkeys(("success at half time", "at the end", "held out"), "{:.0%}")
    columns |= dict.fromkeys(("staleness", "ESS", "actors idle"), "{:.2f}")
    means = ("ray/staleness_mean", "mismatch/ess", "time/actor_idle")
    lines = [
        (
            name,
            row["episodes_per_s"],
            *(_success(row, share) for share in (0.5, 1.0)),
            row["final"],
            *map(row["mean"].get, means),
        )
        for kind, name in KINDS.items()
        for row in [result["rows"][f"TextGameEasy/0/{kind}"]]
    ]
    return table(columns, lines)


def _success(row: dict[str, Any], share: float) -> float:
    """Return the mean success of the five batches before ``share`` of a run was over."""
    curve = [point["success"] for point in row["curve"]]
    last = max(1, round(share * len(curve)))
    return mean(curve[max(0, last - 5) : last])


def ray_gpu(result: Any) -> str:
    columns = {"sampler": TEXT, "start": "{:.0f} s"}
    timed = ("an iteration", "waiting for episodes", "learning", "publishing")
    columns |= dict.fromkeys(timed, "{:.2f} s")
    columns |= {"episodes/s": "{:.1f}", "tokens in an episode": "{:.0f}", "staleness": "{:.2f}"}
    stages, asked = result["stages"], result["settings"]
    ahead = stages["staleness_1"]["episodes_per_s"] / stages["sync"]["episodes_per_s"]
    return (
        f"{table(columns, [_stage(name, stages[stage]) for stage, name in STAGES.items()])}\n\n"
        f"{asked['iterations']} iterations of {asked['episodes']} episodes each, in "
        f"{asked['rounds']} rounds, without the first and the last of a round. Staleness 1 gives "
        f"{ahead:.2f} times the episodes/s of the same actors with staleness 0."
    )


def _stage(name: str, row: dict[str, Any]) -> tuple[Any, ...]:
    found = row["median"]
    parts = (found[f"time/{part}_s"] for part in ("collect", "update", "publish"))
    shown = (row["episodes_per_s"], row["tokens_per_episode"], found["ray/staleness_mean"])
    return name, row["start_s"], row["iteration_s"], *parts, *shown


TABLES = {
    "chaos": (chaos, "chaos"),
    "staleness": (staleness, "one_off/staleness"),
    "ray-gpu": (ray_gpu, "ray_gpu"),
}
