"""Two trainers on one card: whose turn it is, and what the curves of both come to."""

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
    cut.process, cut.turn, cut.log = Endless(), tmp_path / "turn", tmp_path / "log"
    cut.rows = tmp_path / "rows"
    cut.log.touch()
    cut.rows.write_text(json.dumps({"success": 0.5}) + "\n")
    found = cut.result()
    assert found["rows"] == [{"success": 0.5}]
    assert found["error"] == script.TOLD
    assert cut.process.killed
