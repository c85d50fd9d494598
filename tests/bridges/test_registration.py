"""The bridges are registered and listed, and say in one sentence what is missing."""

import subprocess
import sys

import gymnasium as gym
import pytest

import llm_gym  # noqa: F401 - registers the ids
from llm_gym.cli import main
from llm_gym.errors import install_command
from llm_gym.registry.bridges import BRIDGES, install_line
from llm_gym.registry.suite import ENVS

MISSING = """
import sys
sys.modules[{package!r}] = None
import gymnasium as gym, llm_gym
try:
    gym.make({env_id!r})
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize("row", BRIDGES, ids=lambda row: row.extra)
def test_a_missing_package_is_one_sentence_with_the_line_to_run(row):
    suite = row.package.partition(".")[0]
    code = MISSING.format(package=row.package, env_id=row.id)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.startswith(f"ConfigError this bridge needs {suite}"), done.stderr
    assert install_line(row.package) in done.stdout
    assert done.stdout.count("\n") == 1


def test_the_bridges_are_registered_and_no_part_of_the_suite():
    assert {row.id for row in BRIDGES} <= gym.registry.keys()
    assert not {row.id for row in BRIDGES} & {row.id for row in ENVS}


def test_the_list_says_what_each_needs(capsys):
    assert main(["list", "Echo"]) == 0
    assert "bridges" not in capsys.readouterr().out
    assert main(["list", "TextArena"]) == 0
    out = capsys.readouterr().out
    assert "llm_gym/TextArena-v0" in out
    assert (install_command("textarena") in out) != ("--set env_id=TicTacToe-v0" in out)
