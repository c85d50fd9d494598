"""Documentation runs: every Python block of every page, as printed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import llm_gym
from llm_gym.as_text.phrasebooks import registry

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
RUNNABLE = [page for page in PAGES if BLOCK.search(page.read_text())]


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: page.name)
def test_the_blocks_of_a_page_run_as_printed_and_show_their_results(
    page, monkeypatch, tmp_path, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_BOOKS", dict(registry._BOOKS))  # a page registers one
    names = {"__name__": "__docs__"}
    for at, block in enumerate(BLOCK.findall(page.read_text())):
        exec(compile(block, f"{page.name} block {at}", "exec"), names)
        if "print(" in block:
            assert capsys.readouterr().out.strip(), f"block {at} shows nothing"


def test_the_readme_shows_code_that_runs():
    assert ROOT / "README.md" in RUNNABLE


def test_the_changelog_tops_out_at_this_version():
    versions = re.findall(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert "## Unreleased" in (ROOT / "CHANGELOG.md").read_text()
    assert not versions or versions[0] == llm_gym.__version__


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_to_files_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_tables_of_the_readme_are_those_of_the_result_files():
    script = ROOT / "benchmarks" / "readme.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
