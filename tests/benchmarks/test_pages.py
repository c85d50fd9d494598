"""Published numbers come from files: what ``make results-check`` finds, and what it lets pass."""

import json
import re
from fnmatch import fnmatch

import pytest

from benchmarks import pages
from benchmarks.lib import numbers
from benchmarks.lib.machine import ROOT


@pytest.fixture
def checker(monkeypatch, tmp_path):
    """The number check, with a result file of its own."""
    monkeypatch.setattr(numbers, "RESULTS", tmp_path)
    measured = {"rows": [{"seconds": 1.2374, "success": 0.1249}, {"seconds": 80.0}], "gib": 15.606}
    (tmp_path / "speed.json").write_text(json.dumps(measured))
    return numbers


def test_every_table_and_number_matches_its_result_file():
    assert pages.wrong() == []


def test_every_marker_of_a_page_belongs_to_a_table():
    named = {
        name for page in pages.PAGES for name in re.findall(r"<!-- /([\w-]+) -->", page.read_text())
    }
    others = {"NAME", "ages", pages.PLATFORMS}  # an example, and what is written elsewhere
    assert named - others <= pages.TABLES.keys()


@pytest.mark.parametrize(
    "claim",
    [
        "It reaches 93 % of games.",
        "An update takes 1.2 to 1.3 CPU seconds.",
        "It is 3.5x as fast, and 6 times faster than the other.",
        "Playing gives 4,600 tokens/s.",
        "| size | peak |\n| --- | ---: |\n| 7B | 129.6 |",
        "| size | steps |\n| --- | ---: |\n| 7B | 129 |",
        "The score rises from .88 to 1.",
        "It wins 27 of 30 games, and **97** % of the others.",
        "It is Three times as fast, and ten times quicker; an update takes two seconds.",
        "It is twice as fast.",
    ],
)
def test_a_number_without_a_result_file_is_found(checker, claim):
    (sentence,) = checker.check("docs/page.md", f"# Title\n\n{claim}\n")
    assert sentence.startswith("docs/page.md:3: ")


def test_a_whole_number_on_a_page_of_results_is_found(checker):
    text = "Model 2 beats 512 others in 200 lines, with its 95 % interval."
    (sentence,) = checker.check("README.md", text)
    assert "has 512;" in sentence
    assert checker.check("docs/page.md", text) == []


def test_tables_of_readme_come_from_the_file_whose_age_is_checked():
    text = (ROOT / "README.md").read_text()
    assert re.findall(r"<!-- /([\w-]+) -->", text) == ["summary"]


@pytest.mark.parametrize(
    "text",
    [
        "A board of 4x4 or 4×4, 92k parameters, TRL 1.16, and 3 seeds.",
        "```text\nsuccess 37.5% in 12 s\n```",
        "Code says `timeout=5 s`; see [the file](a/12%/b.md).",
        "With its 95 % interval.",
        "<!-- settings: a limit -->\n\nIt waits at most 30 s.",
    ],
)
def test_numbers_that_are_no_measurements_pass(checker, text):
    assert checker.check("docs/page.md", text) == []


def test_a_reference_is_compared_at_the_precision_that_is_printed(checker):
    note = "<!-- results: speed.json rows.0.seconds, rows.0.success, gib -->"
    good = f"{note}\nIn 1.24 s it reaches 12.5 % with 15.6 GiB."
    assert checker.check("p", good) == []
    wrong = checker.check("p", good.replace("1.24", "1.237").replace("15.6", "15.60"))
    assert ["gib is 15.606" in wrong[0], "has 15.60 GiB;" in wrong[1]] == [True, True]
    wrong = checker.check("p", good.replace("12.5", "12.4"))
    assert ["rows.0.success is 0.1249" in wrong[0], "12.4 %" in wrong[1]] == [True, True]


def test_a_reference_to_a_whole_file_allows_any_of_its_numbers(checker):
    note = "<!-- results: speed.json -->"
    assert checker.check("p", f"{note}\n\n| a | 1.24 |\n| b | 80.0 |\n") == []
    (wrong,) = checker.check("p", f"{note}\n\n| a | 1.24 |\n| b | 81.0 |\n")
    assert "has 81.0;" in wrong


@pytest.mark.parametrize(
    "note", ["no.json gib", "../speed.json gib", "speed.json rows.7.seconds", "speed.json rows"]
)
def test_a_reference_to_a_missing_file_or_row_is_found(checker, note):
    (checker.RESULTS.parent / "speed.json").write_text('{"gib": 80.0}')
    wrong = checker.check("p", f"<!-- results: {note} -->\nIt takes 80 s.")
    assert f"'{note}'" in wrong[0]


def test_the_guide_names_scripts_that_exist_and_every_result_file():
    folder = ROOT / "benchmarks"
    guide = [line for line in (folder / "README.md").read_text().splitlines() if "|" in line]
    named = {name for line in guide for name in re.findall(r"`([^`]+)`", line)}
    scripts = {name for line in guide for name in re.findall(r"`([\w/]+\.py)`", line)}
    assert [name for name in scripts if not (folder / name).exists()] == []
    files = [path.name for path in (folder / "results").rglob("*.json")]
    assert [name for name in files if not any(fnmatch(name, each) for each in named)] == []
