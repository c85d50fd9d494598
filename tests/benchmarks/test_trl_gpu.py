"""Two trainers on one card: whose turn it is, and what the curves of both come to."""

import argparse
import importlib
import json
import threading
from pathlib import Path

import pytest

PEERS = Path(__file__).parents[2] / "benchmarks" / "peers"


@pytest.fixture
def script(monkeypatch):
    for folder in (PEERS, PEERS / "train", PEERS.parent):
        monkeypatch.syspath_prepend(folder)
    return importlib.import_module("trl_gpu")


def run(side, seconds, *success):
    rows = [
        {"updates": at, "episodes": 64 * at, "seconds": seconds * at, "success": each}
        for at, each in enumerate(success, 1)
    ]
    return {"side": side, "backend": "vllm", "error": None, "rows": rows}


def test_the_best_of_each_side_are_compared_where_both_arrive(script):
    sides = {
        "ours, a": run("ours", 1.0, *[0.2] * 5, *[0.8] * 5),
        "ours, b": run("ours", 0.5, *[0.2] * 10),
        "trl, a": run("trl", 3.0, *[0.2] * 15, *[0.5] * 5),
        "trl, b": run("trl", 3.0, *[0.2] * 20),
    }
    told = script.summary(sides)
    assert told["best"] == {"ours": "ours, a", "trl": "trl, a"}
    assert told["goal"] == 0.5
    # The mean of five batches is .5 halfway between the seventh and the eighth; TRL's, at the end.
    assert told["runs"]["ours, a"]["seconds_to_goal"] == pytest.approx(7.5)
    assert told["runs"]["trl, a"]["seconds_to_goal"] == pytest.approx(60.0)
    assert told["runs"]["ours, b"]["seconds_to_goal"] is None
    assert told["times_faster"] == pytest.approx(8.0)
    assert told["times_per_update"] == pytest.approx(3.0)


def test_a_setting_is_told_by_the_means_of_its_seeds(script):
    sides = {
        "ours, a, seed 0": run("ours", 1.0, *[0.2] * 5, *[1.0] * 5),
        "ours, a, seed 1": run("ours", 1.0, *[0.2] * 5, *[0.8] * 5),
        "trl, a, seed 0": run("trl", 2.0, *[0.2] * 5, *[0.6] * 5),
        "trl, a, seed 1": run("trl", 4.0, *[0.2] * 5, *[0.4] * 5),
    }
    told = script.summary(sides)
    assert told["best"] == {"ours": "ours, a", "trl": "trl, a"}
    assert told["goal"] == pytest.approx(0.5)
    assert told["times_per_update"] == pytest.approx(3.0)
    # The second seed of TRL's never has .5, so that its whole run of 40 seconds is counted.
    ours = [told["runs"][f"ours, a, seed {seed}"]["seconds_to_goal"] for seed in (0, 1)]
    theirs = told["runs"]["trl, a, seed 0"]["seconds_to_goal"]
    assert told["times_faster"] == pytest.approx((theirs + 40.0) / sum(ours))
    sides["ours, a, seed 1"] = run("ours", 1.0, *[0.2] * 10)
    sides["ours, a, seed 0"] = run("ours", 1.0, *[0.2] * 5, *[1.0] * 20)
    assert "times_faster" not in script.summary(sides)


def test_the_runs_that_were_asked_for_have_their_turns_in_order(script):
    args = argparse.Namespace(runs=["trl:5e-5:0", "ours:2e-5:1"])
    assert script.wanted(args) == [("trl", 5e-5, 0), ("ours", 2e-5, 1)]
    args = argparse.Namespace(runs=None, sides=["trl", "ours"], rates=[2e-5], seeds=[0, 1])
    assert [seed for _, _, seed in script.wanted(args)] == [0, 1, 0, 1]


def test_one_side_alone_is_told_without_a_comparison(script):
    told = script.summary({"ours, a": run("ours", 1.0, 0.2, 0.4), "trl, a": run("trl", 1.0)})
    assert told["runs"]["ours, a"]["final"] == pytest.approx(0.3)
    assert set(told) == {"runs", "best"}


