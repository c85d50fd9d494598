"""Writes the README's tables from the files that measured them.

    python benchmarks/readme.py            # rewrite the README
    python benchmarks/readme.py --check    # say whether it is up to date

Each table stands between two markers, ``<!-- NAME -->`` and ``<!-- /NAME -->``.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

import gymnasium as gym

from llm_gym.envs import ENVS
from llm_gym.scores import published

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"


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


def demo() -> str:
    lines = [
        "| seed | before | after | 1,000 fresh episodes | iterations | to 90 % | seconds in all |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in json.loads((RESULTS / "demo.json").read_text())["rows"]:
        lines.append(
            f"| {row['seed']} | {row['before']:.1%} | {row['after']:.1%} | {row['fresh']:.1%} "
            f"| {row['iterations']} "
            f"| {row['iterations_to_90'] or '-'} | {row['total_s']:.0f} |"
        )
    return "\n".join(lines)


def speed() -> str:
    lines = [
        "| game, same parameters | steps/s | GEM | TextArena | over the faster |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for row in json.loads((RESULTS / "env_throughput.json").read_text())["rows"]:
        rates = {name: f"{one['steps_per_s']:,}" for name, one in row["suites"].items()}
        lines.append(
            f"| {row['game']} | {rates['llm_gym']} | {rates.get('gem', '-')} "
            f"| {rates.get('textarena', '-')} | {row['steps_ratio']:.2f}x |"
        )
    return "\n".join(lines)


TABLES = {"scores": scores, "demo": demo, "speed": speed}


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
    readme = ROOT / "README.md"
    text = readme.read_text()
    if args.check:
        sys.exit(filled(text) != text and "README.md is not up to date: run benchmarks/readme.py")
    readme.write_text(filled(text))


if __name__ == "__main__":
    main()
