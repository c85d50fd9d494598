"""The tables of ``docs/scale.md``, ``docs/scale_limits.md`` and ``docs/parallel_learner.md``."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import mean
from typing import Any

from doc_tables import TEXT, measured, table

SCALING = "python benchmarks/scaling.py"
KINDS = {
    "in_process": "one process",
    "0": "2 actors, staleness 0",
    "1": "2 actors, staleness 1",
    "4": "2 actors, staleness 4",
}
STAGES = {
    "in_process": "one process, in turn",
    "sync": "2 actors, staleness 0",
    "staleness_1": "2 actors, staleness 1",
}
LEARNERS = {"none": "plain", "ddp": "replicas (`ddp`)", "fsdp": "shards (`fsdp`)"}


@measured("scaling", SCALING)
def lots(result: Any) -> str:
    columns = {
        "a lot of": TEXT,
        "bytes": "{:,}",
        "to hand out": "{:.2f} ms",
        "to take in": "{:.2f} ms",
    }
    rows = []
    for name, row in result["lots"].items():
        count, _, tokens = name.split()
        about = f"{count} episodes of {tokens} tokens"
        rows.append((about, row["bytes"], 1e3 * row["deal_s"], 1e3 * row["take_s"]))
    sent = ", ".join(
        f"{1e3 * seconds:.0f} ms for {size}" for size, seconds in result["broadcast_to_2_s"].items()
    )
    return f"{table(columns, rows)}\n\nWeights through the object store to two actors: {sent}."


@measured("scaling", SCALING)
def players(result: Any) -> str:
    columns = {"real samplers": "{}", "tokens/s": "{:,.0f}", "over one": "{:.2f}x"}
    rates = {count: row["tokens_per_s"] for count, row in result["players"].items()}
    rows = [(count, rate, rate / rates["1"]) for count, rate in rates.items()]
    machine = result["machine"]
    return (
        f"{table(columns, rows)}\n\nA thread and a model each, on {machine['cpus']} cores with a "
        f"load of {machine['load_average']:g} when it began."
    )


@measured("scaling", SCALING)
def predicted(result: Any) -> str:
    row = result["sleeping"]
    return (
        f"{row['actors']} real Ray actors that sleep instead of playing, driven as players are: "
        f"{row['predicted_lots_per_s']:.1f} lots a second\npredicted before the run, "
        f"{row['measured_lots_per_s']:.1f} measured in it ({100 * row['off_by']:+.1f} %)."
    )


@measured("scaling", SCALING)
def beyond(result: Any) -> str:
    columns = {"model": TEXT, "players": "{:,}", "staleness": "{}", "lots/s": "{:.1f}"}
    columns |= dict.fromkeys(("playing", "learning", "the driver", "broadcast"), "{:.0%}")
    columns["waits for"] = TEXT
    rows = [
        (
            *(row[name] for name in ("model", "players", "staleness", "lots_per_s")),
            *(row["busy"][name] for name in ("players", "learner", "driver", "broadcast")),
            row["bottleneck"],
        )
        for row in result["beyond"]
    ]
    return table(columns, rows)


@measured("chaos", "make chaos")
def chaos(row: Any) -> str:
    same = "every number" if row["equal"] else "**not** every number"
    return (
        f"{row['kills']} kills at random moments, {row['kills_while_playing']} of them amid "
        f"episodes: of {row['episodes']:,} episodes {row['lost']} were lost\nand "
        f"{row['doubled']} counted twice, and {same} of {row['iterations']} iterations was that of "
        "the undisturbed run, to the bit."
    )


@measured("staleness", "python benchmarks/staleness.py --lanes 2")
def staleness(result: Any) -> str:
    columns = {"who plays": TEXT, "seeds": "{}", "episodes/s": "{:.1f}"}
    columns |= dict.fromkeys(("success after a half", "at the end", "held out"), "{:.0%}")
    columns |= dict.fromkeys(("tokens are old by", "ESS", "actors idle"), "{:.2f}")
    told = table(columns, _staleness_rows(result))
    equal = [row["equal"] for row in result["rows"].values() if "equal" in row]
    if equal:
        said = "every number" if all(equal) else "**not** every number"
        told += f"\n\nAt staleness 0 {said} was that of one process, to the bit."
    return told


def _staleness_rows(result: Any) -> Iterator[tuple[Any, ...]]:
    kinds: dict[str, list[dict[str, Any]]] = {}
    for key, row in result["rows"].items():
        if "curve" in row:
            kinds.setdefault(key.rpartition("/")[2], []).append(row)
    for kind, name in KINDS.items():
        if rows := kinds.get(kind):
            yield (
                name,
                len(rows),
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


@measured("ray_gpu", "python benchmarks/ray_gpu.py --model FOLDER")
def ray_gpu(result: Any) -> str:
    columns = {"who plays": TEXT, "start": "{:.0f} s"}
    timed = ("an iteration", "waiting for episodes", "learning", "publishing")
    columns |= dict.fromkeys(timed, "{:.2f} s")
    columns |= {"episodes/s": "{:.1f}", "tokens are old by": "{:.2f}"}
    rows = [_stage(name, result["stages"].get(stage, {})) for stage, name in STAGES.items()]
    made, asked = result["made_by"], result["settings"]
    about = "The first iteration of each stage is left out."
    if "--eager" in made["command"]:
        about = (
            f"{asked['iterations']} iterations of {asked['episodes']} episodes each, the first of "
            "each stage left out, on cores with a load of "
            f"{made['machine']['load_average']:g}; engines without CUDA graphs."
        )
    return f"{table(columns, rows)}\n\n{about}"


def _stage(name: str, row: dict[str, Any]) -> tuple[Any, ...]:
    if "iteration_s" not in row:
        why = row.get("ended", "not run").replace("|", "/")[:120]
        return name, *[None] * 6, f"not measured: {why}"
    found = row["median"]
    parts = (found.get(f"time/{part}_s") for part in ("collect", "update", "publish"))
    old = found.get("ray/staleness_mean")
    return name, row["start_s"], row["iteration_s"], *parts, row["episodes_per_s"], old


@measured("fsdp_gpu", "torchrun --standalone --nproc-per-node 1 benchmarks/fsdp_gpu.py")
def fsdp_gpu(result: Any) -> str:
    columns = {
        "learner": TEXT,
        "cards": "{}",
        "an update": "{:.2f} s",
        "peak": "{:.1f} GiB",
        "between updates": "{:.1f} GiB",
        "largest difference of a weight": "{:.1g}",
    }
    keys = ("world", "update_s", "peak_gib", "between_gib", "largest_weight_gap")
    rows = [
        (name, *(result[mode][key] for key in keys))
        for mode, name in LEARNERS.items()
        if mode in result
    ]
    machine = result["machine"]
    return (
        f"{table(columns, rows)}\n\nWith one card there is nothing to spread: this is what talking "
        f"to oneself costs, on {machine['cpus']} cores with a load of "
        f"{machine['load_average']:g}."
    )


TABLES = {
    "scaling-lots": lots,
    "scaling-players": players,
    "scaling-predicted": predicted,
    "scaling-beyond": beyond,
    "chaos": chaos,
    "staleness": staleness,
    "ray-gpu": ray_gpu,
    "fsdp-gpu": fsdp_gpu,
}
