"""Every benchmark can be asked what it does, where what it measures is not installed."""

import ast
import importlib.util
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
SCRIPTS = [path for path in sorted(FOLDER.glob("*.py")) if "__main__" in path.read_text()]
PEERS = ("ray", "playwright", "vllm", "sglang", "trl", "verl", "agilerl", "textarena", "gem")


def imported_at_once(path):
    """Return the first names of what the top of a script imports, outside of any ``try``."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module.split(".")[0]


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_help_is_there_and_needs_no_peer(path):
    assert "parse_args(" in path.read_text(), "it would measure when asked for --help"
    names = set(imported_at_once(path))
    assert not names & set(PEERS)
    beside = {each.stem for each in FOLDER.iterdir()} | {"tests", "benchmarks"}
    others = names - beside - set(sys.stdlib_module_names)
    assert [name for name in sorted(others) if importlib.util.find_spec(name) is None] == []
