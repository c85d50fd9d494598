"""The real trackers, offline; each where it is installed: ``make test-exports``."""

import os
import subprocess
import sys

import pytest

from llm_gym.core.errors import ConfigError
from llm_gym_agents.run.metrics import MetricsLog, read_metrics

# trackio reads where its files go when it is imported.
TRACKIO = """
import sys
from llm_gym_agents.run.metrics import MetricsLog

for at, success in enumerate((0.25, 0.5), start=1):
    log = MetricsLog(sys.argv[1], resume_after=at - 1, tensorboard=False, tracker="trackio/games")
    with log:
        log.log(at, {"eval/success": success})

from trackio.sqlite_storage import SQLiteStorage

(run,) = SQLiteStorage.get_runs("games")
rows = SQLiteStorage.get_logs("games", run)
sys.stdout.write(repr([(row["step"], row["eval/success"]) for row in rows]))
"""


def test_trackio_has_every_row_in_one_run(tmp_path):
    pytest.importorskip("trackio")
    environment = os.environ | {"TRACKIO_DIR": str(tmp_path / "trackio")}
    command = [sys.executable, "-W", "ignore", "-c", TRACKIO, str(tmp_path / "run")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert "[(1, 0.25), (2, 0.5)]" in done.stdout, done.stderr


def test_wandb_has_every_row_offline_in_one_run(tmp_path, monkeypatch, capfd):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    for at, success in enumerate((0.25, 0.5), start=1):
        log = MetricsLog(tmp_path, resume_after=at - 1, tensorboard=False, tracker="wandb/games")
        with log:
            log.log(at, {"eval/success": success})
            run = log._sinks[0]._run
            assert (run.id, run.offline) == ((tmp_path / "tracker_run_id").read_text(), True)
        assert f"eval/success {success}" in capfd.readouterr().err  # the summary at its end
    assert len(list((tmp_path / "wandb").glob(f"offline-*/run-{run.id}.wandb"))) == 2
    assert [row["eval/success"] for row in read_metrics(tmp_path)] == [0.25, 0.5]


@pytest.mark.parametrize("tracker", ["wandb", "nowhere/games", "trackio/"])
def test_a_tracker_names_its_package_and_a_project(tmp_path, tracker):
    with pytest.raises(ConfigError, match=r"checkpoint\.tracker"):
        MetricsLog(tmp_path, tensorboard=False, tracker=tracker)
