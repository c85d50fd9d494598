"""Writes the tables of README and docs from the files that measured them.

    python benchmarks/readme.py            # rewrite the pages
    python benchmarks/readme.py --check    # say whether they are up to date

Each table stands between two markers, ``<!-- NAME -->`` and ``<!-- /NAME -->``.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from statistics import median
from textwrap import fill
from typing import Any

import docs_replies
import gpu_tables
import guards
import gymnasium as gym
import leaderboard
import result_tables
import scale_tables

from llm_gym.evaluate.scores import published
from llm_gym.registry.suite import ENVS

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"


def _result(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return found


def families() -> list[list[str]]:
    """Return the ids of each game."""
    found: dict[str, list[str]] = {}
    for row in ENVS:
        found.setdefault(row.entry_point, []).append(row.id)
    return list(found.values())


def summary() -> str:
    """What the tables say, in two sentences."""
    seeds = json.loads((RESULTS / "demo.json").read_text())["rows"]
    rows = json.loads((RESULTS / "env_throughput.json").read_text())["rows"]
    first = {
        row["game"].split()[0]: row["steps_ratio"] for row in reversed(rows) if "steps_ratio" in row
    }
    ahead = sum(ratio > 1 for ratio in first.values())
    before, fresh, seconds = (
        f"{min(found):{form}}-{max(found):{form}}"
        for found, form in (
            ([row["before"] for row in seeds], ".1%"),
            ([row["fresh"] for row in seeds], ".1%"),
            ([row["cpu_s"] for row in seeds], ".0f"),
        )
    )
    text = (
        f"With {len(seeds)} seeds the demo went from {before} success to {fresh} on 1,000 fresh "
        f"held-out episodes, in {seconds} CPU seconds. There are {len(families())} games "
        f"in {len(ENVS)} configurations; of {len(first)} games that GEM or TextArena have too, "
        f"with the same parameters, {ahead} step faster here than in either, "
        f"{median(first.values()):.1f}x in the median ([all tables](docs/benchmarks.md))."
    )
    text = " ".join(filter(None, (text, result_tables.trl_headline())))
    return fill(text, 100, break_long_words=False, break_on_hyphens=False)


def games() -> str:
    """One row for each game, by its plain id; the levels are in docs/environments.md."""
    lines = [
        "| game | levels | random | solver |",
        "| --- | --- | ---: | ---: |",
    ]
    for ids in families():
        plain = min(ids, key=len)
        name = plain.removesuffix("-v0")
        levels = ", ".join(
            sorted(one.removesuffix("-v0")[len(name) :] for one in ids if one != plain)
        )
        score = published()[plain]
        lines.append(
            f"| `{plain}` | {levels or '-'} | {score['random'].success:.0%} "
            f"| {score['solver'].success:.0%} |"
        )
    return "\n".join(lines)


def scores() -> str:
    lines = [
        "| environment | turns allowed | random | solver | oracle |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for row in ENVS:
        score = published()[row.id]
        cells = " | ".join(f"{score[name].success:.1%}" for name in ("random", "solver", "oracle"))
        limit = getattr(gym.make(row.id).unwrapped, "max_turns", None)
        lines.append(f"| `{row.id}` | {limit} | {cells} |")
    return "\n".join(lines)


def serving() -> str:
    lines = [
        "| playing | envs | tokens/s | of the bare engine | uneven replies, over lock-step |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name, place in (("vllm", "CPU, random 2-layer model"), ("vllm_h200", "H200, SmolLM2-135M")):
        found = json.loads((RESULTS / f"rollout_{name}.json").read_text())
        for row in found["rows"]:
            uneven = found["uneven"]
            gain = f"{uneven['speed_up']:.1f}x" if row["envs"] == uneven["envs"] else "-"
            lines.append(
                f"| vLLM, {place} | {row['envs']} | {row['tokens_per_s']:,} "
                f"| {row['ratio']:.2f} | {gain} |"
            )
    peer = json.loads((RESULTS / "rollout_trl_h200.json").read_text())["rows"][-1]
    lines.append(
        f"| TRL's generation, lock-step, H200 | {peer['envs']} | {peer['tokens_per_s']:,} | - | - |"
    )
    push = json.loads((RESULTS / "weight_push_vllm_h200.json").read_text())
    lines += [
        "",
        f"New weights on the H200 ({push['weights'] / 1e6:.0f}M parameters, bfloat16): push "
        f"{push['push_ms']:.0f} ms, probe {push['probe_ms']:.0f} ms, together "
        f"{push['training']['publish_share']:.1%} of an iteration of "
        f"{push['training']['tokens_per_iteration']:,} sampled tokens; log-probs differ by "
        f"{push['training']['probe_gap'][-1]:.2f}, by {push['stale_gap']:.1f} after a push "
        "that was left out, which the probe noticed. Asleep, vLLM gave "
        f"{push['freed_gib']:.0f} GiB back.",
    ]
    return "\n".join(lines)


def demo() -> str:
    lines = [
        "| seed | before | after | 1,000 fresh episodes | iterations | to 90 % "
        "| seconds in all | CPU seconds |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in json.loads((RESULTS / "demo.json").read_text())["rows"]:
        lines.append(
            f"| {row['seed']} | {row['before']:.1%} | {row['after']:.1%} | {row['fresh']:.1%} "
            f"| {row['iterations']} "
            f"| {row['iterations_to_90'] or '-'} | {row['total_s']:.0f} | {row['cpu_s']:.0f} |"
        )
    return "\n".join(lines)


def speed(all_rows: bool = False) -> str:
    """Our steps per second beside the peers': of each game one row, or all."""
    lines = [
        "| game, same parameters | steps/s | GEM | TextArena | over the faster |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    seen = set()
    for row in json.loads((RESULTS / "env_throughput.json").read_text())["rows"]:
        game = row["game"].split()[0]
        if "steps_ratio" not in row or (game in seen and not all_rows):
            continue
        seen.add(game)
        rates = {name: f"{one['steps_per_s']:,}" for name, one in row["suites"].items()}
        lines.append(
            f"| {row['game']} | {rates['llm_gym']} | {rates.get('gem', '-')} "
            f"| {rates.get('textarena', '-')} | {row['steps_ratio']:.1f}x |"
        )
    return "\n".join(lines)


def all_speeds() -> str:
    found = json.loads((RESULTS / "env_throughput.json").read_text())
    lines = [speed(all_rows=True), "", "Of 64 environments at once:", ""]
    lines += ["| game | ours | peer | ratio |", "| --- | ---: | ---: | ---: |"]
    for row in found["vector"]:
        ours = row["suites"]["llm_gym"]["steps_per_s"]
        for name, one in row["suites"].items():
            if name != "llm_gym":
                ratio = ours / one["steps_per_s"]
                lines.append(
                    f"| {row['game']} | {ours:,} | {name} {one['steps_per_s']:,} | {ratio:.1f}x |"
                )
    own = [row["suites"]["llm_gym"] for row in found["alone"]]
    medians = [one["reset_us"] for one in own]
    tails = [one["reset_p99_us"] for one in own]
    lines += [
        "",
        f"Resets, over all {len(medians)} ids: the slowest median is {max(medians) / 1e3:.2f} ms, "
        f"the slowest 99th percentile {max(tails) / 1e3:.2f} ms.",
    ]
    return "\n".join(lines)


TABLES = {
    "summary": summary,
    "games": games,
    "scores": scores,
    "demo": demo,
    "speed": speed,
    "all-speeds": all_speeds,
    "serving": serving,
    "replies": lambda: docs_replies.write_table(_result("replies")),
    "leaderboard": lambda: leaderboard.table(leaderboard.read()),
    "leaderboard-games": lambda: leaderboard.by_game(leaderboard.read()),
    "guards": lambda: guards.markdown(_result("guards")["rows"]),
    "learning": result_tables.learning,
    "trl-train": result_tables.trl_train,
    "trl-gpu": result_tables.trl_gpu,
    "agilerl": result_tables.agilerl,
    "verl-parts": result_tables.verl_parts,
    "serve": result_tables.serve,
    "gpu-update": gpu_tables.update,
    "gpu-fits": gpu_tables.fits,
    "gpu-iteration": gpu_tables.iteration,
    "real-model": gpu_tables.real_model,
    **scale_tables.TABLES,
}
PAGES = [ROOT / "README.md", ROOT / "benchmarks/README.md", *sorted((ROOT / "docs").glob("*.md"))]


def filled(text: str) -> str:
    """Return ``text`` with every table between markers written anew."""
    for name, table in TABLES.items():
        marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        text = marked.sub(lambda found, table=table: f"{found[1]}{table()}\n{found[2]}", text)
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
