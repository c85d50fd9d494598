"""Documentation runs: every Python block of every page, as printed."""

import re
from pathlib import Path

import pytest

import llm_gym

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = [
    pytest.param(page, block, id=f"{page.name}-{at}")
    for page in PAGES
    for at, block in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S))
]


@pytest.mark.parametrize(("page", "block"), BLOCKS)
def test_block_runs_as_printed(page, block, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, str(page), "exec"), {"__name__": "__docs__"})


def test_the_readme_has_blocks_that_show_their_result():
    assert any(page == ROOT / "README.md" for page, _ in (case.values for case in BLOCKS))


def test_the_changelog_tops_out_at_this_version():
    versions = re.findall(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert "## Unreleased" in (ROOT / "CHANGELOG.md").read_text()
    assert not versions or versions[0] == llm_gym.__version__


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_files_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target
