"""Writes the tables of README and docs from the files that measured them.

    python benchmarks/readme.py            # rewrite the pages
    python benchmarks/readme.py --check    # say whether they are up to date

Each table stands between two markers, ``<!-- NAME -->`` and ``<!-- /NAME -->``.
"""

from __future__ import annotations

import argparse
import re
import sys
from statistics import median
from textwrap import fill

import docs_replies
import gpu_tables
import guards
import gymnasium as gym
import leaderboard
import reached_table
import result_tables
import scale_tables
from doc_tables import ROOT, TEXT, read, table

from llm_gym.evaluate.scores import published
from llm_gym.registry.suite import ENVS


def families() -> list[list[str]]:
    """Return the ids of each game."""
    found: dict[str, list[str]] = {}
    for row in ENVS:
        found.setdefault(row.entry_point, []).append(row.id)
    return list(found.values())


def summary() -> str:
    """What the tables say, in two sentences."""
    seeds = read("demo")["rows"]
    rows = read("env_throughput")["rows"]
    first = {
        row["game"].split()[0]: row["steps_ratio"] for row in reversed(rows) if "steps_ratio" in row
    }
    ahead = sum(ratio > 1 for ratio in first.values())
    before, fresh = (
        f"{100 * min(row[when] for row in seeds):.1f}-{max(row[when] for row in seeds):.1%}"
        for when in ("before", "fresh")
    )
    times = [row["cpu_s"] for row in seeds]
    text = (
        f"Over {len(seeds)} seeds the demo goes from {before} success to {fresh} on 1,000 fresh "
        f"held-out episodes, in {min(times):.0f}-{max(times):.0f} CPU seconds. There are "
        f"{len(families())} games in {len(ENVS)} configurations. GEM or TextArena have "
        f"{len(first)} of them too; with the same parameters {ahead} step faster here than in "
        f"either, {median(first.values()):.1f}x in the median "
        "([all tables](docs/environments.md#speed))."
    )
    text = " ".join(filter(None, (text, result_tables.trl_headline())))
    return fill(text, 100, break_long_words=False, break_on_hyphens=False)


def scores() -> str:
    players = ("random", "solver", "oracle")
    columns = {"environment": TEXT, "turns allowed": "{}", **dict.fromkeys(players, "{:.1%}")}
    rows = []
    for row in ENVS:
        limit = getattr(gym.make(row.id).unwrapped, "max_turns", None)
        score = published()[row.id]
        rows.append((f"`{row.id}`", str(limit), *(score[name].success for name in players)))
    return table(columns, rows)


def serving() -> str:
    columns = {
        "playing": TEXT,
        "envs": "{}",
        "tokens/s": "{:,}",
        "of the bare engine": "{:.2f}",
        "uneven replies, over lock-step": "{:.1f}x",
    }
    rows = []
    for name, place in (("vllm", "CPU, random 2-layer model"), ("vllm_h200", "H200, SmolLM2-135M")):
        found = read(f"rollout_{name}")
        uneven = found["uneven"]
        for row in found["rows"]:
            gain = uneven["speed_up"] if row["envs"] == uneven["envs"] else None
            played = (row[key] for key in ("envs", "tokens_per_s", "ratio"))
            rows.append((f"vLLM, {place}", *played, gain))
    peer = read("rollout_trl_h200")["rows"][-1]
    lock_step = "TRL's generation, lock-step, H200"
    rows.append((lock_step, peer["envs"], peer["tokens_per_s"], None, None))
    push = read("weight_push_vllm_h200")
    return (
        f"{table(columns, rows)}\n\n"
        f"New weights on the H200 ({push['weights'] / 1e6:.0f}M parameters, bfloat16): push "
        f"{push['push_ms']:.0f} ms, probe {push['probe_ms']:.0f} ms, together "
        f"{push['training']['publish_share']:.1%} of an iteration of "
        f"{push['training']['tokens_per_iteration']:,} sampled tokens; log-probs differ by "
        f"{push['training']['probe_gap'][-1]:.2f}, by {push['stale_gap']:.1f} after a push "
        "that was left out, which the probe noticed. Asleep, vLLM gave "
        f"{push['freed_gib']:.0f} GiB back."
    )


def demo() -> str:
    columns = {"seed": "{}"}
    columns |= dict.fromkeys(("before", "after", "1,000 fresh episodes"), "{:.1%}")
    columns |= dict.fromkeys(("iterations", "to 90 %"), "{}")
    columns |= dict.fromkeys(("seconds in all", "CPU seconds"), "{:.0f}")
    keys = ("seed", "before", "after", "fresh")
    keys += ("iterations", "iterations_to_90", "total_s", "cpu_s")
    return table(columns, [[row[key] for key in keys] for row in read("demo")["rows"]])


def speed() -> str:
    """Our steps per second beside the peers'."""
    columns = {"game, same parameters": TEXT}
    columns |= dict.fromkeys(("steps/s", "GEM", "TextArena"), "{:,}")
    columns["over the faster"] = "{:.1f}x"
    rows = []
    for row in read("env_throughput")["rows"]:
        if "steps_ratio" not in row:
            continue
        rates = {name: one["steps_per_s"] for name, one in row["suites"].items()}
        suites = (rates.get(name) for name in ("llm_gym", "gem", "textarena"))
        rows.append((row["game"], *suites, row["steps_ratio"]))
    return table(columns, rows)


def all_speeds() -> str:
    found = read("env_throughput")
    rows = []
    for row in found["vector"]:
        ours = row["suites"]["llm_gym"]["steps_per_s"]
        for name, one in row["suites"].items():
            if name != "llm_gym":
                theirs = one["steps_per_s"]
                rows.append((row["game"], ours, f"{name} {theirs:,}", ours / theirs))
    vector = table({"game": TEXT, "ours": "{:,}", "peer": "{}", "ratio": "{:.1f}x"}, rows)
    own = [row["suites"]["llm_gym"] for row in found["alone"]]
    medians = [one["reset_us"] for one in own]
    tails = [one["reset_p99_us"] for one in own]
    return (
        f"{speed()}\n\nOf 64 environments at once:\n\n{vector}\n\n"
        f"Resets, over all {len(medians)} ids: the slowest median is {max(medians) / 1e3:.2f} ms, "
        f"the slowest 99th percentile {max(tails) / 1e3:.2f} ms."
    )


TABLES = {
    "summary": summary,
    "scores": scores,
    "demo": demo,
    "reached": reached_table.reached,
    "all-speeds": all_speeds,
    "serving": serving,
    "replies": lambda: docs_replies.write_table(read("replies")),
    "leaderboard": lambda: leaderboard.table(leaderboard.read()),
    "leaderboard-games": lambda: leaderboard.by_game(leaderboard.read()),
    "transfer": lambda: leaderboard.transfer(leaderboard.read()),
    "guards": lambda: guards.markdown(read("guards")["rows"]),
    **result_tables.TABLES,
    **gpu_tables.TABLES,
    **scale_tables.TABLES,
}
PAGES = [ROOT / "README.md", ROOT / "benchmarks/README.md", *sorted((ROOT / "docs").glob("*.md"))]


def filled(text: str) -> str:
    """Return ``text`` with every table between markers written anew."""
    for name, write in TABLES.items():
        marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        text = marked.sub(lambda found, write=write: f"{found[1]}{write()}\n{found[2]}", text)
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing")
    args = parser.parse_args()
    for page in PAGES:
        text = page.read_text()
        if args.check and filled(text) != text:
            sys.exit(f"{page.name} is not up to date: run benchmarks/readme.py")
        page.write_text(filled(text))


if __name__ == "__main__":
    main()
