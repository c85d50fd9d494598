"""Tables about environments: speed, how replies are read, bridges, servers and engines."""

from __future__ import annotations

from statistics import median
from typing import Any

from benchmarks.lib.tables import TEXT, read, table


def speed(found: Any) -> str:
    """Steps per second beside the peers', of vector environments, and of resets."""
    columns = {"game, same parameters": TEXT}
    columns |= dict.fromkeys(("steps/s", "GEM", "TextArena"), "{:,}")
    columns["over the faster"] = "{:.1f}x"
    games: list[tuple[Any, ...]] = []
    for row in found["rows"]:
        known = [name.split()[0] for name, *_ in games]
        if "steps_ratio" in row and row["game"].split()[0] not in known:
            rates = {name: one["steps_per_s"] for name, one in row["suites"].items()}
            suites = (rates.get(name) for name in ("llm_gym", "gem", "textarena"))
            games.append((row["game"], *suites, row["steps_ratio"]))
    vectors = [
        row["suites"]["llm_gym"]["steps_per_s"] / one["steps_per_s"]
        for row in found["vector"]
        for name, one in row["suites"].items()
        if name != "llm_gym"
    ]
    times = {row["game"]: 1 / row["steps_ratio"] for row in found["refused"]}
    faster = sum(ratio > 1 for *_, ratio in games)
    own = [row["suites"]["llm_gym"] for row in found["alone"]]
    medians = [one["reset_us"] for one in own]
    tails = [one["reset_p99_us"] for one in own]
    return (
        f"{table(columns, games)}\n\nFaster in {faster} of {len(games)} games; the median ratio is "
        f"{median(ratio for *_, ratio in games):.1f}x.\n\n"
        f"A step with a short reply that is refused takes {median(times.values()):.1f} times as "
        f"long as with `strict=True` (median of {len(times)} games and kinds of replies), at most "
        f"{max(times.values()):.1f} times.\n\n"
        f"64 environments in one vector environment are {min(vectors):.1f} to {max(vectors):.1f} "
        f"times as fast as GEM's ({len(found['vector'])} games, with and without threads).\n\n"
        f"Resets over all {len(medians)} ids: the slowest median is {max(medians) / 1e3:.2f} ms, "
        f"the slowest 99th percentile {max(tails) / 1e3:.2f} ms."
    )


def replies(result: Any) -> str:
    shares, model, count = result["shares"], result["smollm2"], result["phrasings"]
    halves = {"": TEXT, "tuned half": "{:.1%}", "held-out half": "{:.1%}"}
    rows = [(k, shares[f"{k} tuned"], shares[f"{k} untouched"]) for k in ("accepted", "refused")]
    strict = result["shares_strict"]
    strictly = " and ".join(f"{strict[f'accepted {half}']:.0%}" for half in ("tuned", "untouched"))
    formats = ", ".join(f"{name} {share:.1%}" for name, share in result["formats"].items())
    read = {"": TEXT, "mean a move": "{}", "read as meant": "{:.1%}", "as another": "{:.1%}",
            "mean none": "{}", "refused": "{:.1%}"}  # fmt: skip
    sets = result["natural"].items()
    natural = [(name.replace("_", " "), *[*one.values()][: len(read) - 1]) for name, one in sets]
    return (
        f"{count['accepted']} phrasings that name one move and {count['refused']} that name none, "
        f"name two, or deny one, in {result['games']} games:\n\n{table(halves, rows)}\n\n"
        f"With `strict=True` the two halves of the first row are {strictly}.\n\n"
        f"Accepted in each action format: {formats}.\n\n"
        "Eight sets of natural replies to the first state of a game. The rules were written for "
        "the first row. We looked at the failures of the next five rows, never at those of the "
        "last two. The author of the rules wrote the seventh and the eighth set:\n\n"
        f"{table(read, natural)}\n\n"
        f"Of {model['replies']} recorded replies of SmolLM2-135M-Instruct (first and second "
        f"turns), {model['usable_strict']:.1%} are playable with `strict=True` and "
        f"{model['usable']:.1%} by default; most of the others quote the board."
    )


def serve(result: Any) -> str:
    columns = {"": TEXT, "steps/s": "{:,.0f}", "over OpenEnv's": "{:.1f}x"}
    columns |= {"by the server's CPU time": "{:.1f}x"}
    slices = result["steps_per_s_and_per_cpu_s_of_the_server"].items()
    found = {name: [*map(median, zip(*each, strict=True))] for name, each in slices}
    clock, cpu = found["OpenEnv's server, 64 WebSockets"]
    rows = [(name, one, one / clock, two / cpu) for name, (one, two) in found.items()]
    return table(columns, rows).replace("llm-gym serve", "`llm-gym serve`")


def bridges(result: Any) -> str:
    """Other suites through their bridges: how many keep the contract, and what a step costs."""
    columns = {"suite": TEXT} | dict.fromkeys(("tried", "made", "keep the contract"), "{}")
    columns |= dict.fromkeys(("a step, bare", "bridged"), "{:,.0f} µs")
    keys = ("environments", "made", "pass", "bare_us", "bridge_us")
    rows = [(name, *(row[key] for key in keys)) for name, row in result["suites"].items()]
    own = f"The bridge around a game that does nothing takes {result['own_us']:.1f} µs a step."
    return f"{table(columns, rows)}\n\n{own}"


def serving(on_cpu: Any) -> str:
    """Playing with vLLM, and new weights on their way to it."""
    columns = {"sampler": TEXT, "envs": "{}", "tokens/s": "{:,}", "of the bare engine": "{:.2f}"}
    columns["uneven replies, over lock-step"] = "{:.1f}x"
    rows = []
    played = {"CPU, random 2-layer model": on_cpu, "H200, SmolLM2-135M": read("rollout_vllm_h200")}
    for place, found in played.items():
        uneven = found["uneven"]
        for row in found["rows"]:
            gain = uneven["speed_up"] if row["envs"] == uneven["envs"] else None
            speed = (row[key] for key in ("envs", "tokens_per_s", "ratio"))
            rows.append((f"vLLM, {place}", *speed, gain))
    peer = read("one_off/rollout_trl_h200")["rows"][-1]
    lock_step = "TRL's generation, lock-step, H200"
    rows.append((lock_step, peer["envs"], peer["tokens_per_s"], None, None))
    push = read("one_off/weight_push_vllm_h200")
    return (
        f"{table(columns, rows)}\n\n"
        f"A weight update on the H200 ({push['weights'] / 1e6:.0f}M parameters, bfloat16): push "
        f"{push['push_ms']:.0f} ms, check {push['probe_ms']:.0f} ms, together "
        f"{push['training']['publish_share']:.1%} of an iteration of "
        f"{push['training']['tokens_per_iteration']:,} sampled tokens. Asleep, vLLM gave "
        f"{push['freed_gib']:.0f} GiB back."
    )


TABLES = {
    "speed": (speed, "env_throughput"),
    "replies": (replies, "replies"),
    "serve": (serve, "serve"),
    "bridges": (bridges, "one_off/bridges"),
    "serving": (serving, "rollout_vllm"),
}
