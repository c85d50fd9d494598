"""Documentation runs: every Python block of every page, as printed."""

import ast
import json
import re
import tomllib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

import llm_gym
from docs import draw_architecture, draw_gallery
from llm_gym import cli
from llm_gym.registry.suite import ENVS
from llm_gym.wrappers.as_text.phrasebooks import book
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.run.metrics import read_metrics

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
GUIDES = [ROOT / name / "README.md" for name in ("agents", "benchmarks", "tests")]
WRITTEN = [*PAGES, *GUIDES, *(ROOT / name for name in ("SECURITY.md", "AGENTS.md", "llms.txt"))]
NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))
BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
CODE = re.compile(r"^```bash\n(.*?)^```|`([^`\n]+)`", re.M | re.S)
SHOWN = re.compile(r"^```python\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", re.M | re.S)
"""A block, and what it prints where the page shows that right below."""
TARGETS = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
RUNNABLE = [page for page in PAGES if BLOCK.search(page.read_text())]


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_blocks_of_a_page_run_as_printed_and_show_their_results(
    page, monkeypatch, tmp_path, capsys
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT / "docs/examples")
    monkeypatch.setattr(book, "_BOOKS", dict(book._BOOKS))  # a page registers one
    names = {"__name__": "__docs__"}
    for at, (block, shown) in enumerate(SHOWN.findall(page.read_text())):
        exec(compile(block, f"{page.name} block {at}", "exec"), names)
        if "print(" in block:
            printed = capsys.readouterr().out.strip()
            assert printed, f"block {at} shows nothing"
            assert not shown or printed == shown.strip(), f"block {at} prints something else"


def run_notebook(page, more=""):
    """Run the cells of a notebook; a command gets ``more`` settings."""
    names = {"__name__": "__notebook__"}
    for cell in json.loads(page.read_text())["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            code = "".join(cell["source"]).replace("*settings", f"*settings{more}")
            exec(compile(code, page.name, "exec"), names)


@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_the_cells_of_a_notebook_run_and_none_keeps_its_output(page, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    run_notebook(page, more=', "--smoke"')
    assert capsys.readouterr().out


@pytest.mark.slow
def test_the_model_of_the_notebook_learns_its_game(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    run_notebook(ROOT / "docs/notebooks/train.ipynb")
    rows = read_metrics("runs/notebook")
    assert rows[0]["episode/success"] < 0.2
    assert rows[-1]["eval/success"] > 0.7


def test_the_newest_version_of_the_changelog_is_this_one():
    versions = re.findall(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert "## Unreleased" in (ROOT / "CHANGELOG.md").read_text()
    assert not versions or versions[0] == llm_gym.__version__


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_commands_targets_and_settings_that_a_page_names_exist(page):
    text = page.read_text()
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", text)
    assert [link for link in links if not (page.parent / link).exists()] == []
    code = "\n".join("".join(found) for found in CODE.findall(text))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    commands = set(re.findall(r"(?<![\w/.-])llm-gym ([a-z][a-z-]*)", code))
    assert commands <= {*project["entry-points"]["llm_gym.commands"], *cli._BUILT_IN}
    made = " ".join(re.findall(r"(?<![\w-])make ((?:[a-z-]+ ?)+)", code)).split()
    assert set(made) <= set(TARGETS)
    modules = re.findall(r"python -m (benchmarks[\w.]*|llm_gym[\w.]*)", code)
    assert [each for each in modules if find_spec(each) is None] == []
    known = ConfigStore().model_dump()
    named = re.findall(rf"(?<![\w./-])(?:--)?({'|'.join(known)})\.([a-z][\w-]*)(?![\w/(-])", code)
    assert [n for section, n in named if n.replace("-", "_") not in known[section]] == []


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_sections_lead_to_a_heading(page):
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#([^)]+)\)", page.read_text()):
        text = ((page.parent / target) if target else page).read_text()
        headings = re.findall(r"^#+ (.*)", text, re.M)
        slugs = [re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings]
        assert anchor in slugs, f"{target}#{anchor}"


def test_the_picture_of_the_architecture_shows_the_imports_of_the_code():
    drawn = json.loads((ROOT / "docs" / "images" / "architecture.json").read_text())
    assert drawn == draw_architecture.derive(), "run: python docs/draw_architecture.py"
    assert ["rollouts", "engines"] in drawn["llm_gym_agents"]["arrows"]  # inside a function


def test_the_readme_is_short_and_begins_with_a_loop_and_the_two_commands():
    text = (ROOT / "README.md").read_text()
    screen = text.split("\n## ")[0]
    assert len(text.splitlines()) <= 150
    assert len(screen.splitlines()) <= 60
    for wanted in ("pip install", "make test", "make demo", "docs/images/demo.png"):
        assert wanted in screen
    loop = BLOCK.search(screen)[1]
    assert len([line for line in loop.splitlines() if line and "import" not in line]) <= 8


def test_citation_workflow_and_issue_forms_are_valid():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["version"] == llm_gym.__version__
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    assert ".ci/run" in [step.get("run") for step in workflow["jobs"]["all"]["steps"]]
    forms = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))
    templates = [yaml.safe_load(form.read_text()) for form in forms if form.stem != "config"]
    assert templates
    assert all(form["name"] and form["description"] and form["body"] for form in templates)


def test_the_hooks_before_a_commit_run_what_make_runs():
    made = (ROOT / "Makefile").read_text().replace("$(BIN)", ".venv/bin")
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    entries = {hook["id"]: hook["entry"].split() for hook in hooks}
    for name in ("ruff-format", "ruff-check", "mypy"):
        assert " ".join(entries[name][:2]).removesuffix(" .") in made
    for words in (words for words in entries.values() if words[0].endswith("python")):
        module = f"{words[2].replace('.', '/')}.py"
        assert (ROOT / (module if words[1] == "-m" else words[1])).exists()


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "README.md").read_text()
    pages = [page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if f"({page})" not in index] == ["README.md"]


def test_the_reference_has_every_public_name_and_every_name_that_the_pages_import():
    pytest.importorskip("mkdocs")
    from docs import site_hooks

    pages = site_hooks.reference()
    nav = (ROOT / "mkdocs.yml").read_text()
    assert all(f"reference/{page}.md" in nav for page in pages)
    text = "\n".join(pages.values())
    packages = ("llm_gym", "llm_gym_agents")
    public = {(package, name) for package in packages for name in import_module(package).__all__}
    imported = {
        (node.module, alias.name)
        for page in PAGES
        for block in re.findall(r"```py\w*\n(.*?)```", page.read_text(), re.DOTALL)
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("llm_gym")
        for alias in node.names
    }
    assert len(imported) > 30
    homes = {site_hooks.home_of(*name) for name in public | imported}
    assert [home for home in homes if f"::: {home}\n" not in text] == []


def test_the_gallery_has_a_picture_of_every_family_with_the_cells_of_its_board():
    page, pictures = draw_gallery.gallery()
    families = {row.entry_point for row in ENVS}
    assert len(pictures) == len(families) == page.count("\n![")
    assert all(f"]({path})" in page for path in pictures)
    tiles = {
        path: len(ElementTree.fromstring(picture).findall("{*}rect")) - 1
        for path, picture in pictures.items()
    }
    expected = {"Maze": 11 * 11, "Sudoku": 81, "Game2048": 16, "TicTacToe": 9, "Echo": 0}
    assert {name: tiles[f"gallery/{name}-v0.svg"] for name in expected} == expected
