r"""How many calls of a Python tool a second, beside GEM and SkyRL-Gym, and what they contain.

Each suite runs in a process of its own (the peers in ``.venv-peers``, which this script creates),
pinned with all its children to one CPU. Slices of the suites alternate, one at a time, so that
whatever else the machine does hits all of them alike. The code is not plain arithmetic, which
ours would work out without a process. Then: how long a timeout of two seconds takes, which of a
few things the code may do, and, for ours, how many of the known ways out were contained.

    python -m benchmarks.envs.tools
    python -m benchmarks.envs.tools --peers --repeats 3

Prints a table; the last line of stdout is the same as JSON. A run with all peers writes
``results/tools.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from typing import Any

from benchmarks.lib.machine import RESULTS, provenance
from benchmarks.lib.workers import Worker
from llm_gym.sandbox import Sandbox
from llm_gym.sandbox.check import check_isolation
from llm_gym.tools.builtin import CalculatorTool, SearchTool, SqlTool

RESULT = RESULTS / "tools.json"
OURS = ("llm_gym", "llm_gym stateful")
PEERS = ("gem", "skyrl")
CODE = "total = 0\nfor n in range(10):\n    total += n * n\nprint('total', total)"
TIMEOUT_S = 2.0
LINE = "{:<18}{:>10}{:>8}{:>12}{:>12}"


def measure(suites: list[Worker], repeats: int, seconds: float) -> dict[str, dict[str, Any]]:
    """Return calls and parses a second of each suite, from slices that take turns."""
    slices: dict[str, dict[str, list[float]]] = {
        suite.name: {"calls": [], "parses": []} for suite in suites
    }
    for repeat in range(repeats):
        first = repeat % len(suites)  # nobody always follows the same neighbour
        for suite in suites[first:] + suites[:first]:
            for op, length in (("calls", seconds), ("parses", seconds / 5)):
                got = suite.ask(op=op, code=CODE, expect="total 285", seconds=length)
                slices[suite.name][op].append(got["count"] / got["seconds"])
    return {
        name: {
            "calls_per_s": round(statistics.median(found["calls"]), 1),
            "calls_slices": [round(rate, 1) for rate in found["calls"]],
            "parses_per_s": round(statistics.median(found["parses"])),
        }
        for name, found in slices.items()
    }


def our_other_tools(seconds: float = 0.3) -> dict[str, float]:
    """Return calls a second of the tools that need no process."""
    from benchmarks.peers.tool_worker import rate

    corpus = {f"Document {n}": f"It is about word{n % 97} and word{n % 89}." for n in range(1000)}
    rows = ", ".join(f"({n}, 'name {n}')" for n in range(1000))
    database = f"CREATE TABLE t (id INTEGER, name TEXT); INSERT INTO t VALUES {rows};"
    sql = "SELECT count(*) FROM t WHERE name LIKE '%7%'"
    found = {}
    for tool, params in (
        (CalculatorTool(), {"expression": "2 * (3 + 4) ** 2"}),
        (SearchTool(corpus), {"query": "word13 word42"}),
        (SqlTool(database), {"query": sql}),
    ):
        tool.execute(**params)
        got = rate(lambda tool=tool, params=params: tool.execute(**params), seconds)
        found[tool.name] = round(got["count"] / got["seconds"])
        tool.close()
    return found


def containment() -> dict[str, Any]:
    """Return what isolates code here, and how many ways out it contained."""
    with Sandbox() as sandbox:
        # Probes that fail without isolation too would prove nothing.
        findings = [finding for finding in check_isolation(sandbox) if finding.counted]
        return {
            "isolation": sandbox.mechanism,
            "landlock": sandbox.landlock,
            "attempts": len(findings),
            "contained": sum(finding.contained for finding in findings),
            "escaped": [finding.name for finding in findings if not finding.contained],
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.0, help="length of one slice")
    parser.add_argument("--repeats", type=int, default=7, help="slices per suite")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS, help="default: all")
    args = parser.parse_args()

    about = provenance(__file__)
    cpu = min(os.sched_getaffinity(0))
    suites = [Worker("benchmarks.peers.tool_worker", name, cpu) for name in (*OURS, *args.peers)]
    packages: dict[str, str] = {}
    for suite in suites:
        packages |= suite.ask(op="versions")
    figures = measure(suites, args.repeats, args.seconds)
    print(LINE.format("suite", "calls/s", "ratio", "parses/s", f"{TIMEOUT_S:g} s take"))
    for suite in suites:
        row = figures[suite.name]
        row["timeout_of_2_s_takes"] = round(suite.ask(op="timeout", seconds=TIMEOUT_S), 2)
        row["code"] = suite.ask(op="probe")
        ratio = figures["llm_gym"]["calls_per_s"] / row["calls_per_s"]
        row["ours_over_this"] = round(ratio, 2)
        shown = (row["calls_per_s"], f"{ratio:.1f}x", row["parses_per_s"])
        print(LINE.format(suite.name, *shown, row["timeout_of_2_s_takes"]))
        for name, does in row["code"].items():
            print(f"    {name}: {'yes' if does else 'no'}")
        suite.close()
    about["machine"]["packages"] = packages
    result = {
        **about,
        "code": CODE,
        "suites": figures,
        "other_tools_calls_per_s": our_other_tools(),
        "escapes": containment(),
    }
    print(f"other tools, calls/s: {result['other_tools_calls_per_s']}")
    held = result["escapes"]
    print(f"{held['contained']} of {held['attempts']} ways out contained by {held['isolation']}")
    if set(args.peers) == set(PEERS):
        RESULT.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
