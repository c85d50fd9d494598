"""Documentation runs: every Python block of every page, as printed."""

import json
import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest
import yaml

import llm_gym
from docs import draw_architecture
from llm_gym import cli
from llm_gym.as_text.phrasebooks import book
from llm_gym_agents.config import ConfigStore

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
GUIDES = [ROOT / name / "README.md" for name in ("agents", "benchmarks", "tests")]
WRITTEN = [*PAGES, *GUIDES, ROOT / "SECURITY.md"]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
CODE = re.compile(r"^```bash\n(.*?)^```|`([^`\n]+)`", re.M | re.S)
SHOWN = re.compile(r"^```python\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", re.M | re.S)
"""A block, and what it prints where the page shows that right below."""
ELSEWHERE = ("bridges.md",)  # needs other packages: ``make test-bridges`` runs it
RUNNABLE = [p for p in PAGES if BLOCK.search(p.read_text()) and p.name not in ELSEWHERE]


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_blocks_of_a_page_run_as_printed_and_show_their_results(
    page, monkeypatch, tmp_path, capsys
):
    if page.name == "scale.md":
        pytest.importorskip("ray")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(book, "_BOOKS", dict(book._BOOKS))  # a page registers one
    names = {"__name__": "__docs__"}
    for at, (block, shown) in enumerate(SHOWN.findall(page.read_text())):
        exec(compile(block, f"{page.name} block {at}", "exec"), names)
        if "print(" in block:
            printed = capsys.readouterr().out.strip()
            assert printed, f"block {at} shows nothing"
            assert not shown or printed == shown.strip(), f"block {at} prints something else"


def test_a_page_shows_what_its_blocks_print():
    shown = [text for _, text in SHOWN.findall((ROOT / "docs/architecture.md").read_text())]
    assert len(shown) > 5
    assert all(shown)


def test_the_readme_shows_code_that_runs():
    assert ROOT / "README.md" in RUNNABLE


def test_the_changelog_tops_out_at_this_version():
    versions = re.findall(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert "## Unreleased" in (ROOT / "CHANGELOG.md").read_text()
    assert not versions or versions[0] == llm_gym.__version__


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_files_lead_somewhere(page):
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_the_picture_of_the_architecture_shows_the_imports_of_the_code():
    drawn = json.loads((ROOT / "docs" / "images" / "architecture.json").read_text())
    assert drawn == draw_architecture.derive(), "run: python docs/draw_architecture.py"


def test_the_picture_finds_lazy_imports_and_those_for_types_and_leaves_out_none_but_errors():
    found = draw_architecture.arrows("llm_gym_agents")
    assert ("rollouts", "engines") in found  # LLMPolicy.from_pretrained, inside a function
    assert ("trainer", "learn") in found
    assert ("llm_gym", "text") not in found
    assert not any("errors" in arrow or arrow[0] == arrow[1] for arrow in found)


@pytest.mark.parametrize("package", draw_architecture.HOMES)
def test_every_arrow_of_the_picture_points_up(package):
    order = list(draw_architecture.rooms(package))
    found = draw_architecture.arrows(package)
    back = [f"{a} imports {b}" for a, b in found if order.index(a) < order.index(b)]
    assert back == [], "rooms import each other in a circle"


def test_the_first_screen_has_a_short_loop_and_the_two_commands():
    screen = (ROOT / "README.md").read_text().split("\n## ")[0]
    assert "pip install" in screen
    assert "make test" in screen
    assert "make demo" in screen
    assert "docs/images/demo.png" in screen
    loop = BLOCK.search(screen)[1]
    assert len([line for line in loop.splitlines() if line and "import" not in line]) <= 8
    assert len(screen.splitlines()) <= 60


def test_the_commands_of_the_first_screen_are_targets():
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
    named = re.findall(r"`?make ([a-z-]+)", (ROOT / "README.md").read_text())
    assert {"test", "demo"} <= set(named) <= set(targets)


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_targets_that_a_page_names_exist(page):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    added = project["entry-points"]["llm_gym.commands"]
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
    code = "\n".join("".join(found) for found in CODE.findall(page.read_text()))
    named = set(re.findall(r"(?<![\w/.-])llm-gym ([a-z][a-z-]*)", code))
    assert named <= {*added, *cli._BUILT_IN}
    made = {
        word
        for line in re.findall(r"(?<![\w-])make ((?:[a-z-]+ ?)+)", code)
        for word in line.split()
    }
    assert made <= set(targets)


def test_what_a_public_project_has_is_there_and_says_what_the_code_says():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["version"] == llm_gym.__version__
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    assert ".ci/run" in [step.get("run") for step in workflow["jobs"]["all"]["steps"]]
    forms = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))
    asked = [yaml.safe_load(form.read_text()) for form in forms if form.stem != "config"]
    assert asked
    assert all(form["name"] and form["description"] and form["body"] for form in asked)


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


@pytest.mark.parametrize("package", ["llm_gym", "llm_gym_agents"])
def test_the_reference_has_every_public_name(package):
    pytest.importorskip("mkdocs")
    from docs import site_hooks

    pages = site_hooks.reference()
    nav = (ROOT / "mkdocs.yml").read_text()
    assert all(f"reference/{page}.md" in nav for page in pages)
    text = "\n".join(pages.values())
    for name in import_module(package).__all__:
        assert f"::: {site_hooks.home_of(package, name)}\n" in text


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: str(page.relative_to(ROOT)))
def test_settings_that_a_page_names_exist(page):
    known = ConfigStore().model_dump()
    code = "\n".join("".join(found) for found in CODE.findall(page.read_text()))
    named = re.findall(rf"(?<![\w./-])(?:--)?({'|'.join(known)})\.([a-z][\w-]*)(?![\w/(-])", code)
    assert [
        f"{section}.{name}"
        for section, name in named
        if name.replace("-", "_") not in known[section]
    ] == []
