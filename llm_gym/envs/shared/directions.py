"""The accepted words for a direction, shared by all games with four directions."""

import re
from collections.abc import Callable, Iterator, Sequence

from llm_gym.reading.moves import Named, fold, without_idioms

_COMPASS = {"up": "north", "right": "east", "down": "south", "left": "west"}
_NAMES = {name: way for way, compass in _COMPASS.items() for name in (way, compass)}
_NAMED = re.compile("|".join(_NAMES))
_ARROWS = dict(
    zip("\u2191\u2192\u2193\u2190\u2b06\u27a1\u2b07\u2b05", 2 * tuple(_COMPASS), strict=True)
)
"""Arrows that are a move if they are the whole reply; in a sentence they mostly are not."""
_VERBS = (
    "go|goes|going|move|moves|moving|slide|sliding|push|pushing|walk|walking|step|stepping|head"
    "|heading|swipe|shift"
)
_SAID = re.compile(
    rf"(?:\b(?:{_VERBS})\s+)?(?:(?:to|towards?)\s+the\s+|(?:one|1|a)\s+(?:step|cell|tile|square|space)\s+"
    r"(?:to the )?|in the direction\s+|the tiles?\s+|everything\s+|it\s+|me\s+|them\s+|the box\s+"
    r"|(?:the |all )?tiles\s+)?(?:\b|\b(?:move|go)_)"
    r"(up|down|left|right|north|south|east|west)(?:wards?)?\b",
    re.IGNORECASE,
)


def direction_parser(
    directions: Sequence[str], verbs: Sequence[str]
) -> Callable[[str], int | None]:
    """Return a parser from a move to the index of its direction in ``directions``, or None.

    >>> parse = direction_parser(("up", "right", "down", "left"), ["go"])
    >>> parse("Up"), parse("go east"), parse("[down]"), parse("push left")
    (0, 1, 2, None)
    """
    names = {name: at for at, name in enumerate(directions)}
    names |= {_COMPASS[name]: at for name, at in names.items()}
    names |= {f"{verb} {name}": at for verb in verbs for name, at in names.items()}
    names |= {f"[{name}]": at for name, at in names.items()}
    return lambda move: names.get(move.lower())


def find_directions(text: str) -> Iterator[Named]:
    """Yield the directions that a sentence names, without idioms such as "turns left".

    >>> [move for *_, move in find_directions("Turns left: 5. The right move is to go North.")]
    ['up']
    """
    if not text.isascii() and (way := _ARROWS.get(text.strip(" \ufe0f.!*`"))) is not None:
        yield 0, len(text), way
        return
    if _NAMED.search(text.lower()) is None:
        return
    for one in _SAID.finditer(without_idioms(text)):
        yield one.start(), one.end(), _NAMES[fold(one[1])]
