"""Every row of a run is kept once, whatever happens to the run."""

import json
import math
import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
import torch

from llm_gym.core.errors import ConfigError
from llm_gym_agents.commands.report import draw_curve, draw_references
from llm_gym_agents.run.metrics import MetricsLog, read_metrics


def lines(folder):
    return (folder / "metrics.jsonl").read_text().splitlines()


def scalars(folder, name):
    """Return what TensorBoard shows of a metric: step and value."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = EventAccumulator(str(folder / "tensorboard"))
    board.Reload()
    return [(event.step, event.value) for event in board.Scalars(name)]


def test_rows_are_written_at_once(tmp_path):
    with MetricsLog(tmp_path / "run") as log:
        for iteration in range(3):
            log.log(iteration, {"loss/policy": iteration / 3, "train/steps": 4})
            assert len(lines(tmp_path / "run")) == iteration + 1
    rows = [{"iteration": i, "loss/policy": i / 3, "train/steps": 4} for i in range(3)]
    assert read_metrics(tmp_path / "run") == rows == log.rows
    assert [json.loads(line) for line in lines(tmp_path / "run")] == rows
    steps, values = zip(*scalars(tmp_path / "run", "loss/policy"), strict=True)
    assert steps == (0, 1, 2)
    assert values == pytest.approx([0, 1 / 3, 2 / 3])


def test_numbers_that_are_not_finite_are_kept_and_every_line_is_json(tmp_path):
    def no_constants(name):
        raise AssertionError(f"{name} is not JSON")

    log = MetricsLog(tmp_path)
    odd = {"a/nan": math.nan, "a/up": math.inf, "a/down": -math.inf, "a/fine": 0.5}
    log.log(1, odd)
    log.close()
    json.loads(lines(tmp_path)[0], parse_constant=no_constants)
    (row,) = read_metrics(tmp_path)
    assert math.isnan(row.pop("a/nan"))
    assert row == {"iteration": 1, "a/up": math.inf, "a/down": -math.inf, "a/fine": 0.5}
    assert scalars(tmp_path, "a/up") == [(1, math.inf)]


def test_tensors_and_numpy_are_numbers_and_other_things_are_refused(tmp_path):
    log = MetricsLog(tmp_path, tensorboard=False)
    log.log(1, {"a/b": torch.tensor(0.5), "a/c": torch.tensor([2])})
    assert read_metrics(tmp_path) == [{"iteration": 1, "a/b": 0.5, "a/c": 2.0}]
    for name, value in [
        ("a/b", torch.zeros(2)),
        ("a/b", "high"),
        ("a/b", None),
        ("loss", 1.0),
        ("a/b c", 1.0),
        ("a/b,c", 1.0),
    ]:
        with pytest.raises(ConfigError, match=name):
            log.log(2, {name: value})
    assert len(read_metrics(tmp_path)) == 1


def test_a_resumed_run_has_every_row_once_and_equals_one_that_was_not_interrupted(
    tmp_path, monkeypatch
):
    from tensorboard.summary.writer import event_file_writer

    # TensorBoard reads files in the order of their names, which count without leading zeros.
    monkeypatch.setattr(event_file_writer, "_global_uid", event_file_writer.AtomicCounter(0))

    def row(iteration):
        more = {"eval/success": 0.5} if iteration % 2 else {}
        return {"loss/policy": 1 / (iteration + 1), "train/steps": iteration, **more}

    whole = MetricsLog(tmp_path / "whole")
    for iteration in range(6):
        whole.log(iteration, row(iteration))
    whole.close()
    first = MetricsLog(tmp_path / "run")
    for iteration in range(5):
        first.log(iteration, row(iteration))
    first.close()
    with (tmp_path / "run/metrics.jsonl").open("a") as file:
        file.write('{"iteration": 5, "loss/po')
    with MetricsLog(tmp_path / "run", resume_after=2) as second:
        assert [kept["iteration"] for kept in second.rows] == [0, 1, 2]
        for iteration in range(3, 6):
            second.log(iteration, row(iteration))
    assert lines(tmp_path / "run") == lines(tmp_path / "whole")
    assert scalars(tmp_path / "run", "loss/policy") == scalars(tmp_path / "whole", "loss/policy")


def test_a_run_that_died_before_its_first_checkpoint_begins_again(tmp_path):
    MetricsLog(tmp_path, tensorboard=False).log(1, {"a/b": 1})
    again = MetricsLog(tmp_path, resume_after=-1, tensorboard=False)
    assert again.rows == read_metrics(tmp_path) == []
    again.log(1, {"a/c": 2})
    assert read_metrics(tmp_path) == [{"iteration": 1, "a/c": 2}]


def test_metrics_of_another_run_are_not_written_over(tmp_path):
    MetricsLog(tmp_path, tensorboard=False).log(41, {"a/b": 1})
    with pytest.raises(ConfigError, match="iteration 41"):
        MetricsLog(tmp_path, tensorboard=False)
    assert len(read_metrics(tmp_path)) == 1


@pytest.mark.parametrize("line", [b"rubbish", b'{"iteration": "\xff"}', b"[]"])
def test_a_broken_line_is_named(tmp_path, line):
    (tmp_path / "metrics.jsonl").write_bytes(b'{"iteration": 1}\n' + line + b'\n{"iteration": 3}\n')
    with pytest.raises(ConfigError, match=r"line 2 of .*metrics.jsonl"):
        read_metrics(tmp_path)


def test_weights_and_biases_gets_every_row_and_one_run_over_every_resume(tmp_path, monkeypatch):
    started, sent = [], []
    run = SimpleNamespace(
        log=lambda row, step: sent.append((step, row)), finish=lambda: sent.append("end")
    )
    fake = SimpleNamespace(init=lambda **given: started.append(given) or run, __spec__="there")
    monkeypatch.setitem(sys.modules, "wandb", fake)
    for iteration in (1, 2):
        with MetricsLog(
            tmp_path, resume_after=iteration - 1, tensorboard=False, tracker="wandb/games"
        ) as log:
            log.log(iteration, {"a/b": 0.5})
    assert sent == [(1, {"a/b": 0.5}), "end", (2, {"a/b": 0.5}), "end"]
    assert started[0] == started[1]
    assert started[0]["project"] == "games"


# --- the curve ---------------------------------------------------------------------------


def test_the_curve_is_a_picture_in_the_folder_of_the_run(tmp_path):
    with MetricsLog(tmp_path, tensorboard=False) as log:
        log.log(1, {"episode/success": 0.1, "reward/mean": 0.2})
        log.log(2, {"episode/success": 0.2, "eval/success": math.nan, "eval/return": 0.3})
    made = draw_curve(tmp_path, title="a run", references={"chance": 0.07, "solver": 0.99})
    assert made == tmp_path / "curve.png"
    assert made.read_bytes().startswith(b"\x89PNG")


def test_a_curve_needs_metrics(tmp_path):
    with pytest.raises(ConfigError, match=re.escape(str(tmp_path))):
        draw_curve(tmp_path)
    with MetricsLog(tmp_path, tensorboard=False) as log:
        log.log(1, {"loss/policy": 0.1})
    assert draw_curve(tmp_path).exists()


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


def test_reference_lines_at_one_height_share_a_label():
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    axes = Figure().subplots()
    draw_references(axes, {"solver": 1.0, "random": 0.092, "reflex": 0.093})
    heights = {text.get_text(): text.xy[1] for text in axes.texts}
    assert heights == {"random\nreflex": 0.092, "solver": 1.0}
    assert len(axes.lines) == 3
