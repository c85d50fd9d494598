"""The tables of ``docs/scale.md``, ``docs/scale_limits.md`` and ``docs/parallel_learner.md``."""

from __future__ import annotations

from statistics import mean
from typing import Any

from result_tables import _from

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


def lots() -> str:
    return _from("scaling", "python benchmarks/scaling.py", _lots)


def _lots(result: Any) -> str:
    lines = [
        "| a lot of | bytes | to hand out | to take in |",
        "| --- | ---: | ---: | ---: |",
    ]
    for name, row in result["lots"].items():
        count, _, tokens = name.split()
        lines.append(
            f"| {count} episodes of {tokens} tokens | {row['bytes']:,} "
            f"| {1e3 * row['deal_s']:.2f} ms | {1e3 * row['take_s']:.2f} ms |"
        )
    sent = ", ".join(
        f"{1e3 * seconds:.0f} ms for {size}" for size, seconds in result["broadcast_to_2_s"].items()
    )
    lines += ["", f"Weights through the object store to two actors: {sent}."]
    return "\n".join(lines)


def players() -> str:
    return _from("scaling", "python benchmarks/scaling.py", _players)


def _players(result: Any) -> str:
    rows = result["players"]
    one = rows["1"]["tokens_per_s"]
    lines = ["| real samplers | tokens/s | over one |", "| ---: | ---: | ---: |"]
    for count, row in rows.items():
        rate = row["tokens_per_s"]
        lines.append(f"| {count} | {rate:,.0f} | {rate / one:.2f}x |")
    machine = result["machine"]
    lines += [
        "",
        f"A thread and a model each, on {machine['cpus']} cores with a load of "
        f"{machine['load_average']:g} when it began.",
    ]
    return "\n".join(lines)


def predicted() -> str:
    return _from("scaling", "python benchmarks/scaling.py", _predicted)


def _predicted(result: Any) -> str:
    row = result["sleeping"]
    return (
        f"{row['actors']} real Ray actors that sleep instead of playing, driven as players are: "
        f"{row['predicted_lots_per_s']:.1f} lots a second\npredicted before the run, "
        f"{row['measured_lots_per_s']:.1f} measured in it ({100 * row['off_by']:+.1f} %)."
    )


def beyond() -> str:
    return _from("scaling", "python benchmarks/scaling.py", _beyond)


def _beyond(result: Any) -> str:
    lines = [
        "| model | players | staleness | lots/s | playing | learning | the driver | broadcast "
        "| waits for |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    for row in result["beyond"]:
        shares = [row["busy"][name] for name in ("players", "learner", "driver", "broadcast")]
        cells = " | ".join(f"{share:.0%}" for share in shares)
        lines.append(
            f"| {row['model']} | {row['players']:,} | {row['staleness']} | {row['lots_per_s']:.1f} "
            f"| {cells} | {row['bottleneck']} |"
        )
    return "\n".join(lines)


def chaos() -> str:
    return _from("chaos", "make chaos", _chaos)


def _chaos(row: Any) -> str:
    same = "every number" if row["equal"] else "**not** every number"
    return (
        f"{row['kills']} kills at random moments, {row['kills_while_playing']} of them amid "
        f"episodes: of {row['episodes']:,} episodes {row['lost']} were lost\nand "
        f"{row['doubled']} counted twice, and {same} of {row['iterations']} iterations was that of "
        "the undisturbed run, to the bit."
    )


def staleness() -> str:
    return _from("staleness", "python benchmarks/staleness.py --lanes 2", _staleness)


def _staleness(result: Any) -> str:
    kinds: dict[str, list[dict[str, Any]]] = {}
    for key, row in result["rows"].items():
        if "curve" in row:
            kinds.setdefault(key.rpartition("/")[2], []).append(row)
    lines = [
        "| who plays | seeds | episodes/s | success after a half | at the end | held out "
        "| tokens are old by | ESS | actors idle |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for kind, name in KINDS.items():
        if not (rows := kinds.get(kind)):
            continue
        half, end = (mean(_success(row, share) for row in rows) for share in (0.5, 1.0))
        told = [
            mean(row["mean"][each] for row in rows) if each in rows[0]["mean"] else None
            for each in ("ray/staleness_mean", "mismatch/ess", "time/actor_idle")
        ]
        old, ess, idle = ("-" if one is None else f"{one:.2f}" for one in told)
        lines.append(
            f"| {name} | {len(rows)} | {mean(row['episodes_per_s'] for row in rows):.1f} "
            f"| {half:.0%} | {end:.0%} | {mean(row['final'] for row in rows):.0%} "
            f"| {old} | {ess} | {idle} |"
        )
    equal = [row["equal"] for row in result["rows"].values() if "equal" in row]
    if equal:
        said = "every number" if all(equal) else "**not** every number"
        lines += ["", f"At staleness 0 {said} was that of one process, to the bit."]
    return "\n".join(lines)


def _success(row: dict[str, Any], share: float) -> float:
    """Return the mean success of the five batches before ``share`` of a run was over."""
    curve = [point["success"] for point in row["curve"]]
    last = max(1, round(share * len(curve)))
    return mean(curve[max(0, last - 5) : last])


def ray_gpu() -> str:
    return _from("ray_gpu", "python benchmarks/ray_gpu.py --model FOLDER", _ray_gpu)


def _ray_gpu(result: Any) -> str:
    lines = [
        "| who plays | start | an iteration | waiting for episodes | learning | publishing "
        "| episodes/s | tokens are old by |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for stage, name in STAGES.items():
        row = result["stages"].get(stage, {})
        if "iteration_s" not in row:
            why = row.get("ended", "not run").replace("|", "/")[:120]
            lines.append(f"| {name} | {' | '.join(['-'] * 6)} | not measured: {why} |")
            continue
        found = row["median"]
        parts = [found.get(f"time/{part}_s") for part in ("collect", "update", "publish")]
        cells = " | ".join("-" if one is None else f"{one:.2f} s" for one in parts)
        old = found.get("ray/staleness_mean")
        lines.append(
            f"| {name} | {row['start_s']:.0f} s | {row['iteration_s']:.2f} s | {cells} "
            f"| {row['episodes_per_s']:.1f} | {'-' if old is None else f'{old:.2f}'} |"
        )
    made, asked = result["made_by"], result["settings"]
    lines += [
        "",
        f"{asked['iterations']} iterations of {asked['episodes']} episodes each, the first of each "
        "stage left out, on cores with a load of "
        f"{made['machine']['load_average']:g}; engines without CUDA graphs."
        if "--eager" in made["command"]
        else "The first iteration of each stage is left out.",
    ]
    return "\n".join(lines)


def fsdp_gpu() -> str:
    command = "torchrun --standalone --nproc-per-node 1 benchmarks/fsdp_gpu.py"
    return _from("fsdp_gpu", command, _fsdp_gpu)


def _fsdp_gpu(result: Any) -> str:
    lines = [
        "| learner | cards | an update | peak | between updates | largest difference of a weight |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for mode, name in LEARNERS.items():
        if (row := result.get(mode)) is None:
            continue
        lines.append(
            f"| {name} | {row['world']} | {row['update_s']:.2f} s | {row['peak_gib']:.1f} GiB "
            f"| {row['between_gib']:.1f} GiB | {row['largest_weight_gap']:.1g} |"
        )
    machine = result["machine"]
    lines += [
        "",
        "With one card there is nothing to spread: this is what talking to oneself costs, on "
        f"{machine['cpus']} cores with a load of {machine['load_average']:g}.",
    ]
    return "\n".join(lines)


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
