"""Tables about Ray actors, staleness and spread learners."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import mean
from typing import Any

from benchmarks.lib.tables import TEXT, measured, table

KINDS = {
    "in_process": "one process",
    "0": "2 actors, staleness 0",
    "1": "2 actors, staleness 1",
    "4": "2 actors, staleness 4",
}
STAGES = {"sync": "2 actors, staleness 0", "staleness_1": "2 actors, staleness 1"}


@measured("chaos", "make chaos")
def chaos(row: Any) -> str:
    same = "every metric" if row["equal"] else "**not** every metric"
    return (
        f"{row['kills']} actors were killed at random moments, {row['kills_while_playing']} of "
        f"them during episodes. Of {row['episodes']:,} episodes {row['lost']} were lost\nand "
        f"{row['doubled']} counted twice, and {same} of {row['iterations']} iterations equals the "
        "undisturbed run to the bit."
    )


@measured("one_off/staleness", "a one-off study")
def staleness(result: Any) -> str:
    columns = {"sampler": TEXT, "episodes/s": "{:.1f}"}
    columns |= dict.fromkeys(("success at half time", "at the end", "held out"), "{:.0%}")
    columns |= dict.fromkeys(("staleness", "ESS", "actors idle"), "{:.2f}")
    shown = table(columns, _staleness_rows(result))
    equal = [row["equal"] for row in result["rows"].values() if "equal" in row]
    if equal:
        said = "every metric" if all(equal) else "**not** every metric"
        shown += f"\n\nAt staleness 0 {said} equals the one-process run to the bit."
    return shown


def _staleness_rows(result: Any) -> Iterator[tuple[Any, ...]]:
    kinds: dict[str, list[dict[str, Any]]] = {}
    for key, row in result["rows"].items():
        if "curve" in row:
            kinds.setdefault(key.rpartition("/")[2], []).append(row)
    for kind, name in KINDS.items():
        if rows := kinds.get(kind):
            yield (
                name,
                mean(row["episodes_per_s"] for row in rows),
                *(mean(_success(row, share) for row in rows) for share in (0.5, 1.0)),
                mean(row["final"] for row in rows),
                *(
                    mean(row["mean"][each] for row in rows) if each in rows[0]["mean"] else None
                    for each in ("ray/staleness_mean", "mismatch/ess", "time/actor_idle")
                ),
            )


def _success(row: dict[str, Any], share: float) -> float:
    """Return the mean success of the five batches before ``share`` of a run was over."""
    curve = [point["success"] for point in row["curve"]]
    last = max(1, round(share * len(curve)))
    return mean(curve[max(0, last - 5) : last])


@measured("ray_gpu", "python -m benchmarks.scale.ray_gpu --model FOLDER")
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


TABLES = {"chaos": chaos, "staleness": staleness, "ray-gpu": ray_gpu}
