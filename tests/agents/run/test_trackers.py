"""The real trackers, offline; each where it is installed: ``make test-exports``."""

import pytest

from llm_gym.core.errors import ConfigError
from llm_gym_agents.run.metrics import MetricsLog, read_metrics

ROWS = [{"eval/success": 0.25}, {"eval/success": 0.5}]


def write(folder, tracker):
    """Write a row, stop, resume and write the next."""
    for at, row in enumerate(ROWS, start=1):
        with MetricsLog(folder, resume_after=at - 1, tensorboard=False, tracker=tracker) as log:
            log.log(at, row)
    assert [row["eval/success"] for row in read_metrics(folder)] == [0.25, 0.5]


def test_trackio_has_every_row_in_one_run(tmp_path, monkeypatch):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    pytest.importorskip("trackio")
    from trackio.sqlite_storage import SQLiteStorage

    write(tmp_path / "run", "trackio/games")
    (run,) = SQLiteStorage.get_runs("games")
    logs = SQLiteStorage.get_logs("games", run)
    assert [(row["step"], row["eval/success"]) for row in logs] == [(1, 0.25), (2, 0.5)]


def test_wandb_writes_every_row_offline(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    write(tmp_path, "wandb/games")
    run_id = (tmp_path / "tracker_run_id").read_text()
    files = sorted((tmp_path / "wandb").glob(f"offline-*/run-{run_id}.wandb"))
    written = [path.read_bytes() for path in files]
    assert all(b"eval/success" in data for data in written)
    assert [value in data for value, data in zip((b"0.25", b"0.5"), written, strict=True)]


@pytest.mark.parametrize("tracker", ["wandb", "nowhere/games", "trackio/"])
def test_a_tracker_names_its_package_and_a_project(tmp_path, tracker):
    with pytest.raises(ConfigError, match=r"checkpoint\.tracker"):
        MetricsLog(tmp_path, tensorboard=False, tracker=tracker)
