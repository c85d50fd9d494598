"""Results name their command, commit and machine, and the code that has changed since."""

import json
import shutil
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
        "machine": dict.fromkeys(age.MACHINE, "known") | {"cpus": 2, "packages": {}},
    }
    return found | changes


def write(repository, name, content):
    (repository / name).write_text(content)
    age.changed_code.cache_clear()


def test_a_complete_result_of_this_commit_has_no_problem(repository):
    assert age.problems("a.json", result(repository)) == []
    assert [each.changed for each in age.ages(result(repository))] == [()]


@pytest.mark.parametrize("field", [*age.FIELDS, *(f"machine.{key}" for key in age.MACHINE)])
def test_a_missing_or_empty_field_is_named(repository, field):
    made = result(repository)
    part, _, key = field.rpartition(".")
    del (made[part] if part else made)[key]
    assert f"a.json lacks {field}" in age.problems("a.json", [result(repository), made])
    (made[part] if part else made)[key] = [] if field in ("seeds", "depends_on") else ""
    assert f"a.json lacks {field}" in age.problems("a.json", made)


def test_a_result_of_a_gpu_names_the_card(repository):
    made = result(repository)
    made["machine"]["gpu"] = None
    assert age.problems("train.json", made) == []
    assert age.problems("train_gpu.json", made) == ["train_gpu.json lacks machine.gpu"]


@pytest.mark.parametrize("commit", ["1234567", "HEAD", "", None])
def test_a_commit_that_git_does_not_know_is_named_in_rows_too(repository, commit):
    made = result(repository) | {"rows": [{"commit": commit}]}
    assert age.problems("a.json", made) == [f"a.json: commit {commit} is not in this repository"]


@pytest.mark.parametrize("path", ["gone.py", "/tmp", "game/*.txt"])
def test_a_path_that_git_does_not_know_is_named(repository, path):
    (found,) = age.problems("a.json", result(repository, depends_on=["game", path]))
    assert path in found


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
    found = age.stale_headlines("")
    assert len(found) == (dirty or code == 2)
    assert all("demo.json" in each for each in found)


@pytest.mark.parametrize("note", ["one_off/a.json", "./one_off/a.json"])
def test_a_headline_of_unknown_age_is_found(repository, monkeypatch, note):
    made = result(repository)
    content = {"demo.json": made, "one_off/a.json": {key: made[key] for key in age.ASKED}}
    monkeypatch.setattr(age, "result_files", content.items)
    (found,) = age.stale_headlines(f"<!-- results: {note} seconds -->")
    assert note in found


def test_each_part_of_a_result_has_its_own_age(repository):
    clean, dirty = result(repository), result(repository, uncommitted_changes=True)
    write(repository, "other.py", "X = 2\n")
    other = result(repository, depends_on=["other.py"])
    found = [(each.dirty, each.changed) for each in age.ages([clean, dirty, other])]
    assert found == [(False, ()), (True, ()), (False, ("other.py",))]


def test_a_copied_tree_has_the_stamps_commit_and_counts_as_changed_when_it_was(
    repository, monkeypatch
):
    (repository / ".gitignore").write_text(".stamp.json\n")
    stamp = {"commit": "1234567", "uncommitted_changes": False}
    monkeypatch.setattr(machine, "STAMP", repository / ".stamp.json")
    machine.STAMP.write_text(json.dumps(stamp | {"tree": machine.tree_hash()}))
    shutil.rmtree(repository / ".git")
    assert machine.source() == stamp
    write(repository, "other.py", "X = 2\n")
    assert machine.source() == stamp | {"uncommitted_changes": True}


def test_provenance_has_every_required_field():
    made = provenance(__file__, ("numpy",), seeds=(2, 1, 2))
    assert set(age.FIELDS) <= made.keys()
    assert set(age.MACHINE) <= made["machine"].keys()
    assert made["machine"]["packages"].keys() == {"gymnasium", "numpy"}
    assert made["seeds"] == [1, 2]
    assert made["depends_on"][-1] == "tests/benchmarks/test_age.py"
