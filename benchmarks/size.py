"""How large is the code base, and how much of it runs before the first PPO step?

    make size

A "room" is a folder or file directly inside a package; an "arrow" is an import between two rooms.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from benchmarks.lib.machine import ROOT
from docs.draw_architecture import EVERYWHERE, HOMES, imports
from llm_gym import cli
from llm_gym_agents.config.schema import SECTIONS

KNOWN = {
    "source lines": (67_970, 55_000),
    "source files": (594, 330),
    "fullest folder, files": (30, 12),
    "llm_gym: rooms": (21, 16),
    "llm_gym: arrows": (91, 60),
    "llm_gym_agents: rooms": (19, 13),
    "llm_gym_agents: arrows": (83, 45),
    "public class names used twice": (26, 0),
    "settings": (130, 85),
    "commands": (15, 10),
    "flags": (86, 70),
    "test lines": (54_560, 40_000),
    "benchmark lines": (12_886, 7_500),
    "docs pages": (28, 15),
    "docs words": (43_275, 22_000),
    "functions before the first PPO step": (1_060, 700),
    "files before the first PPO step": (188, 110),
    'frames of "go north"': (39, 20),
}
"""Number → what it was at commit 8702acd, and the aim."""
TRACE = """
import json, os, sys, threading
seen = set()

def own(code):
    return f"{os.sep}llm_gym" in code.co_filename and code.co_flags & 1  # a function, no class body

def profile(frame, event, arg):
    if event == "call" and own(frame.f_code):
        code = frame.f_code
        seen.add((code.co_filename, code.co_qualname))
        if code.co_qualname == "PPO._gradients":
            sys.setprofile(None)
            print(json.dumps([len(seen), len({name for name, _ in seen})]))
            sys.stdout.flush()
            os._exit(0)

threading.setprofile(profile)
sys.setprofile(profile)
from llm_gym.cli import main
main(["train", "llm_gym/Echo-v0", "--checkpoint.output-dir", sys.argv[1]])
"""
NORTH = """
import os, sys
import gymnasium as gym
import llm_gym
env = gym.make("llm_gym/TextGame-v0")
env.reset(seed=0)
env.step("go north")
env.reset(seed=0)
frames = 0

def profile(frame, event, arg):
    global frames
    frames += event == "call" and f"{os.sep}llm_gym" in frame.f_code.co_filename

sys.setprofile(profile)
env.step("go north")
sys.setprofile(None)
print(frames)
"""


def measure() -> dict[str, Any]:
    sources = [path for home in HOMES.values() for path in sorted(home.rglob("*.py"))]
    folders = Counter(path.parent for path in sources)
    found: dict[str, Any] = {
        "source lines": sum(map(_lines, sources)),
        "source files": len(sources),
        "fullest folder, files": max(folders.values()),
    }
    for package, home in HOMES.items():
        rooms = _rooms(home)
        found[f"{package}: rooms"] = len(rooms)
        found[f"{package}: arrows"] = len(_arrows(home, package, rooms))
    classes = Counter(name for path in sources for name in _classes(path))
    found["public class names used twice"] = sum(count > 1 for count in classes.values())
    found["settings"] = sum(len(section.model_fields) for section in SECTIONS.values())
    added = {point.name for point in entry_points(group="llm_gym.commands")}
    found["commands"] = len(added | set(cli._BUILT_IN))
    found["flags"] = sum(len(set(_flags(path))) for path in sources)
    found["test lines"] = sum(map(_lines, (ROOT / "tests").rglob("*.py")))
    found["benchmark lines"] = sum(map(_lines, (ROOT / "benchmarks").rglob("*.py")))
    pages = list((ROOT / "docs").rglob("*.md"))
    found["docs pages"] = len(pages)
    found["docs words"] = sum(len(page.read_text().split()) for page in pages)
    with tempfile.TemporaryDirectory() as place:
        counted = json.loads(_run(TRACE, f"{place}/run").splitlines()[-1])
    found["functions before the first PPO step"], found["files before the first PPO step"] = counted
    found['frames of "go north"'] = int(_run(NORTH))
    return found


def _lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def _rooms(home: Path) -> set[str]:
    return {
        path.stem
        for path in home.iterdir()
        if path.stem not in EVERYWHERE and (path.suffix == ".py" or (path / "__init__.py").exists())
    }


def _arrows(home: Path, package: str, rooms: set[str]) -> set[tuple[str, str]]:
    found = set()
    for path in home.rglob("*.py"):
        room = path.relative_to(home).parts[0].removesuffix(".py")
        for module in imports(path):
            first, *rest = module.split(".")
            target = rest[0] if first == package and rest else None
            if target in rooms and target != room:
                found.add((room, str(target)))
    return found


def _classes(path: Path) -> Iterator[str]:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def _flags(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if called in ("add_argument", "add_repeated"):
            for given in node.args:
                if isinstance(given, ast.Constant) and str(given.value).startswith("--"):
                    yield str(given.value)


def _run(program: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
    )
    if done.returncode:
        raise RuntimeError(f"{program.strip().splitlines()[-1]} failed: {done.stderr[-500:]}")
    return done.stdout.strip()


def main() -> None:
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    print(f"{'':<40}{'8702acd':>10}{'now':>10}{'aim':>10}")
    for name, value in measure().items():
        base, aim = KNOWN[name]
        print(f"{name:<40}{base:>10,}{value:>10,}{aim:>10,}")


if __name__ == "__main__":
    main()
