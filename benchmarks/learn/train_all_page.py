# ruff: noqa: E501 - paragraphs of a page
"""Writes ``docs/reports/train_all.md`` from what ``train_all.py`` measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from benchmarks.lib.machine import ROOT

PAGE = ROOT / "docs/reports/train_all.md"
GAIN = 0.2
"""Points, as a share, that reinforcement learning is to add to the warm start."""
WON = 0.9
"""Success above which a run that gained little says nothing."""
SCALES = {"CartPole-v1": (21.0, 100.0)}
"""Returns of a random player and of the best, in 100 turns, where success is not the point."""
PAID = (*SCALES, "CliffWalking-v1")
"""Environments whose return is shown as well."""
HEAD = """# One command, nothing else

The table shows `llm-gym train ID` without any setting (FrozenLake-v1 is not slippery): the built-in
model of 0.1 million weights, one seed, one CPU core, at most {minutes} CPU minutes. Columns are held-out success
in percent:

- of random weights;
- after the warm start, which imitates *random legal* moves and so learns the format only;
- after reinforcement learning;
- of the solver that comes with the environment.

The *gain* is what reinforcement learning adds to the warm start, in points. Warm start and trained are measured on
the same 100 held-out episodes, which are not those that choose the weights; random weights on 64. Differences
below 15 points are noise.

`benchmarks/results/train_all.json` also has returns, curves and all advice.
"""
SCALED = """
\\* returns are in brackets. CartPole's numbers are the share of the way from a random player's return to the best
possible in 100 turns (21 to 100).
"""
ELSEWHERE = """
† measured on two busy cores with torch 2.13: compare success with other rows, not CPU seconds.
"""
SINCE = """
Rows come from several commits, which the result file names, and defaults changed between them. Rows with † and
without §, and the rows with lower rates named below, use undiscounted shaping (in two short runs TowerOfHanoiEasy
reached 35 % with it and 18 % with the trainer's discount), a warm start of up to four rounds, and about twice as
many epochs.
"""
SLOWER = """
Learning rates after imitating a solver are lower today.
{new} ran with them; {old} did not.
"""
_SLOWER_SINCE = "067c296"
SHOWN = """
‡ random play was rewarded less than once per batch, so the warm start imitated the *solver*: its number is what
imitation alone reaches. A run that ends by itself returns to these weights if it lost success; a run that was cut
ends with the weights it has.
"""
SAME = """
§ from an earlier commit: weights were chosen by the same 100 episodes, which makes the number too high.
"""
CLIFF = """On CliffWalking (random -1,111, best -13) it learned not to fall, and reaches the goal in {percent} % of the
episodes: a better return, and no success.
"""


def write_page(results: dict[str, Any], commands: Sequence[str], examples: set[str]) -> None:
    """Write the page; ``examples`` are those of ``commands`` that README and docs show."""
    unknown = {"error": "not measured yet"}
    rows = {each: results["rows"].get(each, unknown) for each in commands}
    PAGE.write_text(page(rows, examples, results["provenance"]))


def page(rows: dict[str, Any], examples: set[str], provenance: dict[str, Any] | None) -> str:
    """Return the page."""
    ran = {each: row for each, row in rows.items() if "success" in row}
    plain = {each: row for each, row in ran.items() if each not in examples or _is_bare(each)}
    own = {each: row for each, row in plain.items() if "llm_gym/" in each}
    foreign = {each: row for each, row in plain.items() if "llm_gym/" not in each}
    parts = [
        HEAD.format(minutes=5),
        _where(provenance),
        _counted(own, foreign),
        _table("Families of the suite", own),
        _table("Environments of other packages, in words", foreign),
        _scaled(foreign),
        ELSEWHERE if any(_elsewhere(row) for row in ran.values()) else "",
        SINCE if any(row.get("commit") == "ea49bb9" for row in ran.values()) else "",
        SHOWN if any(_solver_shown(row) for row in ran.values()) else "",
        _slower(ran),
        SAME if any(not _fresh(row) for row in ran.values()) else "",
        _flattery(ran),
        _explained(plain),
        _examples({each: row for each, row in rows.items() if each in examples}),
        _failed({each: row for each, row in rows.items() if "success" not in row}),
    ]
    return "".join(parts)


def _slower(ran: Mapping[str, Any]) -> str:
    """Say which of the rows that imitated a solver have the rates of today."""
    named: dict[bool, list[str]] = {True: [], False: []}
    for row in filter(_solver_shown, ran.values()):
        name = row["env_id"].removeprefix("llm_gym/").removesuffix("-v0")
        named[row.get("commit") == _SLOWER_SINCE].append(name)
    if not (named[True] and named[False]):
        return ""
    return SLOWER.format(new=", ".join(named[True]), old=", ".join(named[False]))


def _scaled(foreign: dict[str, Any]) -> str:
    if not any(row["env_id"] in PAID for row in foreign.values()):
        return ""
    cliff = next((row for row in foreign.values() if row["env_id"] == "CliffWalking-v1"), None)
    return SCALED + (
        "" if cliff is None else CLIFF.format(percent=_percent(cliff["success"]["trained"]))
    )


def score(row: Mapping[str, Any], when: str) -> float | None:
    """Return success, or where the return lies between a random player's and the best."""
    if row["env_id"] not in SCALES:
        known: float | None = row["success"][when]
        return known
    low, high = SCALES[row["env_id"]]
    paid = row["return"][when]
    return None if paid is None else max(0.0, (paid - low) / (high - low))


def gain(row: Mapping[str, Any]) -> float | None:
    """Return what reinforcement learning added to the warm start."""
    before, after = score(row, "warm_start"), score(row, "trained")
    return None if before is None or after is None else round(after - before, 4)


def _elsewhere(row: Mapping[str, Any]) -> bool:
    return "machine" in row or row.get("cpus") == 2


def _solver_shown(row: Mapping[str, Any]) -> bool:
    return row.get("imitated") == "solver"


def _fresh(row: Mapping[str, Any]) -> bool:
    """Whether the end of a run is measured on episodes by which nothing was chosen."""
    return bool(row.get("fresh") or row["exit"] or row.get("stopped"))


def _flattery(rows: dict[str, Any]) -> str:
    """Say how much better the best evaluation looks than the same weights on other episodes."""
    ended = [row for row in rows.values() if row.get("fresh") and not row["stopped"]]
    if not ended:
        return ""
    off = fmean(row["success"]["best"] - row["success"]["trained"] for row in ended)
    return (
        f"\nOver {len(ended)} runs the best evaluation was on average {100 * off:.1f} points above what "
        "the same weights reached on other episodes.\n"
    )


def _is_bare(command: str) -> bool:
    """Whether a command has an environment's id and no setting, but for the slippery lake's."""
    rest = command.removeprefix("llm-gym train ").split()
    return "-v" in rest[0] and (len(rest) == 1 or rest[1] == "--import" or "slippery" in rest[-1])


def _where(provenance: dict[str, Any] | None) -> str:
    if provenance is None:
        return ""
    machine = provenance["machine"]
    return (
        f"\nMeasured at commit `{(provenance['commit'] or 'unknown')[:10]}` with torch "
        f"{machine['packages']['torch']}, several runs side by side on {machine['cpus']} cores, "
        "each with one thread.\n"
    )


def _counted(own: dict[str, Any], foreign: dict[str, Any]) -> str:
    lines = [
        f"{sum((gain(row) or 0) >= GAIN for row in rows.values())} of {len(rows)} {what}"
        for what, rows in (("families", own), ("other environments", foreign))
    ]
    return f"\nReinforcement learning added 20 points or more on {' and on '.join(lines)}.\n"


def _table(title: str, rows: dict[str, Any]) -> str:
    head = (
        f"\n## {title}\n\n| `llm-gym train …` | random weights | warm start | trained | gain | "
        "solver | unusable replies | episodes | CPU s |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|\n"
    )
    best_first = sorted(rows.items(), key=lambda item: -(gain(item[1]) or 0.0))
    return head + "".join(_line(command, row) for command, row in best_first)


def _line(command: str, row: dict[str, Any]) -> str:
    star = "\\*" if row["env_id"] in PAID else ""
    known = row["solver"]
    solved = None if known is None else known["success"]
    cells = [
        f"`{command.removeprefix('llm-gym train ')}`{star}{_marks(row)}",
        *(_measured(row, when) for when in ("random_weights", "warm_start", "trained")),
        "" if gain(row) is None else f"{100 * (gain(row) or 0.0):+.0f}",
        "" if star else _percent(solved),
        _percent(row["unusable"]["trained"]),
        f"{row['episodes']:,}",
        f"{row['cpu_s']:.0f}" + (" (cut)" if row["exit"] or row.get("stopped") else ""),
    ]
    return f"| {' | '.join(cells)} |\n"


def _marks(row: Mapping[str, Any]) -> str:
    marks = {"†": _elsewhere(row), "‡": _solver_shown(row), "§": not _fresh(row)}
    return "".join(mark for mark in marks if marks[mark])


def _measured(row: dict[str, Any], when: str) -> str:
    paid = row["return"][when]
    scaled = row["env_id"] in PAID and paid is not None
    return _percent(score(row, when)) + (f" ({paid:.0f})" if scaled else "")


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.0f}"


