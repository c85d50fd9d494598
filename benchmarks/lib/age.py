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
ASKED: dict[str, Any] = {"command": str, "commit": str, "machine": dict | str}
FIELDS = {**ASKED, "machine": dict, "uncommitted_changes": bool, "date": str}
FIELDS |= {"seeds": list, "depends_on": list}
MACHINE: dict[str, Any] = {"system": str, "cpu": str, "cpus": int, "gpu": str | None}
MACHINE |= {"python": str, "packages": dict}
"""Field → its type; only ``packages`` may be empty."""
SHOWN = 3
"""Changed files that are named."""
_RESULT = re.compile(r"<!-- results:\s+(\S+)")
_ON_GPU = re.compile(r"_(gpu|h200|model)\.json|vllm_start")
_COMMIT = re.compile(r"[0-9a-f]{7,40}")


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
    """Yield every part of a result that has or needs a commit; rows may have their own."""
    if isinstance(found, dict) and ("commit" in found or _is_whole(found)):
        yield found
    for each in found.values() if isinstance(found, dict) else found:
        if isinstance(each, dict | list):
            yield from sources(each)


def _is_whole(part: dict[str, Any]) -> bool:
    """Whether a part says more of its origin than a commit, so that it must say everything."""
    return len(part.keys() & FIELDS.keys()) > 1


def problems(name: str, result: Any) -> list[str]:
    """Return a sentence for each field without a value, and each commit and path unknown to git."""
    found = list(sources(result))
    whole = [each for each in found if _is_whole(each)]
    if not whole:
        return [f"{name} has no commit and machine; write it with provenance()"]
    one_off = name.startswith(f"{ONE_OFF}/")
    wrong = []
    for each in whole:
        missing = _missing(each, ASKED if one_off else FIELDS)
        if not one_off and isinstance(each.get("machine"), dict):
            kinds = MACHINE | ({"gpu": str} if _ON_GPU.search(name) else {})
            missing += [f"machine.{key}" for key in _missing(each["machine"], kinds)]
        wrong += [f"{name} lacks {field}" for field in missing]
    if history() == "whole":
        commits = dict.fromkeys(str(each["commit"]) for each in found if "commit" in each)
        unknown = [f"commit {commit}" for commit in commits if not is_ancestor(commit)]
        paths = dict.fromkeys(path for each in whole for path in each.get("depends_on") or ())
        unknown += [path for path in paths if not one_off and not is_tracked(path)]
        wrong += [f"{name}: {each} is not in this repository" for each in unknown]
    return wrong


def _missing(part: dict[str, Any], kinds: dict[str, Any]) -> list[str]:
    return [
        field
        for field, kind in kinds.items()
        if not isinstance(part.get(field, ...), kind) or part[field] in ("", [])
    ]


def ages(result: Any) -> list[Age]:
    """Return the age of each commit of a result that names what it depends on."""
    first = next((each["depends_on"] for each in sources(result) if "depends_on" in each), None)
    if first is None or history() != "whole":
        return []
    found = []
    for each in sources(result):
        if is_ancestor(str(each.get("commit"))):
            commit, paths = each["commit"][:7], tuple(each.get("depends_on") or first)
            dirty = bool(each.get("uncommitted_changes"))
            found.append(Age(commit, commits_since(commit), changed_code(commit, paths), dirty))
    return list(dict.fromkeys(found))


def headlines(readme: str) -> set[str]:
    """Return the result files that README's numbers come from."""
    return {"demo.json", *_RESULT.findall(readme)}


def stale_headlines(readme: str) -> list[str]:
    """Return a sentence for each headline of README that is not of today's code."""
    wrong, results = [], dict(result_files())
    for name in sorted(headlines(readme)) if history() == "whole" else ():
        if not (known := ages(results.get(name, {}))):
            wrong.append(f"README shows {name}, which does not say what it depends on")
        for age in known:
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
    """Whether this is a hash of a commit before today's; a name such as HEAD moves."""
    known = _COMMIT.fullmatch(commit)
    return known is not None and git("merge-base", "--is-ancestor", commit, "HEAD") is not None


@functools.cache
def is_tracked(path: str) -> bool:
    return bool(git("--literal-pathspecs", "ls-files", "--", path))


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
