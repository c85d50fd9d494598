"""The tables of ``docs/results.md``, and that of ``docs/remote.md``, from their result files.

A figure stands above its table where there is one. A file that is not there yet is said to be
missing, with the command that makes it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from curves.table import GOAL, learned, table
from learning import EPISODES, ESTIMATORS, SEEDS

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"


def _from(name: str, command: str, write: Callable[[Any], str]) -> str:
    path = RESULTS / f"{name}.json"
    if not path.exists():
        return f"Not measured yet: `{command}` writes `benchmarks/results/{name}.json`."
    return write(json.loads(path.read_text()))


def _figure(name: str, about: str) -> list[str]:
    exists = (ROOT / "docs" / "images" / name).exists()
    return [f"![{about}](images/{name})", ""] if exists else []


def learning() -> str:
    return _from("learning", "python benchmarks/learning.py --lanes 13", _learning)


def _learning(result: Any) -> str:
    rows = result["rows"]
    found = learned(rows)
    done = sum(len(game[name]) for game in found.values() for name in ESTIMATORS)
    wanted = len(EPISODES) * len(ESTIMATORS) * len(SEEDS)
    cut = [key for key, row in rows.items() if row.get("error", "").startswith("stopped after")]
    failed = [key for key, row in rows.items() if "error" in row and key not in cut]
    games = [game for game in EPISODES if game in found]
    reached = sum(
        all(run["final"] >= GOAL for run in found[game][name])
        for game in games
        for name in ESTIMATORS
        if found[game][name]
    )
    asked = sum(bool(found[game][name]) for game in games for name in ESTIMATORS)
    lines = [
        f"{done} of {wanted} runs; with {reached} of {asked} pairs of game and estimator every "
        f"seed that was run ended at {GOAL:.0%} or more."
        + (f" {len(cut)} more were cut when the time was up." if cut else "")
        + (f" {len(failed)} runs failed: {', '.join(failed)}." if failed else ""),
        "",
        *_figure("learning_cpu.png", "success against CPU seconds, a panel for each game"),
        *_figure("learning_episodes.png", "success against episodes, a panel for each game"),
        table(rows, games),
    ]
    return "\n".join(lines)


def trl_train() -> str:
    return _from("trl_train", "python benchmarks/peers/trl_train.py", _trl_train)


def _trl_summary(result: Any) -> dict[str, Any]:
    sys.path.insert(0, str(ROOT / "benchmarks" / "peers"))
    from trl_train import summary

    return summary(result["rows"])


def _trl_train(result: Any) -> str:
    lines = _figure("trl.png", "success of both sides against episodes and CPU seconds")
    lines += [
        "| side, setting | seeds | start | end, mean | lowest to highest | peak, mean | episodes "
        "| CPU s | CPU s of an update | CPU s to 60 % | to TRL's end | times faster |",
        f"| --- |{' ---: |' * 11}",
    ]
    for name, row in _trl_summary(result).items():
        way, times = row.get("cpu_s_to_trl_final"), row.get("times_faster")
        there = row["cpu_s_to_60"]
        lines.append(
            f"| {name} | {row['seeds']} | {row['start']:.1%} | {row['final']:.1%} "
            f"| {row['lowest']:.1%} to {row['highest']:.1%} | {row['peak']:.1%} "
            f"| {row['episodes']:,.0f} | {row['cpu_s']:.0f} | {row['cpu_s_per_update']:.2f} "
            f"| {'-' if there is None else f'{there:.0f}'} "
            f"| {'-' if way is None else f'{way:.0f}'} "
            f"| {'-' if times is None else f'{times:.1f}x'} |"
        )
    return "\n".join(lines)


def trl_headline() -> str:
    """Return how we compare with TRL in one sentence, empty while nobody has measured it."""
    path = RESULTS / "trl_train.json"
    if not path.exists():
        return ""
    told = _trl_summary(json.loads(path.read_text()))
    peers = [row for name, row in told.items() if name.startswith("trl")]
    theirs = max(peers, key=lambda row: row["final"], default=None)
    ours = [row for name, row in told.items() if name.startswith("ours")]
    best = max(ours, key=lambda row: row.get("times_faster") or 0.0, default=None)
    if theirs is None or best is None or not best.get("times_faster") or best["seeds"] < 3:
        return ""  # one seed is no headline
    return (
        "On the same tiny model, game and batch it reaches the "
        f"{theirs['final']:.0%} that TRL 1.16 ends with in "
        f"{best['cpu_s_to_trl_final']:.0f} CPU seconds instead of "
        f"{theirs['cpu_s_to_trl_final']:.0f}, and goes on to {best['final']:.0%} "
        "([results](docs/results.md))."
    )


def trl_gpu() -> str:
    return _from("trl_gpu", "python benchmarks/peers/trl_gpu.py --model FOLDER", _trl_gpu)


def _trl_gpu(result: Any) -> str:
    told = result["summary"]
    lines = [
        "![success of both sides against seconds and episodes](images/trl_gpu.png)",
        "",
        "| side | engine | updates | first batch | last five | best five | seconds of an update "
        "| seconds to the same success | episodes to it |",
        f"| --- | --- |{' ---: |' * 7}",
    ]
    for name, side in result["sides"].items():
        if name not in told["runs"]:
            why = side["error"].splitlines()[-1] if side["error"] else "no batch"
            lines.append(f"| {name} | {side['backend']} | failed: {why} | | | | | | |")
            continue
        row = told["runs"][name]
        ways = (row.get("seconds_to_goal"), row.get("episodes_to_goal"))
        lines.append(
            f"| {name} | {side['backend']} | {row['updates']} | {row['first']:.1%} "
            f"| {row['final']:.1%} | {row['peak']:.1%} | {row['s_per_update']:.2f} "
            f"| {' | '.join('-' if way is None else f'{way:,.0f}' for way in ways)} |"
        )
    if told.get("times_faster"):
        ours, theirs = told["best"]["ours"], told["best"]["trl"]
        lines += [
            "",
            f"The best of each side ({ours}; {theirs}), to the {told['goal']:.1%} that both reach: "
            f"{told['times_faster']:.1f}x as fast; an update: {told['times_per_update']:.1f}x as "
            "fast.",
        ]
    return "\n".join(lines)


def verl_parts() -> str:
    return _from("verl_parts", "python benchmarks/peers/verl_parts.py", _verl_parts)


def _verl_parts(result: Any) -> str:
    lines = [
        "| part | ours, ms | verl, ms | times as fast | largest difference |",
        f"| --- |{' ---: |' * 4}",
    ]
    names = {"gae": "GAE", "grpo": "GRPO", "rloo": "RLOO", "ppo": "PPO loss and its gradient"}
    for name, row in result["rows"].items():
        if "error" in row["verl"]:
            lines.append(
                f"| {names[name]} | {1e3 * row['ours_s']:.0f} | {row['verl']['error']} | | |"
            )
            continue
        lines.append(
            f"| {names[name]} | {1e3 * row['ours_s']:.0f} | {1e3 * row['verl']['seconds']:.0f} "
            f"| {row['times']:.1f}x | {row['apart']:.0e} |"
        )
    return "\n".join(lines)


def agilerl() -> str:
    return _from("agilerl_train", "python benchmarks/peers/agilerl_train.py", _agilerl)


def _agilerl(result: Any) -> str:
    lines = [
        "| side | updates | CPU s of an update | playing | learning | success of the first batches "
        "| of the last |",
        f"| --- |{' ---: |' * 6}",
    ]
    for name, row in result["rows"].items():
        if "error" in row:
            lines.append(f"| {name} | does not run: {row['error']} | | | | | |")
            continue
        lines.append(
            f"| {name} | {row['updates']} | {row['cpu_s_per_update']:.2f} "
            f"| {_seconds(row.get('play_s'))} | {_seconds(row.get('learn_s'))} "
            f"| {row['first']:.1%} | {row['last']:.1%} |"
        )
    return "\n".join(lines)


def serve() -> str:
    return _from("serve", "python benchmarks/serve.py", _serve)


def _serve(result: Any) -> str:
    lines = [
        "| | steps/s | beside OpenEnv's | by the server's processor time |",
        "| --- | ---: | ---: | ---: |",
    ]
    for name, row in result["speed"].items():
        lines.append(
            f"| {name.replace('llm-gym serve', '`llm-gym serve`')} | {row['steps_per_s']:,} "
            f"| {row['times_openenv']:.1f}x | {row['times_openenv_by_cpu']:.1f}x |"
        )
    memory = result["memory"]
    lines += [
        "",
        f"The server holds {memory['rss_mib_after_5000']:.1f} MiB after 5,000 sessions, and "
        f"{memory['rss_mib_at_the_end']:.1f} MiB after {memory['sessions']:,}.",
    ]
    return "\n".join(lines)


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
