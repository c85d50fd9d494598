"""Every printed remedy can be typed: it names this installation and a real extra."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from llm_gym.errors import install_command

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def named_in_source():
    """Extras that the source tells a user to install."""
    import ast

    for folder in ("llm_gym", "agents"):
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "install_command":
                    for argument in node.args:
                        if isinstance(argument, ast.Constant):
                            yield argument.value


@pytest.mark.parametrize("extra", sorted({*named_in_source()}))
def test_every_extra_that_a_hint_names_exists(extra):
    assert extra in EXTRAS


def test_no_hint_is_written_by_hand():
    for folder in ("llm_gym", "agents"):
        for path in (ROOT / folder).rglob("*.py"):
            if path.name != "errors.py":
                assert 'pip install "llm-gym[' not in path.read_text(), path


@pytest.mark.slow
@pytest.mark.parametrize("extra", sorted({*named_in_source()} & {"train", "serve", "mcp"}))
def test_the_command_runs_as_printed(extra):
    arguments = install_command(extra).replace('"', "").split()[1:]
    command = [sys.executable, "-m", "pip", *arguments, "--dry-run", "--no-deps", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert "does not provide the extra" not in done.stderr


@pytest.mark.parametrize(
    ("record", "command"),
    [
        (None, 'pip install "llm-gym[train]"'),
        ('{"url": "file:///a%20b", "dir_info": {}}', 'pip install "/a b[train]"'),
        (
            '{"url": "file:///c", "dir_info": {"editable": true}}',
            'pip install --editable "/c[train]"',
        ),
        (
            '{"url": "https://host/llm_gym.whl", "archive_info": {}}',
            'pip install "llm-gym[train] @ https://host/llm_gym.whl"',
        ),
    ],
)
def test_the_command_follows_where_the_package_came_from(record, command, monkeypatch):
    class Installed:
        def read_text(self, name):
            return record

    monkeypatch.setattr("importlib.metadata.distribution", lambda name: Installed())
    assert install_command.__wrapped__("train") == command
