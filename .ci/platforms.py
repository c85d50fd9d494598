"""Resolves every extra for every platform, and keeps the table in docs/faq.md.

``python .ci/platforms.py`` fails when an extra can no longer be installed where the table says it
can; ``--write`` writes the table anew. Nothing is installed: uv resolves for machines and Pythons
that are not at hand. The answer is ``yes`` (wheels for everything), ``build X`` (X has no wheel
there and is built from source) or ``no (X)``. The table has every answer but yes; where none is
yes, the most common one holds everywhere else.
"""

import argparse
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "faq.md"
LINUX = {"Linux x86-64": "x86_64-manylinux_2_35", "Linux aarch64": "aarch64-manylinux_2_35"}
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
COLUMNS = {
    f"{name} {python}": (target, python) for name, target in LINUX.items() for python in PYTHONS
} | {"macOS arm64 3.13": ("aarch64-apple-darwin", "3.13")}
REST = "everywhere else"
MAKE = "train,lora,dev"
# These fix versions of their own, so constraints.txt does not apply to them.
UNCONSTRAINED = ("vllm", "sglang", "openenv")
SECONDS = 120
NO_ANSWER = "no answer from the index"
WHEELS_ONLY = ("--only-binary", ":all:")


def extras() -> list[str]:
    """Return the core, every extra but the union of bridges, and what `make test` installs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return ["", *(name for name in project["optional-dependencies"] if name != "bridges"), MAKE]


def compile_for(extra: str, target: str, python: str, *options: str) -> str:
    """Return what uv says against installing ``extra`` there; nothing if it can be."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "pyproject.toml"]
    command += ["--python-platform", target, "--python-version", python, *options]
    command += ["--python", sys.executable]  # or uv downloads the one of that version
    for name in filter(None, extra.split(",")):
        command += ["--extra", name]
    if extra not in UNCONSTRAINED:
        command += ["--constraint", "constraints.txt"]
    # torch's wheels are for macOS 14 and newer.
    environment = os.environ | {"MACOSX_DEPLOYMENT_TARGET": "14.0"}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return NO_ANSWER
    if done.returncode and "No solution found" not in done.stderr:
        return f"{done.stderr.strip()}: {NO_ANSWER}"  # the index failed, not the resolution
    return done.stderr.strip() if done.returncode else ""


def cell(extra: str, target: str, python: str) -> str:
    """Return whether ``extra`` can be installed there: ``yes``, ``build X`` or ``no (X)``."""
    against = compile_for(extra, target, python, *WHEELS_ONLY)
    if not against:
        return "yes"
    culprit = re.search(r"([\w.-]+)\S*(?: \([^)]*\))? has no (?:usable )?wheels", against)
    name = culprit[1] if culprit else "no resolution"
    return f"build {name}" if "building from source is disabled" in against else f"no ({name})"


def each(function: Callable[[str, str], str]) -> dict[str, list[str]]:
    """Return ``function`` of every extra and column, by extra."""
    with ThreadPoolExecutor(8) as pool:
        rows = {
            extra: [pool.submit(function, extra, column) for column in COLUMNS]
            for extra in extras()
        }
        return {extra: [one.result() for one in cells] for extra, cells in rows.items()}


def label(extra: str) -> str:
    """Return the name of a row."""
    return f"`.[{extra}]`" if extra else "`.`"


def table(rows: dict[str, list[str]]) -> str:
    """Return a row for each extra that has no wheels somewhere."""
    lines = ["| extra | where it has no wheels |", "| --- | --- |"]
    for extra, cells in rows.items():
        found: dict[str, list[str]] = {}
        for column, answer in zip(COLUMNS, cells, strict=True):
            if answer != "yes":
                found.setdefault(answer, []).append(column)
        if "yes" not in cells:
            common = max(found, key=lambda answer: len(found[answer]))
            del found[common]
            found[common] = [REST if found else "everywhere"]  # the last one
        places = [f"{answer}: {', '.join(where)}" for answer, where in found.items()]
        if found:
            lines.append(f"| {label(extra)} | {'; '.join(places)} |")
    return "\n".join(lines)


def published() -> dict[tuple[str, str], str]:
    """Return the answers of the page that are not yes, by extra and column."""
    page = PAGE.read_text().partition("<!-- platforms -->")[2]
    written = page.partition("<!-- /platforms -->")[0].splitlines()
    lines = [line for line in written if line.startswith("|")]
    _, _, *rows = [[part.strip() for part in line.strip("|").split("|")] for line in lines]
    found = {}
    for name, places in rows:
        for answer, where in (place.split(": ") for place in places.split("; ")):
            for column in where.split(", "):
                found[name, column] = answer
        for rest in (REST, "everywhere"):
            if (answer := found.pop((name, rest), None)) is not None:
                found = {(name, column): answer for column in COLUMNS} | found
    return found


def write() -> None:
    """Write the table of the page anew."""
    rows = each(lambda extra, column: cell(extra, *COLUMNS[column]))
    before, _, after = PAGE.read_text().partition("<!-- platforms -->")
    after = after.partition("<!-- /platforms -->")[2]
    PAGE.write_text(f"{before}<!-- platforms -->\n{table(rows)}\n<!-- /platforms -->{after}")


def check() -> int:
    """Resolve again what the page says can be installed; print what cannot, return how many."""
    known = published()

    def gap(extra: str, column: str) -> str:
        if (label(extra), column) in known:
            return ""
        return compile_for(extra, *COLUMNS[column], *WHEELS_ONLY)

    rows = each(gap)
    gaps = [
        f"{label(extra)} on {column}: {why}"
        for extra, cells in rows.items()
        for column, why in zip(COLUMNS, cells, strict=True)
        if why
    ]
    print("\n".join(gaps))
    # A slow index says nothing about a package.
    gaps = [gap for gap in gaps if not gap.endswith(NO_ANSWER)]
    print(f"{len(rows)} sets of extras on {len(COLUMNS)} platforms: {len(gaps)} new gaps")
    return len(gaps)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Resolves every extra for every platform.")
    parser.add_argument("--write", action="store_true", help="write the table anew: minutes")
    sys.exit(write() if parser.parse_args().write else min(check(), 1))
