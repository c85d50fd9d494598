"""Results name their command, commit and machine, and the code that has changed since."""

import json
import subprocess

import pytest

from benchmarks.lib import age, machine
from benchmarks.lib.machine import provenance


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with a game, and a result that was measured at its only commit."""
    monkeypatch.setattr(machine, "ROOT", tmp_path)
    monkeypatch.setattr(age, "ROOT", tmp_path)
    forget()
    (tmp_path / "game").mkdir()
    (tmp_path / "game" / "move.py").write_text('"""One."""\nPENALTY = 1  # each\n')
    (tmp_path / "other.py").write_text("X = 1\n")
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b.example")
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*git, *command], cwd=tmp_path, check=True)
    yield tmp_path
    forget()


def forget():
    for cached in (age.history, age.is_ancestor, age.commits_since, age.changed_code):
        cached.cache_clear()


def result(repository, **changes):
    head = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=repository, text=True)
    found = {
        "command": "python -m x",
        "commit": head.strip(),
        "uncommitted_changes": False,
        "date": "2026-11-18",
        "seeds": [0],
        "depends_on": ["game"],
        "machine": dict.fromkeys(age.MACHINE, "known"),
    }
    return found | changes


def write(repository, name, content):
    (repository / name).write_text(content)
    age.changed_code.cache_clear()


def test_a_complete_result_of_this_commit_has_no_problem(repository):
    assert age.problems("a.json", result(repository)) == []
    assert [each.changed for each in age.ages(result(repository))] == [()]


@pytest.mark.parametrize("field", [*age.FIELDS, *(f"machine.{key}" for key in age.MACHINE)])
def test_a_missing_field_is_named(repository, field):
    made = result(repository)
    part, _, key = field.rpartition(".")
    del (made[part] if part else made)[key]
    found = age.problems("a.json", made)[0]
    assert field in found
    assert "a.json" in found


def test_a_commit_that_git_does_not_know_is_named_in_rows_too(repository):
    made = result(repository) | {"rows": [{"commit": "1234567"}]}
    (found,) = age.problems("a.json", made)
    assert "1234567" in found


def test_a_one_off_study_names_command_commit_and_machine_only(repository):
    made = {key: result(repository)[key] for key in age.ASKED}
    made["machine"] = {"cpus": 2}
    assert age.problems("one_off/a.json", made) == []
    del made["command"]
    assert len(age.problems("one_off/a.json", made)) == 1


@pytest.mark.parametrize(
    ("name", "content", "changed"),
    [
        ("game/move.py", '"""Two."""\nPENALTY = 1\n', ()),
        ("game/move.py", '"""One."""\nPENALTY = 2  # each\n', ("game/move.py",)),
        ("game/new.txt", "words", ("game/new.txt",)),
        ("other.py", "X = 2\n", ()),
    ],
    ids=["docstring", "code", "new file", "another path"],
)
def test_only_code_that_a_result_depends_on_ages_it(repository, name, content, changed):
    write(repository, name, content)
    subprocess.run(["git", "add", "--intent-to-add", "."], cwd=repository, check=True)
    (found,) = age.ages(result(repository))
    assert found.changed == changed


@pytest.mark.parametrize(("dirty", "code"), [(True, 1), (False, 2), (False, 1)])
def test_a_headline_with_changes_or_outdated_code_is_found(repository, monkeypatch, dirty, code):
    results = repository / "results"
    results.mkdir()
    made = result(repository, uncommitted_changes=dirty)
    (results / "demo.json").write_text(json.dumps(made))
    monkeypatch.setattr(age.result_files, "__defaults__", (results,))
    write(repository, "game/move.py", f"PENALTY = {code}\n")
    found = age.stale_headlines("<!-- results: speed.json -->")
    assert len(found) == (dirty or code == 2)
    assert all("demo.json" in each for each in found)


def test_provenance_has_every_required_field():
    made = provenance(__file__, ("numpy",), seeds=(2, 1, 2))
    assert set(age.FIELDS) <= made.keys()
    assert set(age.MACHINE) <= made["machine"].keys()
    assert made["seeds"] == [1, 2]
    assert made["depends_on"][-1] == "tests/benchmarks/test_age.py"