def test_a_run_says_that_it_is_ready_and_waits_for_its_turn(script, tmp_path):
    clock = importlib.import_module("gpu_clock")
    turn, told = tmp_path / "a.turn", []
    waits = threading.Thread(target=lambda: (clock.wait_for(turn), told.append(turn.exists())))
    waits.start()
    while not clock.ready_of(turn).exists():
        pass
    assert told == []
    turn.touch()
    waits.join(10)
    assert told == [True]


def test_a_batch_is_written_when_it_is_noted_and_the_last_ends_the_process(
    script, tmp_path, monkeypatch
):
    clock = importlib.import_module("gpu_clock")
    codes = []
    monkeypatch.setattr(clock.os, "_exit", codes.append)
    watch = clock.Clock(tmp_path / "rows", seconds=1e9, episodes=64)
    watch.note(0.25, speed=2.0)
    assert codes == []
    watch.seconds = 0.0
    watch.note(0.5)
    rows = [json.loads(line) for line in (tmp_path / "rows").read_text().splitlines()]
    assert [(row["episodes"], row["success"]) for row in rows] == [(64, 0.25), (128, 0.5)]
    assert rows[0]["speed"] == 2.0
    assert codes == [0]


class Endless:
    """A process that is still at it when somebody ends the script."""

    killed = False

    def wait(self, limit=None):
        if not self.killed:
            raise SystemExit(0)

    def kill(self):
        self.killed = True


def test_a_run_that_is_cut_from_outside_keeps_what_it_had_measured(script, tmp_path):
    cut = object.__new__(script.Run)
    cut.name, cut.side, cut.rate, cut.backend, cut.seconds = "trl, a", "trl", 1e-5, "vllm", 9.0
    cut.seed = 0
    cut.process, cut.turn, cut.log = Endless(), tmp_path / "turn", tmp_path / "log"
    cut.rows = tmp_path / "rows"
    cut.log.touch()
    cut.rows.write_text(json.dumps({"success": 0.5}) + "\n")
    found = cut.result(lambda so_far: None)
    assert found["rows"] == [{"success": 0.5}]
    assert found["error"] == script.TOLD
    assert cut.process.killed


class Ended(Endless):
    """A process that ended before it was ready."""

    def poll(self):
        return 1


def test_a_run_that_ends_before_its_turn_is_started_once_more(script, tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(
        script.subprocess, "Popen", lambda *a, **k: made.append(k["env"]) or Ended()
    )
    args = argparse.Namespace(
        trl_backend=None, backend="vllm", seconds=1, trl_seconds=2, model="m", cache_gb=1
    )
    begun = script.Run("trl", 5e-5, 0, begin=tmp_path, place=tmp_path, args=args)
    assert [begun.is_ready() for _ in range(3)] == [True, True, True]
    assert len(made) == 2
    assert made[0]["VLLM_CACHE_ROOT"] == made[1]["VLLM_CACHE_ROOT"]


def test_what_is_measured_is_written_while_a_run_goes_on(script, tmp_path, monkeypatch):
    class Going(Endless):
        waits = 0

        def wait(self, limit=None):
            self.waits += 1
            if limit is None or self.waits > 3:
                return 0
            raise script.subprocess.TimeoutExpired("", limit)

    going = object.__new__(script.Run)
    going.name, going.side, going.rate, going.backend, going.seconds = "a", "trl", 1e-5, "vllm", 9.0
    going.seed, going.process, going.turn, going.log = 0, Going(), tmp_path / "t", tmp_path / "log"
    going.rows = tmp_path / "rows"
    going.rows.write_text('{"success": 0.5}\n{"succ')  # the second is being written
    noted = []
    found = going.result(noted.append)
    assert [each["rows"] for each in noted] == [[{"success": 0.5}]] * 4
    assert found["error"] is None
