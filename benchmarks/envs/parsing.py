r"""How fast replies are parsed, beside GEM and SkyRL-Gym, and what a reply from hell costs.

Each suite runs in a process of its own (the peers in ``.venv-peers``) and reads the same reply,
written in the format that each of its parsers wants: some words and one call with ten lines of
Python. Slices take turns. Then every parser reads replies of one tag, repeated and never closed,
of twice the length each time: linear parsers take twice as long, quadratic ones four times.

    python -m benchmarks.envs.parsing
    python -m benchmarks.envs.parsing --repeats 15

Prints a table; the last line of stdout is the same as JSON, which goes to ``results/parsing.json``.
What the parsers do differs: the peers' find one string between tags; ours read any tool's
arguments, check them as JSON, and explain what is broken.
"""

from __future__ import annotations

import argparse
import json
import statistics
from typing import Any

from benchmarks.lib.machine import RESULTS, provenance
from benchmarks.lib.workers import Worker

RESULT = RESULTS / "parsing.json"
CODE = "total = 0\nfor n in range(100):\n" + "".join(
    f'    if n % {k} == 0 and n < "9":\n        total += n\n' for k in (3, 5, 7, 11)
)
WORDS = "I need the sum of the multiples below one hundred, so I write a small loop. " * 4
CALL = json.dumps({"name": "python", "arguments": {"code": CODE}})
SIZES = (10_000, 20_000, 40_000)
Key = tuple[str, str]  # suite, parser
PARSERS: dict[Key, tuple[str, str]] = {
    # a good reply, and the tag that is repeated
    ("llm_gym", "json"): (f"{WORDS}\n{CALL}", '{"name": "'),
    ("llm_gym", "react"): (
        f"Thought: {WORDS}\nAction: python\nAction Input: {json.dumps({'code': CODE})}",
        "Action Input: {",
    ),
    ("llm_gym", "hermes"): (f"{WORDS}\n<tool_call>\n{CALL}\n</tool_call>", '<tool_call>{"a": "'),
    ("llm_gym", "mistral"): (f"{WORDS}\n[TOOL_CALLS] [{CALL}]", "[TOOL_CALLS]["),
    ("llm_gym", "auto"): (f"{WORDS}\n<tool_call>\n{CALL}\n</tool_call>", "<tool_call>"),
    ("gem", "python tool"): (f"{WORDS}\n<python>\n{CODE}\n</python>", "<python>"),
    ("skyrl", "searchcode"): (f"{WORDS}\n<tool><python>{CODE}</python></tool>", "<tool>"),
}
LINE = "{:<10}{:<14}{:>12}{:>9}" + "{:>12}" * len(SIZES) + "{:>9}"


def rates_of(suites: dict[str, Worker], repeats: int, seconds: float) -> dict[Key, list[float]]:
    """Return parses a second of each parser, from slices that take turns."""
    rates: dict[Key, list[float]] = {key: [] for key in PARSERS}
    for _ in range(repeats):
        for (suite, name), (reply, _) in PARSERS.items():
            asked = {"op": "rate", "parser": name, "text": reply, "seconds": seconds}
            rates[suite, name].append(suites[suite].ask(**asked))
    return rates


def row_of(key: Key, suite: Worker, rates: list[float]) -> dict[str, Any]:
    """Return what the table says of a parser; its hostile replies are timed here."""
    reply, tag = PARSERS[key]
    hostile = [
        min(suite.ask(op="time", parser=key[1], text=tag * (size // len(tag))) for _ in range(3))
        for size in SIZES
    ]
    return {
        "suite": key[0],
        "parser": key[1],
        "parses_per_s": round(statistics.median(rates)),
        "spread": round((max(rates) - min(rates)) / statistics.median(rates), 3),
        "reply_chars": len(reply),
        "hostile_ms": {str(n): round(1e3 * s, 3) for n, s in zip(SIZES, hostile, strict=True)},
        "growth_per_doubling": round((hostile[-1] / hostile[0]) ** (1 / (len(SIZES) - 1)), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.2, help="length of one slice")
    parser.add_argument("--repeats", type=int, default=9, help="slices per parser")
    args = parser.parse_args()
    about = provenance(__file__)
    names = dict.fromkeys(suite for suite, _ in PARSERS)
    suites = {name: Worker("benchmarks.peers.parsers", name) for name in names}
    versions: dict[str, str] = {}
    for suite in suites.values():
        versions |= suite.ask(op="versions")
    rates = rates_of(suites, args.repeats, args.seconds)
    print(
        LINE.format("suite", "parser", "parses/s", "spread", *(f"{n:,}" for n in SIZES), "growth")
    )
    rows = []
    for key in PARSERS:
        row = row_of(key, suites[key[0]], rates[key])
        rows.append(row)
        speed, took = f"{row['parses_per_s']:,}", row["hostile_ms"].values()
        told = (*key, speed, f"{row['spread']:.0%}", *(f"{ms:.2f} ms" for ms in took))
        print(LINE.format(*told, f"{row['growth_per_doubling']}x"))
    for suite in suites.values():
        suite.close()
    about["machine"]["packages"] = versions
    result = {**about, "rows": rows}
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
