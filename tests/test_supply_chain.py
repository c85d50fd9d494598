"""What is imported is declared, what is installed has a hash, what is bundled has an origin."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# Names under which packages are imported, where those are not their own.
PACKAGE_OF = {"yaml": "pyyaml"}


def declared() -> set[str]:
    extras = PROJECT["optional-dependencies"].values()
    rows = [*PROJECT["dependencies"], *(row for extra in extras for row in extra)]
    return {re.split(r"[\[<>=!~ ]", row)[0].lower().replace("-", "_") for row in rows}


def imported(folder: Path) -> dict[str, str]:
    """Return the packages that are imported at the top of a module, and by whom."""
    found = {}
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            found |= {name.partition(".")[0]: str(path.relative_to(ROOT)) for name in names}
    return found


def test_every_import_of_both_packages_is_declared():
    known = declared() | set(sys.stdlib_module_names) | {"llm_gym", "llm_gym_agents"}
    for folder in ("llm_gym", "agents/llm_gym_agents"):
        for name, path in imported(ROOT / folder).items():
            package = PACKAGE_OF.get(name, name).lower()
            assert package in known, f"{name}, imported by {path}"


def test_the_core_imports_only_what_it_depends_on():
    core = {re.split(r"[<>=!~ ]", row)[0] for row in PROJECT["dependencies"]}
    for name, path in imported(ROOT / "llm_gym").items():
        own = name in sys.stdlib_module_names or name in ("llm_gym", "llm_gym_agents")
        assert own or name in core, f"{name}, imported by {path}"


def locked() -> dict[str, tuple[str, str]]:
    text = (ROOT / "requirements.lock").read_text().replace("\\\n", " ")
    rows = [line for line in text.splitlines() if line and not line.startswith("#")]
    found = {}
    for row in rows:
        read = re.fullmatch(r"([a-z0-9._-]+)==(\S+)\s+--hash=sha256:([0-9a-f]{64})", row)
        assert read, row
        found[read[1].replace("_", "-")] = (read[2], read[3])
    return found


def test_every_locked_package_has_a_hash_and_the_version_of_the_constraints():
    found = locked()
    assert len(found) > 90
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        name, _, version = line.partition("==")
        if version and name != "torch" and name.replace("_", "-") in found:
            assert found[name.replace("_", "-")][0] == version, line


def test_every_direct_dependency_of_make_is_locked():
    wanted = set(PROJECT["dependencies"])
    for extra in ("train", "lora", "dev", "test", "mcp"):
        wanted |= set(PROJECT["optional-dependencies"][extra])
    names = {re.split(r"[\[<>=!~ ]", row)[0].lower().replace("_", "-") for row in wanted}
    assert names - {"torch", "llm-gym"} <= set(locked())


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
