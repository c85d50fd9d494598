"""The bridges are registered and listed, and name a missing package in one sentence."""

import re

import gymnasium as gym
import pytest

from llm_gym.cli import main
from llm_gym.core.errors import install_command
from llm_gym.registry.suite import BRIDGES, ENVS, installed
from llm_gym.wrappers.as_text import split_settings
from tests.bridges.each import ROWS, each_bridge
from tests.processes import ROOT, run_python

pytestmark = pytest.mark.filterwarnings("ignore")
MISSING = """
import sys
for package, _ in {rows!r}:
    sys.modules[package] = None
import gymnasium as gym, llm_gym
for _, env_id in {rows!r}:
    try:
        gym.make(env_id)
    except Exception as error:
        print(type(error).__name__, error)
"""


def test_a_missing_package_is_named_and_no_bridge_is_in_the_suite():
    done = run_python(MISSING.format(rows=[(row.package, row.id) for row in BRIDGES]))
    for row, line in zip(BRIDGES, done.stdout.splitlines(), strict=True):
        suite = row.package.partition(".")[0]
        assert line.startswith(f"ConfigError this bridge needs {suite}"), done.stderr
        assert install_command(row.extra) in line
    assert {row.id for row in BRIDGES} <= gym.registry.keys()
    assert not {row.id for row in BRIDGES} & {row.id for row in ENVS}


def test_list_shows_the_package_or_setting_that_a_bridge_needs(capsys):
    assert main(["list", "Echo"]) == 0
    assert "bridges" not in capsys.readouterr().out
    assert main(["list", "TextArena"]) == 0
    out = capsys.readouterr().out
    assert "llm_gym/TextArena-v0" in out
    assert (install_command("textarena") in out) != ("--set env_id=TicTacToe-v0" in out)


@each_bridge
def test_rules_system_reaches_only_bridges_with_rules(bridge):
    given = {"rules": "system", "action_format": "tag", "max_turns": 3, "seat": 1}
    own, words = split_settings(ROWS[bridge].id, given)
    if bridge == "PettingZoo":  # in words, so it has rules
        assert (own, words) == (given, {})
    else:
        assert words == {"rules": "system"}
        assert own == {name: given[name] for name in given if name != "rules"}


PAGE = (ROOT / "docs" / "other_libraries.md").read_text()
SHOWN = re.compile(r"^```py\n(.*?)^```\n\n```text\n(.*?)^```", re.M | re.S)
SECTIONS = {part.partition("\n")[0]: part for part in re.split(r"^##+ ", PAGE, flags=re.M)[1:]}
WITH_CODE = [title for title, part in SECTIONS.items() if SHOWN.search(part)]


@pytest.mark.parametrize("title", WITH_CODE)
def test_a_section_prints_what_it_shows(title, capsys):
    part = SECTIONS[title]
    row = next(row for row in BRIDGES if row.id in part)
    if not installed(row):
        pytest.skip(f"{row.package} is not installed")
    blocks = SHOWN.findall(part)
    assert blocks
    for block, shown in blocks:
        exec(compile(f"import gymnasium as gym\nimport llm_gym\n{block}", title, "exec"), {})
        assert capsys.readouterr().out.strip() == shown.strip()


def test_every_bridge_has_a_section_and_an_extra():
    extras = (ROOT / "pyproject.toml").read_text()
    together = re.search(r"^bridges = \[(.*?)^\]", extras, re.M | re.S)[1]
    for row in BRIDGES:
        assert row.id in PAGE
        assert install_command(row.extra) in PAGE or row.extra in PAGE
        assert re.search(rf"^{row.extra} = \[", extras, re.M)
        assert row.extra in together
