"""How old is a result, and what has changed since?

Every file in ``benchmarks/results/`` names its command, commit, machine, packages, seeds, date and
the paths that it depends on. ``problems`` finds what is missing. ``ages`` compares the code of
these paths with that of today; docstrings, comments and layout do not count. A file in ``one_off/``
answered a question once. Its script is gone, so it names its command, commit and machine only.
"""

from __future__ import annotations

import ast
import functools
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.lib.machine import RESULTS, ROOT, git
from benchmarks.lib.tables import TEXT, table

ONE_OFF = "one_off"
ASKED = ("command", "commit", "machine")
FIELDS = (*ASKED, "uncommitted_changes", "date", "seeds", "depends_on")
MACHINE = ("system", "cpu", "cpus", "gpu", "python", "packages")
SHOWN = 3
"""Changed files that are named."""
_RESULT = re.compile(r"<!-- results: ([\w/]+\.json)")


class Age(NamedTuple):
    """One source of a result file, compared with the code of today."""

    commit: str
    commits: int
    """Commits since then."""
    changed: tuple[str, ...]
    """Files that it depends on whose code differs now."""
    dirty: bool

    @property
    def since(self) -> str:
        named = ", ".join(self.changed[:SHOWN])
        more = len(self.changed) - SHOWN
        return f"{named}, and {more} more" if more > 0 else named or "nothing"


def result_files(folder: Path = RESULTS) -> Iterator[tuple[str, Any]]:
    """Yield the path within ``folder`` and the content of every result file."""
    for path in sorted(folder.rglob("*.json")):
        yield path.relative_to(folder).as_posix(), json.loads(path.read_text("utf-8"))


def sources(found: Any) -> Iterator[dict[str, Any]]:
    """Yield every part of a result that names a commit; rows may have their own."""
    if isinstance(found, dict) and isinstance(found.get("commit"), str):
        yield found
    for each in found.values() if isinstance(found, dict) else found:
        if isinstance(each, dict | list):
            yield from sources(each)


def problems(name: str, result: Any) -> list[str]:
    """Return a sentence for each field that is missing and each commit that git does not know."""
    found = list(sources(result))
    whole = [each for each in found if "machine" in each]
    if not whole:
        return [f"{name} has no commit and machine; write it with provenance()"]
    one_off = name.startswith(f"{ONE_OFF}/")
    wrong = []
    for each in whole:
        missing = [field for field in (ASKED if one_off else FIELDS) if field not in each]
        missing += [
            f"machine.{key}" for key in MACHINE if not one_off and key not in each["machine"]
        ]
        wrong += [f"{name} lacks {field}" for field in missing]
    if history() == "whole":
        unknown = dict.fromkeys(each["commit"] for each in found if not is_ancestor(each["commit"]))
        wrong += [f"{name}: commit {commit} is not in this repository" for commit in unknown]
    return wrong


def ages(result: Any) -> list[Age]:
    """Return the age of each commit of a result that names what it depends on."""
    paths = next((each["depends_on"] for each in sources(result) if "depends_on" in each), None)
    if paths is None or history() != "whole":
        return []
    found: dict[str, Age] = {}
    for each in sources(result):
        commit = each["commit"][:7]
        dirty = bool(each.get("uncommitted_changes"))
        changed = changed_code(commit, tuple(paths))
        found.setdefault(commit, Age(commit, commits_since(commit), changed, dirty))
    return list(found.values())


def headlines(readme: str) -> set[str]:
    """Return the result files that README's numbers come from."""
    return {"demo.json", *_RESULT.findall(readme)}


def stale_headlines(readme: str) -> list[str]:
    """Return a sentence for each headline of README that is not of today's code."""
    wrong = []
    for name, result in result_files():
        for age in ages(result) if name in headlines(readme) else ():
            if age.dirty:
                wrong.append(f"README shows {name}, which was measured with uncommitted changes")
            if age.changed:
                wrong.append(
                    f"README shows {name} of {age.commit}, {age.commits} commits ago; changed "
                    f"since: {age.since}. Run its command again"
                )
    return wrong


def ages_table() -> str:
    """Return a table of all results that depend on today's code: age, and what has changed."""
    if history() != "whole":
        return "This checkout has no full history, so ages are not known."
    columns = {"result": TEXT, "commits ago": TEXT, "files changed since": TEXT, "such as": TEXT}
    rows = []
    for name, result in result_files():
        if found := ages(result):
            last = min(found, key=lambda age: age.commits)
            commits = _range(age.commits for age in found)
            changed = _range(len(age.changed) for age in found)
            rows.append((f"`{name}`", commits, changed, last.since))
    return table(columns, rows)


def _range(numbers: Iterable[int]) -> str:
    ordered = sorted(set(numbers))
    return " to ".join(map(str, dict.fromkeys((ordered[0], ordered[-1]))))


# --- git ---------------------------------------------------------------------------------


@functools.cache
def history() -> str:
    """Return ``whole``, ``shallow`` or ``none``."""
    shallow = git("rev-parse", "--is-shallow-repository")
    return "none" if shallow is None else "shallow" if shallow == "true" else "whole"


@functools.cache
def is_ancestor(commit: str) -> bool:
    return git("merge-base", "--is-ancestor", commit, "HEAD") is not None


@functools.cache
def commits_since(commit: str) -> int:
    return int(git("rev-list", "--count", f"{commit}..HEAD") or 0)


@functools.cache
def changed_code(commit: str, paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return the files below ``paths`` whose code differs between ``commit`` and the work tree."""
    listed = git("diff", "--name-status", "--no-renames", commit, "--", *paths) or ""
    pairs = [line.split("\t", 1) for line in listed.splitlines()]
    return tuple(path for kind, path in pairs if kind != "M" or _differs(commit, path))


def _differs(commit: str, path: str) -> bool:
    if not path.endswith(".py"):
        return True
    before, now = git("show", f"{commit}:{path}") or "", (ROOT / path).read_text("utf-8")
    return code_of(before) != code_of(now)


def code_of(text: str) -> str:
    """Return a program without docstrings, comments and layout.

    >>> code_of("x = 1  # one") == code_of("'Text.'; x=1"), code_of("x = 1") == code_of("x = 2")
    (True, False)
    """
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [each for each in body if not _is_text(each)]  # type: ignore[attr-defined]
    return ast.dump(tree)


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
