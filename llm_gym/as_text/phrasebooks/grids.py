"""Walking on a grid: what the phrasebooks of grid worlds share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

COMPASS = {"up": "north", "right": "east", "down": "south", "left": "west"}


def directions(names: Sequence[str]) -> dict[str, int]:
    """Return further words for the directions ``names``, numbered in their order.

    >>> directions(["left", "down"])["go west"]
    0
    """
    words: dict[str, int] = {}
    for number, name in enumerate(names):
        for word in (name, COMPASS[name]):
            for verb in ("", "go ", "move ", "walk "):
                words[verb + word] = number
    return words


def slip_chance(transitions: Mapping[int, Mapping[int, Sequence[Any]]]) -> float:
    """Return the chance that a move does not go where it was meant to go.

    Gymnasium's slippery grids list three outcomes per move, the one meant in the middle.

    >>> slip_chance({0: {0: [(1.0, 0, 0, False)]}})
    0.0
    """
    for moves in transitions.values():
        for outcomes in moves.values():
            if len(outcomes) == 3:
                return 1.0 - float(outcomes[1][0])
    return 0.0


def slip_text(chance: float) -> str:
    """Return what the player is told about a slippery ground."""
    if not chance:
        return ""
    return (
        f"With probability {chance:.3g} you slip to one of the two sides of your direction instead."
    )


def draw(rows: Sequence[str], at: int, player: str = "P") -> str:
    r"""Return the map with the player on it.

    >>> draw(["..", ".G"], 1)
    '. P\n. G'
    """
    width = len(rows[0])
    cells = "".join(rows)
    cells = cells[:at] + player + cells[at + 1 :]
    return "\n".join(" ".join(cells[i : i + width]) for i in range(0, len(cells), width))
