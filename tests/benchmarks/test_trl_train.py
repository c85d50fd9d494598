"""Training beside TRL: the winners of the sweep play on; how long to the same success is told."""

import argparse
import importlib
from pathlib import Path

import pytest


@pytest.fixture
def script(monkeypatch):
    folder = Path(__file__).parents[2] / "benchmarks"
    monkeypatch.syspath_prepend(folder / "peers")
    monkeypatch.syspath_prepend(folder)
    return importlib.import_module("trl_train")


def curve(*successes, cpu_s=10.0):
    return [
        {"updates": 10 * at, "episodes": 640 * at, "cpu_s": cpu_s * at, "success": success}
        for at, success in enumerate(successes)
    ]


def test_the_settings_that_won_the_sweep_play_every_seed(script, tmp_path):
    rows = {
        f"sweep/trl/{name}/{script.SWEEP_SEED}": {"curve": curve(0.3, 0.3, end)}
        for name, end in zip(script.TRL, (0.3, 0.7, 0.6, 0.5, 0.4, 0.3), strict=True)
    } | {
        f"sweep/ours/{name}/{script.SWEEP_SEED}": {"curve": curve(0.3, 0.3, end)}
        for name, end in zip(script.OURS, (0.4, 0.5, 0.9, 0.6, 0.5, 0.6), strict=True)
    }
    rows[f"sweep/trl/rate 1e-3/{script.SWEEP_SEED}"] = {"error": "it collapsed"}
    args = argparse.Namespace(seeds=[0, 1], scale=1.0, episodes=400, python="python")
    jobs = script.Plan(args, tmp_path).finals(rows)
    assert [job.key for job in jobs] == [
        f"final/{name}/{seed}"
        for name in (
            "trl/rate 2e-3",
            "ours/4 passes, rate 2e-3, entropy 0.03",
            "ours/grpo, 4 passes, rate 2e-3",
            "trl/4 steps, rate 1e-3",
        )
        for seed in (0, 1)
    ]
    assert jobs[0].command[-6:] == ["--updates", "492", "--every", "41", "--episodes", "400"]


def test_sweeps_on_several_seeds_count_alike(script):
    rows = {
        "sweep/trl/rate 1e-3/3": {"curve": curve(0.3, 0.5)},
        "sweep/trl/rate 1e-3/9": {"curve": curve(0.3, 0.1, 0.1, 0.1, 0.1)},
        "sweep/trl/rate 2e-3/3": {"curve": curve(0.3, 0.4)},
        "sweep/trl/8 steps, rate 1e-3/3": {"error": "stopped"},
    }
    assert script.best(rows, "trl", script.TRL) == "rate 2e-3"


def test_the_summary_compares_cpu_seconds_to_the_success_that_trl_ends_with(script):
    def final(side, setting, curve):
        return {"side": side, "setting": setting, "curve": curve}

    rows = {
        "final/trl/rate 3e-4/0": final("trl", "rate 3e-4", curve(0.3, 0.4, 0.6, cpu_s=60.0)),
        "final/ours/rate 1e-3/0": final("ours", "rate 1e-3", curve(0.3, 0.6, 0.9, cpu_s=10.0)),
        "final/ours/grpo/0": final("ours", "grpo", curve(0.3, 0.3, 0.4, cpu_s=10.0)),
        "final/ours/grpo/1": {"error": "stopped"},
    }
    told = script.summary(rows)
    assert told["trl, rate 3e-4"]["cpu_s_to_trl_final"] == pytest.approx(120.0)
    assert told["ours, rate 1e-3"]["cpu_s_to_trl_final"] == pytest.approx(10.0)
    assert told["ours, rate 1e-3"]["times_faster"] == pytest.approx(12.0)
    assert told["ours, grpo"]["times_faster"] is None
    assert told["ours, rate 1e-3"]["cpu_s_per_update"] == pytest.approx(1.0)


def test_where_the_finals_of_a_side_were_cut_the_sweep_is_told(script):
    rows = {
        "sweep/trl/a/9": {"side": "trl", "setting": "a", "curve": curve(0.3, 0.3, cpu_s=60.0)},
        "sweep/trl/b/9": {"side": "trl", "setting": "b", "curve": curve(0.3, 0.5, cpu_s=60.0)},
        "sweep/ours/c/9": {"side": "ours", "setting": "c", "curve": curve(0.3, 0.5, cpu_s=10.0)},
        "final/ours/c/0": {"side": "ours", "setting": "c", "curve": curve(0.3, 0.9)},
        "final/trl/b/0": {"error": "stopped after 9 s"},
    }
    told = script.summary(rows)
    assert set(told) == {"trl, a", "trl, b", "ours, c"}
    assert told["ours, c"]["times_faster"] == pytest.approx(6.0), "beside the better of TRL's"


def test_both_sides_try_as_many_settings(script):
    assert len(script.OURS) == len(script.TRL)
