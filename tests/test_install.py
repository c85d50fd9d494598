"""Every printed install command names this installation and an existing extra."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from llm_gym.core.errors import install_command

ROOT = Path(__file__).parents[1]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def source():
    """Return the text of every module, by path."""
    return {p: p.read_text() for f in ("llm_gym", "agents") for p in (ROOT / f).rglob("*.py")}


def test_every_extra_in_an_install_hint_exists():
    text = "".join(source().values())
    named = set(re.findall(r"install_command\(['\"]([\w-]+)", text))
    for package, extra in re.findall(
        r'require_package\(\s*"?(\w+)"?, [^()]*?(?:, "(\w+)")?\)', text
    ):
        named.add(extra or package)
    named -= {"backend", "name", "served", "package"}  # variables: names of engines and trackers
    assert {"train", "serve", "mcp", "lora", "gpu"} <= named <= {*EXTRAS}


def test_every_install_hint_uses_install_command():
    for path, text in source().items():
        assert path.name == "errors.py" or 'pip install "llm-gym[' not in text, path


@pytest.mark.slow
@pytest.mark.parametrize("extra", ["train", "serve", "mcp"])
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
