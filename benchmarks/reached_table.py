"""The first table of ``docs/results.md``: what was reached, from the files of all the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from curves.table import GOAL, learned
from doc_tables import TEXT, measured, table
from gpu_tables import minutes
from learning import ESTIMATORS
from result_tables import VERL_PARTS, trl_best
from train_all_page import GAIN, gain

WON = 0.9
"""Success that a game counts as learned from."""


@measured("demo", "make bench-demo")
def _demo(result: Any) -> str:
    fresh, cpu_s = ([row[key] for row in result["rows"]] for key in ("fresh", "cpu_s"))
    return f"{_span(fresh, '{:.1%}')} success with {len(fresh)} seeds, {_span(cpu_s)} CPU seconds"


@measured("learning", "python benchmarks/learning.py")
def _learning(result: Any) -> str:
    found = learned(result["rows"])
    pairs = [found[game][name] for game in found for name in ESTIMATORS if found[game][name]]
    won = sum(all(run["final"] >= GOAL for run in runs) for runs in pairs)
    return f"{won} of {len(pairs)} pairs of game and estimator end at {GOAL:.0%} with every seed"


@measured("train_all", "python benchmarks/train_all.py")
def _train_all(result: Any) -> str:
    rows = {
        row["env_id"]: gain(row) or 0.0
        for command, row in result["rows"].items()
        if "success" in row and command.startswith("llm-gym train llm_gym/")
    }
    won = sum(each >= GAIN for each in rows.values())
    return f"{won} of {len(rows)} families gain {100 * GAIN:.0f} points or more"


@measured("real_model", "python benchmarks/real_model.py --model FOLDER")
def _real_model(result: Any) -> str:
    games: dict[str, list[Any]] = {}
    for run in result["runs"]:
        games.setdefault(run["game"], []).append(run)
    won = {
        game: runs
        for game, runs in games.items()
        if len(runs) >= 3 and all(_trained(run) >= WON > run["warm"]["success"] for run in runs)
    }
    runs = [run for each in won.values() for run in each]
    if not runs:
        return f"no game at {WON:.0%}"
    return (
        f"{', '.join(sorted(won))}: {min(map(_trained, runs)):.0%} or more with each of three "
        f"seeds, in at most {max(map(minutes, runs)):.1f} minutes"
    )


@measured("trl_train", "python benchmarks/peers/trl_train.py")
def _trl_train(result: Any) -> str:
    ours, theirs = trl_best(result)
    if ours is None or theirs is None:
        return "nothing to compare"
    return (
        f"to the {theirs['final']:.0%} that TRL ends with in "
        f"{ours['cpu_s_to_trl_final']:.0f} CPU seconds instead of "
        f"{theirs['cpu_s_to_trl_final']:.0f}, {ours['times_faster']:.1f}x"
    )


@measured("trl_gpu", "python benchmarks/peers/trl_gpu.py --model FOLDER")
def _trl_gpu(result: Any) -> str:
    told = result["summary"]
    return (
        f"{told['times_faster']:.1f}x as fast to the same success, "
        f"{told['times_per_update']:.1f}x an update"
    )


@measured("agilerl_train", "python benchmarks/peers/agilerl_train.py")
def _agilerl(result: Any) -> str:
    ours, theirs = (result["rows"][side]["cpu_s_per_update"] for side in ("ours", "patched"))
    return f"{ours:.2f} CPU seconds an update instead of {theirs:.2f}"


@measured("verl_parts", "python benchmarks/peers/verl_parts.py")
def _verl(result: Any) -> str:
    times = ((VERL_PARTS[name], row.get("times")) for name, row in result["rows"].items())
    return ", ".join(f"{name} {each:.1f}x" for name, each in times if each) + " as fast"


def reached() -> str:
    """A row for each section of the page: what was asked, what came of it, how to repeat it."""
    python = "`python benchmarks/{}`".format
    rows = (
        ("[the demo](#a-laptop-the-demo), on a laptop", _demo(), "`make bench-demo`"),
        (
            "[seven games, five estimators](#seven-games-five-estimators-three-seeds), on a CPU",
            _learning(),
            python("learning.py"),
        ),
        ("[`llm-gym train ID`](train_all.md) and no setting", _train_all(), python("train_all.py")),
        (
            "[SmolLM2-135M](#a-real-model-on-one-h200), on one H200",
            _real_model(),
            python("real_model.py --model FOLDER"),
        ),
        (
            "[beside TRL](#beside-trl-on-a-cpu), on a CPU",
            _trl_train(),
            python("peers/trl_train.py"),
        ),
        (
            "[beside TRL](#beside-trl-on-one-h200), on one H200",
            _trl_gpu(),
            python("peers/trl_gpu.py --model FOLDER"),
        ),
        (
            "[beside AgileRL](#beside-agilerl-on-a-cpu), on a CPU",
            _agilerl(),
            python("peers/agilerl_train.py"),
        ),
        ("[beside verl's functions](#beside-verl)", _verl(), python("peers/verl_parts.py")),
    )
    return table(dict.fromkeys(("what", "what was reached", "repeat it"), TEXT), rows)


def _span(values: Iterable[float], form: str = "{:.0f}") -> str:
    values = list(values)
    return f"{form.format(min(values))} to {form.format(max(values))}"


def _trained(run: dict[str, Any]) -> float:
    return float(run["trained"]["success"]) if "error" not in run else 0.0
