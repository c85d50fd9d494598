"""Write the tables of README and docs from result files, and check every number on the pages.

    python -m benchmarks.pages            # rewrite the pages
    python -m benchmarks.pages --check    # change nothing; print how old each result is; fail on a
                                          # loose number, a stale table or a stale headline

A table stands between two markers, ``<!-- NAME -->`` and ``<!-- /NAME -->``.
"""

from __future__ import annotations

import argparse
import functools
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from statistics import fmean
from textwrap import fill
from typing import Any

import benchmarks.envs.tables as envs
import benchmarks.learn.tables as learn
import benchmarks.peers.tables as peers
import benchmarks.scale.tables as scale
from benchmarks.envs import leaderboard
from benchmarks.learn import referee, steady
from benchmarks.learn.tables import GAIN, above_random, model_goals, pairs_won, suite_means
from benchmarks.lib import age, numbers
from benchmarks.lib.curves import GOAL, learned
from benchmarks.lib.machine import ROOT
from benchmarks.lib.tables import TEXT, read, table
from benchmarks.peers.tables import VERL_PARTS, name_of
from benchmarks.peers.trl import alone
from benchmarks.peers.trl import summary as summary_of
from llm_gym.registry.suite import ENVS


def summary() -> str:
    seeds = read("demo")["rows"]
    before, fresh = (
        f"{100 * min(row[when] for row in seeds):.1f}-{max(row[when] for row in seeds):.1%}"
        for when in ("before", "fresh")
    )
    times = [row["cpu_s"] for row in seeds]
    text = (
        f"Over {len(seeds)} seeds the demo goes from {before} success to {fresh} on 1,000 fresh "
        f"held-out episodes, in {min(times):.0f}-{max(times):.0f} CPU seconds. There are "
        f"{len({row.entry_point for row in ENVS})} games in {len(ENVS)} configurations."
    )
    return fill(text, 100, break_long_words=False, break_on_hyphens=False)


def reached() -> str:
    """Return a row for each section of the results: what was reached."""
    rows = (
        ("[demo](#the-demo-on-a-laptop), laptop", _demo(read("demo"))),
        (
            "[six games, seven estimators](#six-games-seven-estimators), CPU",
            "{} of {} pairs of game and estimator end at {:.0%} with every seed".format(
                *pairs_won(learned(read("learning")["rows"])), GOAL
            ),
        ),
        ("[`llm-gym train ID`](train_all.md) without settings", _train_all(read("train_all"))),
        (
            "[SmolLM2-135M](train_all.md#a-real-model) without settings, one H200",
            f"{model_goals(read('train_model')['rows'])}, within five minutes each",
        ),
        (
            "[one SmolLM2-135M for 24 games](train_all.md#one-model-for-24-games), one H200",
            suite_means(read("suite_model")["rows"]),
        ),
        (
            "[advantage estimators](credit.md): ten published claims",
            _claims(read("referee")["rows"]),
        ),
        ("[beside TRL](#beside-trl-on-a-cpu), CPU", _trl(read("trl_cpu"))),
        (
            "[beside TRL](#beside-trl-on-one-h200), one H200",
            _updates(read("trl_h200")),
        ),
        ("[beside verl's functions](#beside-verl)", _verl(read("verl"))),
    )
    return table({"what": TEXT, "result": TEXT}, rows)


def _claims(rows: Any) -> str:
    verdicts = [each for each in referee.verdicts(rows) if each["claim"] != referee.OWN]
    found = Counter(each["verdict"] for each in verdicts)
    return ", ".join(
        f"{count} {verdict.removesuffix('s')}" for verdict, count in found.most_common()
    )


def _demo(result: Any) -> str:
    fresh, cpu_s = ([row[key] for row in result["rows"]] for key in ("fresh", "cpu_s"))
    return f"{_span(fresh, '{:.1%}')} success with {len(fresh)} seeds, {_span(cpu_s)} CPU seconds"


def _train_all(result: Any) -> str:
    seeds: dict[str, list[float]] = {}
    for command, row in result["rows"].items():
        ours = command.startswith("llm-gym train llm_gym/") and "--warm-start" not in command
        if "success" in row and ours:
            seeds.setdefault(row["env_id"], []).append(above_random(row) or 0.0)
    won = sum(fmean(each) >= GAIN for each in seeds.values())
    return f"{won} of {len(seeds)} families end {100 * GAIN:.0f} points or more above random play"


def _trl(result: Any) -> str:
    rows = summary_of(result["rows"], result["goal"]).values()
    ends = ", ".join(f"{row['name']} {row['final']:.0%}" for row in rows)
    return f"success after equal CPU seconds: {ends}"


def _updates(result: Any) -> str:
    took, found = alone(result["rows"]), summary_of(result["rows"], result["goal"])
    updates = (f"{name_of(arm)} {took[arm]:.2f}" for arm in ("ppo", "grpo", "trl"))
    ways = (f"{row['name']} {row['to_goal'] or float('inf'):.0f}" for row in found.values())
    return (
        f"seconds to {result['goal']:.0%} success: {', '.join(ways)}; "
        f"seconds of an update alone: {', '.join(updates)}"
    )


def _verl(result: Any) -> str:
    rows = result["rows"].items()
    return ", ".join(f"{VERL_PARTS[name]} {row['times']:.1f}x" for name, row in rows) + " as fast"


def _span(values: Iterable[float], form: str = "{:.0f}") -> str:
    values = list(values)
    return f"{form.format(min(values))} to {form.format(max(values))}"


def _from_file(write: Callable[[Any], str], name: str) -> str:
    return write(read(name))


TABLES: dict[str, Callable[[], str]] = {
    "summary": summary,
    "reached": reached,
    "leaderboard": lambda: leaderboard.table(leaderboard.all_models()),
} | {
    marker: functools.partial(_from_file, *source)
    for room in (envs, learn, steady, peers, scale)
    for marker, source in room.TABLES.items()
}
PLATFORMS = "platforms"
"""A table of ``docs/faq.md`` that ``.ci/platforms.py`` writes."""
UNCHECKED = ("CHANGELOG.md", "SECURITY.md")
"""What was measured at the time, and limits."""
PAGES = [
    *(page for page in sorted(ROOT.glob("*.md")) if page.name not in UNCHECKED),
    *(ROOT / room / "README.md" for room in ("agents", "benchmarks", "tests")),
    *sorted((ROOT / "docs").rglob("*.md")),
]


def filled(text: str) -> str:
    """Return ``text`` with every table between markers written anew."""
    for name, write in TABLES.items():
        marked = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        text = marked.sub(lambda found, write=write: f"{found[1]}{write()}\n{found[2]}", text)
    return text


def wrong() -> list[str]:
    """Return a sentence for each stale table, number without a file and incomplete result."""
    found = [each for name, result in age.result_files() for each in age.problems(name, result)]
    for page in PAGES:
        name, text = page.relative_to(ROOT).as_posix(), page.read_text()
        if filled(text) != text:
            found.append(f"{name} is not up to date: run python -m benchmarks.pages")
        found += numbers.check(name, text, (*TABLES, PLATFORMS))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing")
    if parser.parse_args().check:
        print(age.ages_table())
        found = [*wrong(), *age.stale_headlines((ROOT / "README.md").read_text())]
        print("\n".join(found) or f"{len(PAGES)} pages: every measured number has its file")
        sys.exit(bool(found))
    for page in PAGES:
        page.write_text(filled(page.read_text()))


if __name__ == "__main__":
    main()
