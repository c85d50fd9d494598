"""Run folders, folders of records and single files; metrics that grow and that are rewritten."""

import json

import pytest

from llm_gym.episodes import write_episodes
from llm_gym.errors import ConfigError
from llm_gym.view.sources import ViewSource, open_sources
from tests.view.records import METRICS, make_run, played


def test_a_run_has_its_files_in_the_order_of_time(tmp_path):
    run = make_run(tmp_path / "run")
    for name in ("eval-000002", "train-000011", "eval-000001"):
        write_episodes(run / f"episodes/{name}.jsonl", [played(1)])
    source = ViewSource(run)
    assert [source.label(file) for file in source.files] == [
        "before",
        "eval-000001",
        "train-000001",
        "eval-000002",
        "train-000011",
        "after",
    ]
    assert [source.iteration(file) for file in source.files] == [None, 1, 1, 2, 11, None]
    assert source.config() == {"training.gamma": 0.9}
    assert source.metrics.rows == METRICS


def test_a_file_that_appears_later_keeps_the_numbers_of_the_others(tmp_path):
    source = ViewSource(make_run(tmp_path / "run"))
    before, version = [file.path for file in source.files], source.version
    write_episodes(tmp_path / "run/episodes/eval-000001.jsonl", [played(1)])
    source.refresh()
    assert [file.path for file in source.files][: len(before)] == before
    assert source.files[-1].path.name == "eval-000001.jsonl"
    assert source.version == version + 1


def test_metrics_are_read_as_they_grow_and_again_when_rows_were_dropped(tmp_path):
    run = make_run(tmp_path / "run")
    metrics = ViewSource(run).metrics
    generation = metrics.generation
    with (run / "metrics.jsonl").open("a") as file:
        file.write('{"iteration": 3, "reward/mean": NaN, "name": "x"}\n{"iteration": 4')
    metrics.refresh()
    assert metrics.rows == [*METRICS, {"iteration": 3}]  # no NaN, no text, no half a row
    assert metrics.generation == generation
    (run / "metrics.jsonl").write_text(json.dumps(METRICS[0]) + "\n")
    metrics.refresh()
    assert metrics.rows == METRICS[:1]
    assert metrics.generation == generation + 1


def test_a_folder_of_eval_records_and_a_single_file_are_sources_too(tmp_path):
    write_episodes(tmp_path / "records/llm_gym_Guess-v0.jsonl.gz", [played(1)])
    assert ViewSource(tmp_path / "records").label(ViewSource(tmp_path / "records").files[0]) == (
        "llm_gym_Guess-v0"
    )
    single = ViewSource(tmp_path / "records/llm_gym_Guess-v0.jsonl.gz")
    assert [row.seed for row in single.files[0].rows] == ["1"]


def test_runs_of_one_name_are_told_apart(tmp_path):
    runs = [make_run(tmp_path / name / "run") for name in "ab"]
    assert [source.name for source in open_sources(runs)] == [str(run) for run in runs]


@pytest.mark.parametrize(
    ("content", "why"), [("", "it is empty"), ("nonsense\n", "line 1: the record is not JSON")]
)
def test_a_file_without_episodes_is_refused_with_the_reason(tmp_path, content, why):
    (tmp_path / "a.jsonl").write_text(content)
    with pytest.raises(ConfigError, match=f"a.jsonl holds no episodes: {why}"):
        ViewSource(tmp_path / "a.jsonl")


def test_what_is_not_there_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="there is no such file or folder"):
        ViewSource(tmp_path / "nothing")


def test_a_damaged_config_is_no_config(tmp_path):
    run = make_run(tmp_path / "run")
    for text in ("[1]", "{", "[" * 100_000, "\x00"):
        (run / "config.json").write_text(text)
        assert ViewSource(run).config() == {}
