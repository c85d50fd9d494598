"""The demo's sweep: seed by seed, on seeds that are not reported, the cheapest variant first."""

import importlib
from pathlib import Path

import pytest


@pytest.fixture
def sweep(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    return importlib.import_module("demo_sweep")


def test_all_variants_of_a_seed_run_before_the_next_seed(sweep):
    jobs = sweep.jobs(["recipe", "short"], [3, 4])
    assert [job.key for job in jobs] == ["recipe/3", "short/3", "recipe/4", "short/4"]
    at = jobs[1].command.index("--set")
    assert tuple(jobs[1].command[at + 1 :]) == sweep.VARIANTS["short"]


def test_it_chooses_on_seeds_that_the_demo_does_not_report(sweep):
    assert not {0, 1, 2} & set(sweep.SEEDS)


def test_the_cheapest_comes_first_and_what_failed_is_left_out(sweep):
    row = {"fresh": 0.95, "iterations": 20}
    text = sweep.table(
        {
            "recipe/3": row | {"cpu_s": 100.0},
            "short/3": row | {"cpu_s": 80.0, "fresh": 0.91},
            "short/4": row | {"cpu_s": 60.0},
            "half/3": {"error": "stopped"},
        }
    )
    lines = text.splitlines()[1:]
    assert [line.split()[0] for line in lines] == ["short", "recipe"]
    assert lines[0].split()[1:4] == ["70.0", "80.0", "91.0%"]
