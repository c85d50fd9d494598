"""Results that came back joined from another machine, put where they belong; then the pages.

    python benchmarks/unpack_results.py results_all.json [--commit HASH]

The file maps names (``learning``, ``trl_train``, ``trl_gpu``) to result files; ``suite_*`` are rows
of the suite, which go to the leaderboard. A machine without git cannot say its commit: ``--commit``
does.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from machine import ROOT

HERE = Path(__file__).parent
SUITES = {"suite_SmolLM2": "SmolLM2-135M-Instruct", "suite_after": "SmolLM2-135M, trained"}


def place(name: str, result: dict[str, Any], commit: str | None) -> None:
    """Put one result where it belongs."""
    if name in SUITES:
        import leaderboard

        note = f"{result['args']['engine']}, greedy, {result['args']['max_tokens']} tokens a reply"
        leaderboard.add(result, SUITES[name], note)
        return
    if commit and not result.get("commit"):
        result |= {"commit": commit, "uncommitted_changes": False}
    (HERE / "results" / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--commit", help="that the machine ran")
    args = parser.parse_args()
    found = json.loads(args.file.read_text())
    for name, result in found.items():
        place(name, result, args.commit)
    scripts = {"learning": ["learning.py", "--show"], "trl_train": ["peers/trl_train.py", "--show"]}
    for name, command in scripts.items():
        if name in found:
            subprocess.run([sys.executable, *command], check=True, cwd=HERE)
    subprocess.run([sys.executable, "leaderboard.py"], check=True, cwd=HERE)
    print(f"{', '.join(found)}: now look at the figures in {ROOT / 'docs' / 'images'}")


if __name__ == "__main__":
    main()
