"""The gallery of the site: a picture and an episode of each game, from its golden transcript.

The picture shows a state in the middle of the episode. Cells of a board are drawn as tiles where
they stand in the text, so no game needs a drawing of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from itertools import pairwise
from pathlib import Path
from textwrap import wrap

GOLDEN = Path(__file__).parents[1] / "tests" / "golden"
MOST_LINES = 40
"""Of an episode on the page."""
COLUMNS, ROWS = 64, 20
"""Of a picture."""
WIDTH, HEIGHT = 10, 22
"""Pixels of a character."""
_REPLY = re.compile(r"^> ", re.MULTILINE)
_RUN = re.compile(r"(?<!\S)(?:\w\w?\|)? *((?:(?:[^\s|]|\d{1,4}|__)(?:[ |]+|:(?= )|$)){3,})")
_CELL = re.compile(r"[^\s|:]+")
_COLOURS = {
    "#": "#3b4252", ".": "#e5e9f0", "_": "#e5e9f0", "__": "#e5e9f0", "P": "#5e81ac",
    "E": "#a3be8c", "G": "#a3be8c", "*": "#a3be8c", "H": "#4c566a", "X": "#bf616a",
    "O": "#ebcb8b", "Y": "#ebcb8b",
}  # fmt: skip
_DARK = ("#", "P", "H", "X")


def gallery() -> tuple[str, dict[str, str]]:
    """Return the page, and its pictures by their path."""
    from llm_gym.registry.suite import ENVS

    lines = ["# Gallery\n", "Each game with a picture and an episode as a player sees it: "]
    lines[-1] += "first an unusable reply, then the moves of the solver.\n"
    pictures = {}
    usual = {row.entry_point: row.id for row in reversed(ENVS)}  # a family begins with it
    for env_id in sorted(usual.values()):
        name = env_id.rpartition("/")[2]
        text = (GOLDEN / f"{name}.txt").read_text("utf-8")
        pictures[f"gallery/{name}.svg"] = picture(state(text))
        shown = text.splitlines()
        shown = shown if len(shown) <= MOST_LINES else [*shown[:MOST_LINES], "..."]
        lines += [f"## {env_id}\n", f"![A state of {name}](gallery/{name}.svg)\n"]
        lines += ["```text", *shown, "```\n"]
    return "\n".join(lines), pictures


def state(transcript: str) -> str:
    r"""Return a reply in the middle of a transcript and what it led to; all of a short game.

    >>> state("Rules.\n> ???\nNo.\n[reward 0, playing]\n> 1\nUp.\n[reward 1, won]")
    'Rules.\n> 1\nUp.\n[reward 1, won]'
    """
    rules, _, *turns = _REPLY.split(transcript)
    if len(turns) < 2:
        return "> ".join([rules, *turns]).strip()
    return f"> {turns[len(turns) // 2]}".strip()


def picture(text: str) -> str:
    """Return an SVG of ``text`` with the cells of boards as tiles."""
    lines = [row for line in text.splitlines() for row in wrapped(line)][:ROWS]
    width, height = (COLUMNS + 4) * WIDTH, (len(lines) + 2) * HEIGHT
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="monospace" font-size="16" xml:space="preserve">',
        f'<rect width="{width}" height="{height}" rx="8" fill="#f8f9fb"/>',
    ]
    for at, line in enumerate(lines, start=1):
        drawn += _line(line, at * HEIGHT)
    return "\n".join([*drawn, "</svg>"])


def wrapped(line: str) -> list[str]:
    """Return ``line`` in pieces that fit; a board is never cut."""
    return [line] if len(line) <= COLUMNS else wrap(line, COLUMNS)


def cells(line: str) -> Iterator[tuple[int, int, str]]:
    """Yield the cells of a board in ``line``: where each begins, its width, and its text.

    >>> list(cells("1| # . 12"))
    [(2, 2, '#'), (4, 2, '.'), (7, 2, '12')]
    """
    if line.startswith("> ") or line.endswith("?"):  # a reply, a question with numbers
        return
    for run in _RUN.finditer(line):
        found = [(one.end() + run.start(1), one[0]) for one in _CELL.finditer(run[1])]
        numbers = "".join(text for _, text in found)
        if len(found) > 4 and numbers in "0123456789":  # the names of the columns
            continue
        width = min(after[0] - before[0] for before, after in pairwise(found))
        yield from ((end - width, width, text) for end, text in found)


def _line(line: str, top: int) -> Iterator[str]:
    rest = list(line)
    for start, width, text in cells(line):
        end = start + width
        rest[end - len(text) : end] = " " * len(text)
        fill = _COLOURS.get(text) or f"hsl({47 * sum(map(ord, text)) % 360} 55% 78%)"
        ink = "#eceff4" if text in _DARK else "#2e3440"
        left = (start + 2) * WIDTH + 6
        yield (
            f'<rect x="{left}" y="{top}" width="{width * WIDTH - 2}" height="{HEIGHT - 2}" '
            f'rx="3" fill="{fill}"/>'
        )
        if text not in (".", "_", "__"):
            middle = left + (width * WIDTH - 2) / 2
            yield (
                f'<text x="{middle}" y="{top + 15}" text-anchor="middle" fill="{ink}">'
                f"{escape(text)}</text>"
            )
    weight = ' font-weight="bold"' if line.startswith("> ") else ""
    for word in re.finditer(r"\S+", "".join(rest)):  # each in its column, whatever the font
        left, long = (word.start() + 2) * WIDTH, len(word[0]) * WIDTH
        yield (
            f'<text x="{left}" y="{top + 15}" textLength="{long}" fill="#2e3440"{weight}>'
            f"{escape(word[0])}</text>"
        )
