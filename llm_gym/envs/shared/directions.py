"""The ways to say a direction, alike in all games that are played with four of them."""

from __future__ import annotations

from collections.abc import Sequence

_COMPASS = {"up": "north", "right": "east", "down": "south", "left": "west"}


def ways_to_say(directions: Sequence[str], verbs: Sequence[str]) -> dict[str, int]:
    """Return the moves, in lower case, that mean one of ``directions``, each with its place.

    >>> said = ways_to_say(("up", "right", "down", "left"), ["go"])
    >>> said["up"], said["go east"], said["[down]"], said.get("push left")
    (0, 1, 2, None)
    """
    said = {name: at for at, name in enumerate(directions)}
    said |= {_COMPASS[name]: at for name, at in said.items()}
    said |= {f"{verb} {name}": at for verb in verbs for name, at in said.items()}
    return said | {f"[{name}]": at for name, at in said.items()}