def _explained(rows: dict[str, Any]) -> str:
    """Say what the runs that gained little said about it themselves."""
    little = {each: row for each, row in rows.items() if (gain(row) or 0.0) < GAIN}
    if not little:
        return ""
    lines = [
        "\n## Smaller gains, and the advice that the run printed\n\n"
        "Flags have the names of that time: --model.local-path is --model today.\n\n"
    ]
    for command, row in little.items():
        won = row["success"]["trained"] or 0.0
        said = "; ".join(row["advice"]) or (
            f"none; {100 * won:.0f} % are won already" if won >= WON else "none"
        )
        lines.append(f"- `{command.removeprefix('llm-gym train ')}`: {said}\n")
    return "".join(lines)


def _examples(rows: dict[str, Any]) -> str:
    """Say how each example of README and docs fared at its full length."""
    head = (
        "\n## The examples of README and docs\n\nEvery training command there that needs no own "
        "model or module, at full length.\n\n"
        "| command | before | after | CPU s |\n|---|--:|--:|--:|\n"
    )
    lines = []
    for command, row in rows.items():
        if "success" not in row:
            lines.append(f"| `{command}` | | did not run | {row.get('cpu_s', '')} |\n")
            continue
        before = score(row, "warm_start")
        first = row["curve"][0] if before is None else before
        shown = f"{_percent(first)} | {_percent(score(row, 'trained'))} | {row['cpu_s']:.0f}"
        lines.append(f"| `{command}` | {shown} |\n")
    return head + "".join(lines)


def _failed(rows: dict[str, Any]) -> str:
    if not rows:
        return ""
    lines = [f"- `{each}`: {row.get('error', 'no row')}\n" for each, row in rows.items()]
    return "\n## Not measured\n\n" + "".join(lines)
