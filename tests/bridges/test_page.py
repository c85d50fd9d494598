"""The page about the bridges runs as printed, where the suites are: ``make test-bridges``."""

import re
from pathlib import Path

import pytest

from llm_gym.registry.bridges import BRIDGES, install_line, installed

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "bridges.md").read_text()
SHOWN = re.compile(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", re.M | re.S)
SECTIONS = {part.partition("\n")[0]: part for part in re.split(r"^## ", PAGE, flags=re.M)[1:]}
WITH_CODE = [title for title, part in SECTIONS.items() if "```python" in part]
pytestmark = pytest.mark.filterwarnings("ignore")


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
        assert install_line(row.package) in PAGE or row.extra in PAGE
        assert re.search(rf"^{row.extra} = \[", extras, re.M)
        assert row.extra in together
