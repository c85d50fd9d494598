r"""The leaderboard of the suite: built-in players and all evaluated models.

    llm-gym eval --suite --endpoint http://host/v1 --model NAME --json \
        | python -m benchmarks.envs.leaderboard --add - --name "my model"     # and write the page
    python -m benchmarks.envs.leaderboard                                     # only write it

``--add`` takes the output of ``llm-gym eval --json`` and replaces rows of the same ids. It writes
``benchmarks/results/leaderboard.json``, a section of ``docs/reports/results.md``, and the heat map
``docs/images/leaderboard.png``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.learn.tables import runs_by_id
from benchmarks.lib.machine import GAME_PATHS, RESULTS, ROOT, provenance
from benchmarks.lib.tables import TEXT
from benchmarks.lib.tables import read as read_result
from benchmarks.lib.tables import table as doc_table
from llm_gym.evaluate.scores import published
from llm_gym.registry.suite import ENVS

RESULT = RESULTS / "leaderboard.json"
PICTURE = ROOT / "docs" / "images" / "leaderboard.png"
IDS = [row.id for row in ENVS]
FAMILIES = [
    min(
        (row.id for row in ENVS if row.entry_point == game),
        key=lambda id: ("Easy" not in id, len(id)),
    )
    for game in dict.fromkeys(row.entry_point for row in ENVS)
]
"""One id of each game, the easiest."""
PLAYERS = ("solver", "reflex", "random")
EVALUATED = 100
"""Held-out episodes after ``llm-gym train``."""
KEPT = ("episodes", "success", "success_low", "success_high", "turns", "invalid")


def read(path: Path = RESULT) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())["models"] if path.exists() else {}
    return found


def specialists() -> dict[str, Any]:
    """Return SmolLM2 after ``llm-gym train ID``, one model for each family, as one player."""
    runs = runs_by_id(read_result("train_model")["rows"])
    rows = {
        id: {
            "success": statistics.fmean(row["success"]["trained"] for row in own),
            "invalid": statistics.fmean(row["unusable"]["trained"] for row in own),
            "episodes": EVALUATED * len(own),
        }
        for id, own in runs.items()
        if id in IDS
    }
    note = "`llm-gym train ID`, five minutes each"
    return {"SmolLM2-135M, one model for each game": {"note": note, "rows": rows}} if rows else {}


def generalist() -> dict[str, Any]:
    """Return SmolLM2 after imitating the solvers of 24 games, in these and six other families."""
    rows = {
        row["env"]: row
        for key, row in read_result("suite_model")["rows"].items()
        if key.startswith("after/")
    }
    name = "SmolLM2-135M, one model for 24 of 30 games"
    return {name: {"note": "`llm-gym train --suite easy`", "rows": rows}} if rows else {}


def all_models() -> dict[str, Any]:
    return read() | specialists() | generalist()


def add(given: Any, name: str, note: str, path: Path = RESULT) -> None:
    """Put the rows of an evaluation under ``name``; rows of other ids stay."""
    rows = given["rows"] if isinstance(given, dict) else given
    unknown = [row["env"] for row in rows if row["env"] not in IDS]
    if unknown or not rows:
        sys.exit(f"rows must be of environments of the suite, got {', '.join(unknown) or 'none'}")
    models = read(path)
    known = models.setdefault(name, {"note": note, "rows": {}})
    known["note"] = note or known["note"]
    known["made_by"] = provenance(__file__, depends_on=GAME_PATHS)
    known["rows"] |= {row["env"]: {key: row[key] for key in KEPT} for row in rows}
    path.write_text(json.dumps({"models": models}, indent=1) + "\n")


def normalised(env_id: str, success: float) -> float | None:
    """Return ``success`` on the scale from the random player (0) to the solver (1)."""
    scores = published()[env_id]
    span = scores["solver"].success - scores["random"].success
    return (success - scores["random"].success) / span if span > 0 else None


def table(models: Mapping[str, Any]) -> str:
    """Return a table of mean success in one game of each family, and in all environments."""
    columns = {"player": TEXT, f"{len(FAMILIES)} games": "{:.1%}", "random 0, solver 1": "{:.2f}"}
    columns |= {"unusable replies": "{:.0%}", f"all {len(IDS)}": "{:.1%}"}
    rows: list[tuple[Any, ...]] = []
    for player in PLAYERS:
        won = {env_id: {"success": published()[env_id][player].success} for env_id in IDS}
        rows.append((f"{player} player", _mean(won), _place(won), None, _mean(won, IDS)))
    for name, model in sorted(models.items(), key=lambda each: -_place(each[1]["rows"])):
        note, won = f" ({model['note']})" if model["note"] else "", model["rows"]
        invalid = _mean(won, key="invalid")
        rows.append((name + note, _mean(won), _place(won), invalid, _mean(won, IDS)))
    return doc_table(columns, rows)


def _mean(
    rows: Mapping[str, Any], ids: Iterable[str] = FAMILIES, key: str = "success"
) -> float | None:
    """Return the mean over ``ids``; None if one of them was not played."""
    found = [rows.get(env_id, {}).get(key) for env_id in ids]
    return None if None in found else statistics.fmean(found)


def _place(rows: Mapping[str, Any]) -> float:
    ids = [env_id for env_id in FAMILIES if env_id in rows]
    places = [normalised(env_id, rows[env_id]["success"]) for env_id in ids]
    return statistics.fmean(place for place in places if place is not None)


def draw(models: Mapping[str, Any], path: Path = PICTURE) -> None:
    """Draw success as a heat map: a row for each player, a column for each environment."""
    import numpy as np
    from matplotlib.figure import Figure

    players = [*PLAYERS, *sorted(models, key=lambda name: -_place(models[name]["rows"]))]
    cells = np.full((len(players), len(IDS)), np.nan)
    for at, env_id in enumerate(IDS):
        for row, player in enumerate(players):
            if player in models:
                found = models[player]["rows"].get(env_id, {})
                cells[row, at] = found.get("success", np.nan)
            else:
                cells[row, at] = published()[env_id][player].success
    size = (0.19 * len(IDS), 0.36 * len(players) + 1.6)
    figure = Figure(figsize=size, dpi=100, layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(cells, aspect="auto", cmap="viridis", vmin=0, vmax=1)
    names = [env_id.removeprefix("llm_gym/").removesuffix("-v0") for env_id in IDS]
    axes.set_xticks(range(len(IDS)), names, fontsize=8, rotation=90)
    axes.set_yticks(range(len(players)), players, fontsize=9)
    axes.tick_params(length=0)
    axes.set_facecolor("#e8e8e8")
    bar = figure.colorbar(image, ax=axes, pad=0.01)
    bar.set_label("success\n(grey: not played)", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--add", type=argparse.FileType(), metavar="FILE", help="an evaluation, - for a pipe"
    )
    parser.add_argument("--name", help="what the model is called")
    parser.add_argument("--note", default="", help="how it was served or trained")
    args = parser.parse_args()
    if (args.add is None) != (args.name is None):
        parser.error("--add and --name go together")
    if args.add:
        add(json.load(args.add), args.name, args.note)
    draw(all_models())
    subprocess.run([sys.executable, "-m", "benchmarks.pages"], check=True, cwd=ROOT)


if __name__ == "__main__":
    main()
