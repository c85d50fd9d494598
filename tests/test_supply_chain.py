"""What is imported is declared, what is installed has a hash, what is bundled has an origin."""

import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.test_imports import imports

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Names under which packages are imported, where those are not their own.
PACKAGE_OF = {"yaml": "pyyaml", "pydantic_core": "pydantic"}
# Packages of extras that modules of the core import late.
LATE = {"starlette": ("llm_gym/server/app.py", "llm_gym/server/openenv.py")}


def declared() -> set[str]:
    extras = PROJECT["optional-dependencies"].values()
    rows = [*PROJECT["dependencies"], *(row for extra in extras for row in extra)]
    return {re.split(r"[\[<>=!~ ]", row)[0].lower().replace("-", "_") for row in rows}


@cache
def imported(folder: Path) -> set[tuple[str, str]]:
    """Return the packages that are imported, and by whom."""
    paths = folder.rglob("*.py")
    return {(name, str(path.relative_to(ROOT))) for path in paths for name in imports(path)}


def test_every_import_of_both_packages_is_declared():
    known = declared() | set(sys.stdlib_module_names) | {"llm_gym", "llm_gym_agents"}
    for folder in ("llm_gym", "agents/llm_gym_agents"):
        for name, path in imported(ROOT / folder):
            package = PACKAGE_OF.get(name, name).lower()
            assert package in known, f"{name}, imported by {path}"


def test_the_core_imports_only_what_it_depends_on():
    core = {re.split(r"[<>=!~ ]", row)[0] for row in PROJECT["dependencies"]}
    for name, path in imported(ROOT / "llm_gym"):
        own = name in sys.stdlib_module_names or name in ("llm_gym", "llm_gym_agents")
        assert own or name in core or path in LATE.get(name, ()), f"{name}, imported by {path}"


def locked(name: str) -> dict[str, set[str]]:
    """Return the versions of every package in a lock; each must have a hash."""
    text = (ROOT / "locks" / f"{name}.txt").read_text().replace("\\\n", " ")
    found: dict[str, set[str]] = {}
    for row in text.splitlines():
        if row and not row.startswith("#"):
            read = re.match(r"([a-z0-9._-]+)==(\S+).*--hash=sha256:[0-9a-f]{64}", row)
            assert read, row
            found.setdefault(read[1].replace("_", "-"), set()).add(read[2])
    return found


def extras_of(*names: str) -> set[str]:
    """Return what extras need directly, extras of ours within them included."""
    wanted = set(PROJECT["dependencies"])
    for name in names:
        for row in PROJECT["optional-dependencies"][name]:
            inner = re.fullmatch(r"llm-gym\[(.*)\]", row)
            wanted |= extras_of(*inner[1].split(",")) if inner else {row}
    return {re.split(r"[\[<>=!~; ]", row)[0].lower().replace("_", "-") for row in wanted}


@pytest.mark.parametrize(
    ("lock", "extras"), [("train", ["train"]), ("dev", ["train", "lora", "dev"])]
)
def test_a_lock_has_every_direct_dependency_with_a_hash_and_the_version_of_the_constraints(
    lock, extras
):
    found = locked(lock)
    assert extras_of(*extras) - {"torch"} <= set(found)
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        name, _, version = line.partition("==")
        if version and name.replace("_", "-") in found:
            assert found[name.replace("_", "-")] == {version}, line


def test_the_demo_installs_nothing_that_only_tests_need():
    assert not {"pytest", "mypy", "ruff", "box2d", "minigrid"} & set(locked("train"))


CODE = (".py", "py.typed", ".md", ".js", ".css", ".html")


def test_every_bundled_file_of_data_has_its_origin_and_licence():
    page = (ROOT / "docs/architecture.md").read_text()
    listed = subprocess.run(
        ["git", "ls-files", "llm_gym", "agents"], cwd=ROOT, capture_output=True, text=True
    ).stdout.split()
    data = [name for name in listed if not name.endswith(CODE)]
    if listed:
        assert data
    for name in data:
        assert f"`{name}`" in page, name
