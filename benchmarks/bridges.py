"""Other suites through their bridges: how many keep the contract, and what a step costs.

Every environment that can be made here is checked as ours are, with fewer episodes and a limit of
processor time for each. Then one environment of each suite is played twice with the same replies:
bare, and through the bridge. A bridge around a game that does nothing shows what the bridge itself
takes. Suites that are not installed keep the row that the result file had before.

    python benchmarks/bridges.py
    python benchmarks/bridges.py --suites textarena gem

Writes ``results/bridges.json`` and the table of ``docs/bridges.md``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import re
import signal
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any

import bridge_costs
import doc_tables
import gymnasium as gym
from bridge_costs import seconds
from doc_tables import TEXT
from machine import ROOT, provenance

import llm_gym  # noqa: F401 - registers the ids
from llm_gym.bridges.base import BridgeEnv, BridgeStep
from llm_gym.evaluate import checker, fairness
from llm_gym.registry.bridges import BRIDGES, installed

RESULT = ROOT / "benchmarks" / "results" / "bridges.json"
PAGE = ROOT / "docs" / "bridges.md"
EPISODES, SEEDS, INSTANCES = 4, 20, 15
SLICES, STEPS = 60, 50


class TooLong(BaseException):
    """An environment took more processor time than it is given."""


@contextlib.contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raise ``TooLong`` in a block that takes longer."""

    def give_up(*_: object) -> None:
        raise TooLong

    signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


# --- what there is to check ----------------------------------------------------------------------


def textarena() -> Iterator[dict[str, Any]]:
    from textarena.envs.registration import ENV_REGISTRY

    first: dict[str, str] = {}
    for env_id, spec in ENV_REGISTRY.items():
        first.setdefault(str(spec.entry_point), env_id)
    yield from ({"env_id": env_id} for env_id in first.values())


def reasoning_gym() -> Iterator[dict[str, Any]]:
    from reasoning_gym.factory import DATASETS

    parts = {"datasets": [{"name": "chain_sum", "weight": 1.0, "config": {}}]}
    for name in sorted(DATASETS):
        yield {"dataset": name, **({"config": parts} if name == "composite" else {})}


def gem() -> Iterator[dict[str, Any]]:
    from gem.envs.registration import ENV_REGISTRY

    # The others are data sets to download, and reasoning-gym's.
    yield from ({"env_id": name} for name in ENV_REGISTRY if name.startswith("game:"))


def pettingzoo() -> Iterator[dict[str, Any]]:
    for game in ("tictactoe_v3", "connect_four_v3", "rps_v2", "go_v5", "chess_v6"):
        yield {"module": f"pettingzoo.classic.{game}"}


def verifiers() -> Iterator[dict[str, Any]]:
    yield from ({"env_id": name} for name in ("tiny-sums", "tiny-guess"))


def textworld() -> Iterator[dict[str, Any]]:
    yield {"games": bridge_costs.tw_games(), "max_turns": 20}


def jericho() -> Iterator[dict[str, Any]]:
    yield {"games": bridge_costs.tw_games(), "max_turns": 20}


def scienceworld() -> Iterator[dict[str, Any]]:
    yield {"task": "find-living-thing", "max_turns": 40}


def openenv() -> Iterator[dict[str, Any]]:
    yield {"url": bridge_costs.openenv_url(), "observation_field": "message"}


LISTED = {
    f.__name__: f
    for f in (
        *(textarena, reasoning_gym, gem, pettingzoo, verifiers),
        *(textworld, jericho, scienceworld, openenv),
    )
}
HAS = {
    "textarena": "games of words and boards, for one or against others",
    "reasoning_gym": "questions that are generated, with scorers",
    "gem": "games, and questions from data sets",
    "pettingzoo": "board and card games for several",
    "verifiers": "whatever its hub has, scored by rubrics",
    "textworld": "adventures that are generated",
    "jericho": "interactive fiction",
    "scienceworld": "experiments",
    "openenv": "whatever a server has",
}
UNMADE = {
    "needs words": "its words have to be downloaded",
    "****": "its words have to be downloaded",
    "Could not import": "needs a further package",
    "unmatched": "written for Python 3.12",
    "invalid syntax": "written for Python 3.12",
    "API key": "needs an API key",
    "too slow": "takes too long to begin",
}
OTHERS = "fails as it was published"
# No folder and no port of this machine belongs into the result.
NAMES = {"games": "games of our own", "url": "a server of OpenEnv's"}


def check(env_id: str, settings: dict[str, Any], seconds: int) -> str:
    """Return "" where the contract is kept, or what is not."""
    try:
        with limited(seconds):
            env = gym.make(env_id, **settings).unwrapped
            env.reset(seed=0)
    except TooLong:
        return "not made: too slow"
    except Exception as error:  # noqa: BLE001 - whatever it raised is the finding
        return f"not made: {' '.join(str(error).split())[:150]}"
    try:
        with limited(seconds):
            broken = [found for found in checker.audit(env) if found.passed is False]
    except TooLong:
        return "too slow to check"
    return "; ".join(f"{found.name}: {found.detail[:120]}" for found in broken)


# --- what a step costs ---------------------------------------------------------------------------


class Nothing(BridgeEnv):
    """A foreign game that does nothing, so that only the bridge is measured."""

    played = BridgeStep("Go on.")

    def begin(self, seed: int) -> str:
        return "Begin."

    def play(self, text: str) -> BridgeStep:
        return self.played


