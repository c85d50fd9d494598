"""Runs of a real model in lanes: order, one process for many runs, and what becomes of failures."""

import argparse
import importlib
import json
import os
from pathlib import Path
from time import monotonic

import pytest

LANE = """
import json, os, sys
for line in sys.stdin:
    job = json.loads(line)
    if job["game"] == "guess-the-number" and job["seed"] == 0:
        sys.exit("no memory left")
    row = {"error": "EngineError: it ended"} if job["game"] == "sokoban-easy" else {}
    share = {"success": 0.5, "success_low": 0.4, "success_high": 0.6}
    row |= {name: share for name in ("start", "warm", "trained")}
    row |= {"iterations": 3, "rl_s": 1, "all_s": 2, "pid": os.getpid(), "episodes_played": 384}
    print(json.dumps(row | {"phases": {"time/tokens_per_s": 7}}), flush=True)
"""


@pytest.fixture
def real_model(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    module = importlib.import_module("real_model")
    (tmp_path / "lane.py").write_text(LANE)
    monkeypatch.setattr(module, "LANE", tmp_path / "lane.py")
    return module


def played(module, tmp_path, games, seeds, lanes=1, **more):
    args = argparse.Namespace(
        model="folder", backend="vllm", work=tmp_path / "work", episodes=2, cache_gb=1, tiny=True,
        games=games, seeds=seeds, set=[], rl_seconds=1.0, run_seconds=9.0, until=monotonic() + 3600,
        **({"least": 30.0, "by_game": False, "runs": None} | more),
    )  # fmt: skip
    results = module.Results(tmp_path / "found.json", ("torch",))
    jobs = module.queued(args, results)
    threads = [module.Lane(number, jobs, results, args) for number in range(lanes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return json.loads((tmp_path / "found.json").read_text())["runs"]


def test_one_seed_of_every_game_comes_first_and_a_lane_keeps_its_process(real_model, tmp_path):
    rows = played(real_model, tmp_path, ["text-game-easy", "search-qa-easy"], [0, 1])
    order = [(row["game"], row["seed"]) for row in rows]
    assert order == [
        ("text-game-easy", 0), ("search-qa-easy", 0), ("text-game-easy", 1), ("search-qa-easy", 1),
    ]  # fmt: skip
    assert len({row["pid"] for row in rows}) == 1
    assert not any(row["suite"] for row in rows)
    assert all({"seconds", "left"} <= row.keys() for row in rows), "a run knows its time"
    assert "50.0% (40% to 60%)" in real_model.real_model_runs({"runs": rows})


def test_runs_come_game_by_game_if_asked_and_none_begins_too_late(real_model, tmp_path):
    games = ["text-game-easy", "search-qa-easy"]
    rows = played(real_model, tmp_path, games, [0, 1], by_game=True)
    assert [row["game"] for row in rows] == [games[0], games[0], games[1], games[1]]
    (tmp_path / "found.json").write_text(json.dumps({"runs": []}))
    assert played(real_model, tmp_path, games, [0], least=3700.0) == []


def test_a_run_that_fails_or_takes_its_lane_along_is_a_row_and_the_next_has_a_new_process(
    real_model, tmp_path
):
    rows = played(real_model, tmp_path, ["sokoban-easy", "guess-the-number", "search-qa-easy"], [0])
    failed, ended, well = rows
    assert [row["suite"] for row in rows] == [False, True, False]
    assert failed["error"] == "EngineError: it ended"
    assert "or ended; see lane-0.log" in ended["error"]
    assert "no memory left" in (tmp_path / "work" / "lane-0.log").read_text()
    assert "error" not in well
    assert well["pid"] not in (failed["pid"], os.getpid())
    again = played(real_model, tmp_path, ["guess-the-number", "search-qa-easy"], [0])
    assert [row["game"] for row in again[3:]] == ["guess-the-number"], "the known is not done again"


def test_runs_are_named_one_by_one_with_settings_that_make_them_others(real_model, tmp_path):
    texts = ["maze-easy:1", "maze-easy:1 training.gamma=0.8 warm_start.player=random"]
    runs = [real_model.named_run(text) for text in texts]
    plain, other = played(real_model, tmp_path, [], [], runs=runs)
    assert (plain["game"], plain["seed"], "set" in plain) == ("maze-easy", 1, False)
    assert other["set"] == {"training.gamma": 0.8, "warm_start.player": "random"}
    more = [*runs, real_model.named_run("maze-easy:1 training.gamma=0.7")]
    assert len(played(real_model, tmp_path, [], [], runs=more)) == 3


@pytest.mark.parametrize("text", ["maze", "maze-easy", "maze-easy:first", "nim:0"])
def test_a_run_that_there_is_not_is_refused_with_those_there_are(real_model, text):
    with pytest.raises(argparse.ArgumentTypeError, match=r"GAME:SEED of .*maze-easy.*got"):
        real_model.named_run(text)


def test_a_run_is_set_as_it_is_named_and_the_taught_one_as_the_suite_asks(real_model, tmp_path):
    lane = importlib.import_module("real_model_lane")
    args = argparse.Namespace(
        model="m", backend="vllm", cache_gb=3, tiny=False, work=tmp_path,
        set=["training.gae_lambda=0.7", "training.gamma=0.6"],
    )  # fmt: skip
    job = real_model.named_run("frozen-lake:2 training.gamma=0.5 inference.max_turns=9")
    config = lane.settings(job, args)
    assert (config.training.gamma, config.inference.max_turns, config.training.seed) == (0.5, 9, 2)
    assert config.training.gae_lambda == 0.7, (
        "what is set for all, where the run does not say otherwise"
    )
    assert config.inference.engine["cache_gb"] == 3
    plain = lane.settings(real_model.job_of("frozen-lake", 2), args)
    assert plain.checkpoint.output_dir != config.checkpoint.output_dir, "both may run at once"
    asked = lane.settings(real_model.job_of(*real_model.TAUGHT), args)
    assert asked.inference.system_prompt is None, "it reads the rules, as the suite asks"
    assert (asked.inference.context, asked.inference.max_tokens) == (
        "history",
        lane.SUITE["max_tokens"],
    )
