"""Draws the rooms of both packages and who imports whom, as the code has it.

    python docs/draw_architecture.py            # draw
    python docs/draw_architecture.py --check    # say whether the picture is up to date

Rooms stand in the order of their imports: what is above knows nothing of what is below, so every
arrow points up. One that pointed down, in a circle, would be drawn red on the other side.
Transitive arrows are pale. What a room is for is the first
sentence of its own docstring. Writes ``images/architecture.svg`` and the same as data,
``images/architecture.json``, which a test holds against the code.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
HOMES = {"llm_gym": ROOT / "llm_gym", "llm_gym_agents": ROOT / "agents" / "llm_gym_agents"}
EVERYWHERE = ("__init__", "__main__", "__version__")
"""Imported by all, or nothing but other rooms' names: arrows to and from them say nothing."""

Arrows = list[tuple[str, str]]


def rooms(package: str) -> dict[str, str]:
    """Return the rooms of ``package``, each below all that it imports, with what it is for."""
    found = {}
    for path in sorted(HOMES[package].iterdir()):
        opening = path / "__init__.py" if path.is_dir() else path
        if opening.suffix == ".py" and opening.exists() and path.stem not in EVERYWHERE:
            found[path.stem] = _first_sentence(opening)
    if package == "llm_gym_agents":
        found["llm_gym"] = _first_sentence(HOMES["llm_gym"] / "__init__.py")
    return {name: found[name] for name in _in_order(sorted(found), arrows(package))}


def _in_order(names: list[str], found: Arrows) -> list[str]:
    """Return names so that each comes after those it has arrows to; a circle ends the order."""
    placed: list[str] = []
    while left := [name for name in names if name not in placed]:
        free = [
            name
            for name in left
            if all(target in placed for source, target in found if source == name)
        ]
        placed += free or left
    return placed


def _first_sentence(path: Path) -> str:
    text = (ast.get_docstring(ast.parse(path.read_text())) or "").split("\n\n")[0]
    return " ".join(text.replace("``", "").split()).split(". ")[0].rstrip(".")


@cache
def arrows(package: str) -> Arrows:
    """Return which room imports from which, at any depth, lazily or for types alone."""
    found = set()
    for path in sorted(HOMES[package].rglob("*.py")):
        room = path.relative_to(HOMES[package]).parts[0].removesuffix(".py")
        for module in imports(path):
            target = _room_of(module, package)
            if target and target != room and not {room, target} & set(EVERYWHERE):
                found.add((room, target))
    return sorted(found)


def imports(path: Path) -> Iterator[str]:
    """Yield every module, or name of one, that a file imports at any depth."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _room_of(module: str, package: str) -> str | None:
    home, *inside = module.split(".")
    if home not in HOMES or inside[:2] == ["core", "errors"]:  # everybody raises them
        return None
    if home == package:
        return inside[0] if inside and inside[0] in rooms_named(package) else None
    return home if package == "llm_gym_agents" else None


def rooms_named(package: str) -> set[str]:
    """Return the names of the folders and files directly inside ``package``."""
    return {path.stem for path in HOMES[package].iterdir()}


def derive() -> dict[str, Any]:
    """Return everything the picture shows, as the code has it now."""
    return {
        package: {"rooms": rooms(package), "arrows": [list(one) for one in arrows(package)]}
        for package in HOMES
    }


# --- the picture -------------------------------------------------------------------------

BOX, GAP, REACH = (6.5, 0.68), 0.27, 0.17
INK, PALE, TURNED_BACK = "#1f2933", "#f5f7fa", "#e12d39"
SHADES = ("#2b6cb0", "#2f855a", "#b7791f", "#6b46c1", "#2c7a7b", "#b83280", "#4a5568", "#c05621")


def draw(found: dict[str, Any], path: Path) -> None:
    """Draw ``found``: a column of rooms for each package, an arc for each arrow."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    tallest = max(len(one["rooms"]) for one in found.values())
    height = tallest * (BOX[1] + GAP)
    matplotlib.rcParams.update({"svg.hashsalt": "rooms", "path.simplify": True})
    figure, axes = plt.subplots(1, 2, figsize=(19, height * 0.84 + 1.3), facecolor="white")
    for axis, (package, one) in zip(axes, found.items(), strict=True):
        _draw_package(axis, package, one["rooms"], [tuple(arrow) for arrow in one["arrows"]])
        axis.set(xlim=(-1.2, BOX[0] + 3.5), ylim=(-height + 0.1, 1.25))
        axis.set_aspect("equal")
        axis.axis("off")
    figure.subplots_adjust(0.01, 0.01, 0.99, 0.99, 0.02)
    figure.savefig(path, dpi=100, metadata={"Date": None} if path.suffix == ".svg" else {})
    plt.close(figure)