def own_time() -> float:
    """Return what a step of a bridge takes when the game behind it takes nothing."""
    env = Nothing()
    env.reset(seed=0)

    def steps() -> None:
        for _ in range(STEPS):
            env.step("[4]")

    return round(min(seconds(steps, 1) for _ in range(SLICES)) / STEPS * 1e6, 2)


# --- the result ----------------------------------------------------------------------------------


def measure(
    suite: str, env_id: str, limit: int, costs_only: bool, old: dict[str, Any]
) -> Iterator[dict[str, Any]]:
    """Yield the row of a suite again and again, with one environment more each time."""
    checker.EPISODES, fairness._SEEDS, fairness._SPLIT_INSTANCES = EPISODES, SEEDS, INSTANCES
    found: dict[str, str] = {}
    times = bridge_costs.side_by_side(bridge_costs.PAIRS[suite]())
    if costs_only and suite in old["suites"]:
        yield {**old["suites"][suite], **times}
        return
    with contextlib.suppress(Exception):  # importing a suite is not the first one's time
        gym.make(env_id, **next(LISTED[suite]())).reset(seed=0)
    for settings in LISTED[suite]():
        setting, value = next(iter(settings.items()))
        name = NAMES.get(setting, str(value))
        found[name] = check(env_id, settings, limit)
        print(f"  {name}: {found[name] or 'passes'}", file=sys.stderr, flush=True)
        made = {name: why for name, why in found.items() if not why.startswith("not made")}
        yield {
            "environments": len(found),
            "made": len(made),
            "pass": sum(not why for why in made.values()),
            "not_passing": {name: why for name, why in sorted(found.items()) if why},
            "seconds_each": limit,
            **times,
        }


def table(suites: dict[str, Any], own: float) -> str:
    columns = {"suite": TEXT, "what it has": TEXT}
    columns |= dict.fromkeys(("tried", "made here", "keep our contract"), "{}")
    columns |= dict.fromkeys(("a step, bare", "bridged"), "{:,.0f} µs")
    keys = ("environments", "made", "pass", "bare_us", "bridge_us")
    rows = [
        (name, has, *(suites[name][key] for key in keys))
        for name, has in HAS.items()
        if name in suites
    ]
    lines = ["<!-- results: bridges.json -->", doc_tables.table(columns, rows)]
    lines.append(
        f"\nThe bridge itself, around a game that does nothing: {own:.1f} µs a step.\n"
        "<!-- results: bridges.json -->"
    )
    lines += ["", "What does not keep it, and which rule it breaks:", ""]
    lines += [f"- {name}: {told}" for name, row in suites.items() if (told := broken(row))]
    lines += ["", "What was not made here:", ""]
    lines += [f"- {name}: {told}" for name, row in suites.items() if (told := unmade(row))]
    return "\n".join(lines)


def unmade(row: dict[str, Any]) -> str:
    """Return why environments of a suite could not be made, and how many of them."""
    why = [text for text in row["not_passing"].values() if text.startswith("not made")]
    said = [next((short for part, short in UNMADE.items() if part in text), OTHERS) for text in why]
    counted = Counter(said).most_common()
    return "; ".join(f"{text} ({count})" for text, count in counted)


def broken(row: dict[str, Any]) -> str:
    """Return the rules that environments of a suite break, and which of them do."""
    rules: dict[str, list[str]] = {}
    for name, why in row["not_passing"].items():
        if not why.startswith("not made"):
            for part in why.split("; "):
                rules.setdefault(part.partition(":")[0], []).append(f"`{name}`")
    return "; ".join(f"{rule} ({', '.join(names)})" for rule, names in sorted(rules.items()))


def main() -> None:
    """Measure the suites that are installed, and write the result and the table."""
    here = [row for row in BRIDGES if row.package in LISTED and installed(row)]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suites", nargs="*", default=[row.package for row in here])
    parser.add_argument("--seconds", type=int, default=10, help="for each environment")
    parser.add_argument("--costs-only", action="store_true", help="keep what was checked before")
    options = parser.parse_args()
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    old = json.loads(RESULT.read_text()) if RESULT.exists() else {"suites": {}}
    suites, own = old["suites"], own_time()
    sys.path.insert(0, str(ROOT / "tests" / "bridges" / "verifiers_envs"))
    with bridge_costs.servers():
        for row in here:
            if row.package in options.suites:
                print(row.package, file=sys.stderr)
                for found in measure(row.package, row.id, options.seconds, options.costs_only, old):
                    suites[row.package] = found
                    write(suites, own)
    write(suites, own)
    print(json.dumps({"own_us": own, **{k: v["pass"] for k, v in suites.items()}}))


def write(suites: dict[str, Any], own: float) -> None:
    """Write the result file and the table of the page."""
    result = {
        **provenance(__file__),
        "joined": "each suite by a run of this command where it was installed",
        "episodes": EPISODES,
        "own_us": own,
        "suites": suites,
    }
    RESULT.write_text(json.dumps(result, indent=2) + "\n")
    page = PAGE.read_text()
    drawn = f"<!-- bridges -->\n{table(suites, own)}\n<!-- /bridges -->"
    PAGE.write_text(re.sub(r"<!-- bridges -->.*<!-- /bridges -->", drawn, page, flags=re.S))


if __name__ == "__main__":
    main()
