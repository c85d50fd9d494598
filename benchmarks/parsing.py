r"""How fast replies are parsed, beside GEM and SkyRL-Gym, and what a reply from hell costs.

Each suite runs in a process of its own (the peers in ``.venv-peers``) and reads the same reply,
written in the format that each of its parsers wants: some words and one call with ten lines of
Python. Slices take turns. Then every parser reads replies of one tag, repeated and never closed,
of twice the length each time: linear parsers take twice as long, quadratic ones four times.

    python benchmarks/parsing.py
    python benchmarks/parsing.py --repeats 15

Prints a table; the last line of stdout is the same as JSON, which goes to ``results/parsing.json``.
What the parsers do differs: the peers' find one string between tags; ours read any tool's
arguments, check them as JSON, and explain what is broken.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path

from machine import provenance
from peers.suites import ROOT, Worker

RESULT = ROOT / "benchmarks" / "results" / "parsing.json"
WORKER = Path(__file__).parent / "peers" / "parsers.py"
CODE = "total = 0\nfor n in range(100):\n" + "".join(
    f'    if n % {k} == 0 and n < "9":\n        total += n\n' for k in (3, 5, 7, 11)
)
WORDS = "I need the sum of the multiples below one hundred, so I write a small loop. " * 4
CALL = json.dumps({"name": "python", "arguments": {"code": CODE}})
SIZES = (10_000, 20_000, 40_000)
PARSERS: dict[tuple[str, str], tuple[str, str]] = {
    # (suite, parser) -> a good reply, and the tag that is repeated
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=0.2, help="length of one slice")
    parser.add_argument("--repeats", type=int, default=9, help="slices per parser")
    args = parser.parse_args()
    about = provenance(__file__)
    suites = {name: Worker(WORKER, name) for name in dict.fromkeys(suite for suite, _ in PARSERS)}
    versions: dict[str, str] = {}
    for suite in suites.values():
        versions |= suite.ask(op="versions")
    rates: dict[tuple[str, str], list[float]] = {key: [] for key in PARSERS}
    for _ in range(args.repeats):
        for (suite, name), (reply, _) in PARSERS.items():
            asked = {"op": "rate", "parser": name, "text": reply, "seconds": args.seconds}
            rates[suite, name].append(suites[suite].ask(**asked))
    print(
        LINE.format("suite", "parser", "parses/s", "spread", *(f"{n:,}" for n in SIZES), "growth")
    )
    rows = []
    for (suite, name), (reply, tag) in PARSERS.items():
        hostile = [
            min(
                suites[suite].ask(op="time", parser=name, text=tag * (size // len(tag)))
                for _ in range(3)
            )
            for size in SIZES
        ]
        own = rates[suite, name]
        row = {
            "suite": suite,
            "parser": name,
            "parses_per_s": round(statistics.median(own)),
            "spread": round((max(own) - min(own)) / statistics.median(own), 3),
            "reply_chars": len(reply),
            "hostile_ms": {str(n): round(1e3 * s, 3) for n, s in zip(SIZES, hostile, strict=True)},
            "growth_per_doubling": round((hostile[-1] / hostile[0]) ** (1 / (len(SIZES) - 1)), 2),
        }
        rows.append(row)
        print(
            LINE.format(
                suite,
                name,
                f"{row['parses_per_s']:,}",
                f"{row['spread']:.0%}",
                *(f"{1e3 * s:.2f} ms" for s in hostile),
                f"{row['growth_per_doubling']}x",
            )
        )
    for suite in suites.values():
        suite.close()
    about["machine"]["packages"] = versions
    result = {**about, "rows": rows}
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
