"""Folders of runs that came from somewhere: nothing in them runs, and nothing of them is lost."""

import json
import shutil

import pytest

from llm_gym import cli
from llm_gym_agents.config import ConfigStore
from llm_gym_agents.config.files import untrusted
from llm_gym_agents.run.files import RunLock
from llm_gym_agents.run.metrics import read_metrics
from tests.agents.commands.conftest import SMALL


@pytest.fixture
def run(echo_run, tmp_path):
    shutil.copytree(echo_run, tmp_path / "run")
    return tmp_path / "run"


def changed(run, **sections):
    path = run / "config.json"
    data = json.loads(path.read_text())
    for section, settings in sections.items():
        data[section] |= settings
    path.write_text(json.dumps(data))


@pytest.mark.parametrize(
    ("sections", "why"),
    [
        ({"model": {"trust_remote_code": True}}, "trust_remote_code"),
        ({"environment": {"env_id": "planted:llm_gym/Echo-v0"}}, "'planted'"),
        ({"environment": {"env_kwargs": {"path": "/etc/passwd"}}}, "env_kwargs has path"),
        ({"inference": {"backend": "sglang", "engine": {"arguments": ["--x"]}}}, "engine"),
    ],
    ids=lambda part: str(part)[:40],
)
def test_resuming_a_foreign_folder_runs_none_of_its_code(run, capsys, monkeypatch, sections, why):
    changed(run, **sections)
    planted = run.parent / "planted.py"
    planted.write_text(f"open({str(run.parent / 'ran')!r}, 'w')")
    monkeypatch.chdir(run.parent)
    assert cli.main(["resume", str(run)]) == 2
    told = capsys.readouterr().err
    assert why in told
    assert "--trust" in told
    assert not (run.parent / "ran").exists()


def test_what_is_plain_needs_no_trust():
    config = ConfigStore()
    config.environment.env_id = "llm_gym/Echo-v0"
    config.environment.env_kwargs = {"length": 3, "words": "a b"}
    assert untrusted(config) == ""
    config.environment.env_id = "mine:llm_gym/Echo-v0"
    assert untrusted(config, ["mine"]) == ""


def test_a_run_that_was_killed_before_its_first_checkpoint_begins_again(run, capsys):
    shutil.rmtree(run / "checkpoints")
    shutil.rmtree(run / "warm-start", ignore_errors=True)
    assert cli.main(["resume", str(run)]) == 2
    assert "again" in capsys.readouterr().err
    again = ["train", "llm_gym/Echo-v0", "--smoke", *SMALL, "--checkpoint.output-dir", str(run)]
    assert cli.main(again) == 0
    assert "once more" in capsys.readouterr().out
    assert [row["iteration"] for row in read_metrics(run)] == [1]
    assert (run / "checkpoints/iteration-000001").is_dir()


def test_a_folder_that_is_being_trained_in_is_left_alone(run, capsys):
    lock = RunLock(run)
    lock.acquire()
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert cli.main(["resume", str(run)]) == 2
    assert "process" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    lock.release()


def test_a_folder_that_cannot_be_written_to_is_a_sentence(tmp_path, capsys):
    place = tmp_path / "file"
    place.write_text("no folder")
    where = ("--checkpoint.output-dir", str(place / "run"))
    assert cli.main(["train", "llm_gym/Echo-v0", "--smoke", *SMALL, *where]) == 2
    told = capsys.readouterr().err
    assert told.startswith("llm-gym: ")
    assert "Traceback" not in told
