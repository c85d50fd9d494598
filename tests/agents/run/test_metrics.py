"""Every number of a run is kept once, in every form, whatever happens to the run."""

import csv
import json
import math
import struct

import pytest
import torch

from llm_gym.errors import ConfigError
from llm_gym_agents.run.metrics import MetricsLog, read_metrics
from llm_gym_agents.run.plots import draw_curve


def lines(folder, name="metrics.jsonl"):
    return (folder / name).read_text().splitlines()


def table(folder):
    with (folder / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def scalars(folder, name):
    """Return what TensorBoard shows of a metric: step and value."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = EventAccumulator(str(folder / "tensorboard"))
    board.Reload()
    return [(event.step, event.value) for event in board.Scalars(name)]


def test_rows_are_written_at_once_in_every_form(tmp_path):
    with MetricsLog(tmp_path / "run") as log:
        for iteration in range(3):
            log.log(iteration, {"loss/policy": iteration / 3, "train/steps": 4})
            assert len(lines(tmp_path / "run")) == iteration + 1
            assert len(table(tmp_path / "run")) == iteration + 1
    rows = [{"iteration": i, "loss/policy": i / 3, "train/steps": 4} for i in range(3)]
    assert read_metrics(tmp_path / "run") == rows == log.rows
    assert [json.loads(line) for line in lines(tmp_path / "run")] == rows
    assert lines(tmp_path / "run", "metrics.csv")[0] == "iteration,loss/policy,train/steps"
    assert [float(row["loss/policy"]) for row in table(tmp_path / "run")] == [0, 1 / 3, 2 / 3]
    steps, values = zip(*scalars(tmp_path / "run", "loss/policy"), strict=True)
    assert steps == (0, 1, 2)
    assert values == pytest.approx([0, 1 / 3, 2 / 3])


def test_a_new_metric_becomes_a_new_column_and_the_old_ones_stay_where_they_are(tmp_path):
    log = MetricsLog(tmp_path, tensorboard=False)
    log.log(1, {"loss/policy": 1.0, "reward/mean": 2.0})
    log.log(2, {"eval/success": 0.5, "reward/mean": 3.0})
    log.log(3, {"loss/policy": 4.0})
    assert lines(tmp_path, "metrics.csv") == [
        "iteration,loss/policy,reward/mean,eval/success",
        "1,1.0,2.0,",
        "2,,3.0,0.5",
        "3,4.0,,",
    ]


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
    assert lines(tmp_path, "metrics.csv")[1] == "1,nan,inf,-inf,0.5"
    assert scalars(tmp_path, "a/up") == [(1, math.inf)]


def test_tensors_and_numpy_are_numbers_and_other_things_are_refused(tmp_path):
    log = MetricsLog(tmp_path, tensorboard=False)
    log.log(1, {"a/b": torch.tensor(0.5), "a/c": torch.tensor([2])})
    assert read_metrics(tmp_path) == [{"iteration": 1, "a/b": 0.5, "a/c": 2.0}]
    for metrics, sentence in [
        ({"a/b": torch.zeros(2)}, "the metric a/b must be one number, got tensor"),
        ({"a/b": "high"}, "the metric a/b must be one number, got 'high'"),
        ({"a/b": None}, "the metric a/b must be one number, got None"),
        ({"loss": 1.0}, "the name of a metric must look like loss/policy, got 'loss'"),
        ({"a/b c": 1.0}, "the name of a metric must look like loss/policy, got 'a/b c'"),
        ({"a/b,c": 1.0}, "the name of a metric must look like loss/policy, got 'a/b,c'"),
    ]:
        with pytest.raises(ConfigError) as caught:
            log.log(2, metrics)
        assert sentence in str(caught.value)
    assert len(read_metrics(tmp_path)) == 1


def test_iterations_only_grow(tmp_path):
    log = MetricsLog(tmp_path, tensorboard=False)
    log.log(3, {"a/b": 1})
    with pytest.raises(ConfigError, match="must be above the last one, 3, got 3"):
        log.log(3, {"a/b": 1})


def test_a_resumed_run_has_every_row_once_and_equals_one_that_was_not_interrupted(tmp_path):
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
    for name in ("metrics.jsonl", "metrics.csv"):
        assert lines(tmp_path / "run", name) == lines(tmp_path / "whole", name)
    assert scalars(tmp_path / "run", "loss/policy") == scalars(tmp_path / "whole", "loss/policy")


def test_a_run_that_died_before_its_first_checkpoint_begins_again(tmp_path):
    MetricsLog(tmp_path, tensorboard=False).log(1, {"a/b": 1})
    again = MetricsLog(tmp_path, resume_after=-1, tensorboard=False)
    assert again.rows == read_metrics(tmp_path) == table(tmp_path) == []
    again.log(1, {"a/c": 2})
    assert lines(tmp_path, "metrics.csv") == ["iteration,a/c", "1,2"]


def test_metrics_of_another_run_are_not_written_over(tmp_path):
    MetricsLog(tmp_path, tensorboard=False).log(41, {"a/b": 1})
    with pytest.raises(ConfigError, match="got one with metrics up to iteration 41; resume that"):
        MetricsLog(tmp_path, tensorboard=False)
    assert len(read_metrics(tmp_path)) == 1


def test_a_broken_line_is_named(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"iteration": 1}\nrubbish\n{"iteration": 3}\n')
    with pytest.raises(ConfigError, match=r"line 2 of .*metrics.jsonl must be a row of metrics"):
        read_metrics(tmp_path)


def test_weights_and_biases_is_asked_for_by_name_and_missed_in_one_sentence(tmp_path):
    try:
        import wandb  # noqa: F401
    except ImportError:
        with pytest.raises(ConfigError, match=r"needs wandb. Install it with: pip install wandb"):
            MetricsLog(tmp_path, tensorboard=False, wandb_project="games")
    else:
        pytest.skip("it is installed and would want an account")


# --- the curve ---------------------------------------------------------------------------


def size(path):
    """Return width and height of a PNG."""
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG")
    return struct.unpack(">II", data[16:24])


def test_the_curve_has_a_panel_over_time_where_time_is_known(tmp_path):
    for name, extra in [("without", {}), ("with", {"time/elapsed_s": 700.0})]:
        with MetricsLog(tmp_path / name, tensorboard=False) as log:
            log.log(1, {"episode/success": 0.1, "reward/mean": 0.2, **extra})
            log.log(2, {"episode/success": 0.2, "eval/success": math.nan, "eval/return": 0.3})
    lines_of_others = {"chance": 0.07, "solver": 0.99}
    plain = draw_curve(tmp_path / "without", title="a run", references=lines_of_others)
    timed = draw_curve(tmp_path / "with", references=lines_of_others)
    assert timed == tmp_path / "with" / "curve.png"
    assert size(timed)[0] > 1.5 * size(plain)[0]


def test_there_is_no_curve_of_nothing(tmp_path):
    with pytest.raises(ConfigError, match="there is nothing to draw"):
        draw_curve(tmp_path)
    with MetricsLog(tmp_path, tensorboard=False) as log:
        log.log(1, {"loss/policy": 0.1})
    assert draw_curve(tmp_path).exists()