TITLES = {
    "llm_gym": "the environments: gymnasium and numpy, never torch",
    "llm_gym_agents": "the trainer: torch, TorchRL, transformers",
}


def _draw_package(axis: Any, package: str, named: dict[str, str], found: Arrows) -> None:
    names = list(named)
    shade = {name: SHADES[at % len(SHADES)] for at, name in enumerate(names)}
    axis.text(0, 0.92, package, fontsize=19, weight="bold", color=INK, family="monospace")
    axis.text(0, 0.52, TITLES[package], fontsize=12, color=INK, style="italic")
    for at, name in enumerate(names):
        _draw_room(axis, at, name, named[name], shade[name], outside=name in HOMES)
    up = [arrow for arrow in found if names.index(arrow[0]) > names.index(arrow[1])]
    implied = _implied(up)
    for arrow, ends in sorted(_ports(names, found).items(), key=lambda one: one[0] not in implied):
        _draw_arrow(axis, *ends, shade[arrow[0]], pale=arrow in implied)


def _implied(found: Arrows) -> set[tuple[str, str]]:
    """Return the arrows whose target can be reached from their source by others."""
    reached: dict[str, set[str]] = {}

    def below(room: str) -> set[str]:
        if room not in reached:
            own = {target for source, target in found if source == room}
            reached[room] = own.union(*(below(target) for target in own))
        return reached[room]

    return {
        (source, target)
        for source, target in found
        if any(target in below(via) for other, via in found if other == source)
    }


def _draw_room(axis: Any, at: int, name: str, about: str, colour: Any, *, outside: bool) -> None:
    from matplotlib.patches import FancyBboxPatch

    top = -at * (BOX[1] + GAP)
    axis.add_patch(
        FancyBboxPatch(
            (0, top - BOX[1]), *BOX, boxstyle="round,pad=0,rounding_size=0.09",
            facecolor="white" if outside else PALE, edgecolor=colour, linewidth=1.8,
            linestyle="--" if outside else "-",
        )
    )  # fmt: skip
    axis.text(0.16, top - 0.20, name, fontsize=12.5, weight="bold", color=INK, va="center",
              family="monospace")  # fmt: skip
    axis.text(0.16, top - 0.47, _short(about), fontsize=8.5, color="#52606d", va="center")


def _short(about: str, most: int = 82) -> str:
    return about if len(about) <= most else about[: most - 1].rsplit(" ", 1)[0] + " …"


def _ports(names: list[str], found: Arrows) -> dict[tuple[str, str], tuple[Any, Any]]:
    """Return where each arrow begins and ends, so that long arcs go around short ones."""
    place = {name: at for at, name in enumerate(names)}
    sides: dict[str, list[tuple[float, tuple[str, str]]]] = {name: [] for name in names}
    for arrow in found:
        source, target = (place[name] for name in arrow)
        for own, other in ((source, target), (target, source)):
            # From the top of a box: short arcs up, long ones up, long ones down, short ones down.
            reach = other - own
            sides[names[own]].append((-1 / reach, arrow))
    where: dict[str, dict[tuple[str, str], float]] = {}
    for name, ends in sides.items():
        top, count = -place[name] * (BOX[1] + GAP), len(ends)
        ordered = [arrow for _, arrow in sorted(ends, reverse=True)]
        where[name] = {arrow: top - BOX[1] * (0.5 + at) / count for at, arrow in enumerate(ordered)}
    return {
        arrow: (
            (place[arrow[0]], where[arrow[0]][arrow]),
            (place[arrow[1]], where[arrow[1]][arrow]),
        )
        for arrow in found
    }


def _draw_arrow(
    axis: Any, start: tuple[int, float], end: tuple[int, float], colour: Any, *, pale: bool
) -> None:
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path as Curve

    up = start[0] > end[0]
    side = BOX[0] if up else 0.0
    reach = (0.35 + REACH * abs(start[0] - end[0])) * (1.33 if up else -1.33)
    points = [(side, start[1]), (side + reach, start[1]), (side + reach, end[1]), (side, end[1])]
    axis.add_patch(
        FancyArrowPatch(
            path=Curve(points, [Curve.MOVETO, *[Curve.CURVE4] * 3]),
            arrowstyle="-|>,head_length=3.2,head_width=1.7",
            color=colour if up else TURNED_BACK,
            linewidth=0.8 if pale else 1.8,
            alpha=0.35 if pale else 1.0,
            shrinkA=0, shrinkB=0,
        )
    )  # fmt: skip


def main() -> None:
    """Write the picture and its data, or compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing")
    data, found = IMAGES / "architecture.json", derive()
    if parser.parse_args().check:
        if json.loads(data.read_text()) != found:
            sys.exit("the picture is not up to date: run python docs/draw_architecture.py")
        return
    data.write_text(json.dumps(found, indent=1) + "\n")
    draw(found, IMAGES / "architecture.svg")


if __name__ == "__main__":
    main()
