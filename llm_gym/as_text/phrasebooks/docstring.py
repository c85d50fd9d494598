"""What an environment's docstring tells about it: its story, its actions, its numbers.

Gymnasium documents environments in Markdown with fixed headings, and most packages follow it.
Whatever is not found is simply not said; nothing here can fail on somebody's docstring.
"""

from __future__ import annotations

import inspect
import re

_HEADING = re.compile(r"^#{1,4}[ \t]*(.+?)[ \t]*$|^([A-Z][A-Za-z ]{2,40}):?[ \t]*\n[-=]{3,}$", re.M)
_ROW = re.compile(
    r"^[ \t]*[-*][ \t]*`?(\d+)`?[ \t]*[:=][ \t]*(.+?)[ \t]*$"  # - 0: Move left
    r"|^[ \t]*\|[ \t]*(\d+)[ \t]*\|[ \t]*([^|\n]+?)[ \t]*\|",  # | 0 | Cart Position | ...
    re.M,
)
_MARKUP = (
    (re.compile(r"<sup>"), "^"),
    (re.compile(r"!\[[^\]]*\]\([^)]*\)|<[^>\n]{1,200}>"), ""),  # pictures and tags
    (re.compile(r"\[([^\]\n]*)\]\([^)\n]*\)"), r"\1"),  # links
    # A star between two words, or alone, multiplies; the others only make letters bold.
    (re.compile(r"[`$]|(?<![ \w])\*|\*(?![ \w])|(?<= )\*(?=\w)|(?<=\w)\*(?= )"), ""),
    (re.compile(r"^>[ \t]*", re.M), ""),
)
# From where on a docstring speaks to programmers.
_FOR_CODERS = re.compile(
    r"^[ \t]*(?:Args|Arguments|Parameters|Params|Keyword Args|Returns?|Yields|Raises|Attributes|"
    r"Examples?|Usage|References?|See Also|Version History|Citation|Credits?)[ \t]*:?[ \t]*$"
    r"|^[ \t]*(?::param|:return|>>>|@)",
    re.MULTILINE | re.IGNORECASE,
)
_LONGEST = 100_000  # characters of a docstring that are looked at


def sections(doc: str) -> dict[str, str]:
    r"""Return the text under each heading, by its name in lower case; "" is what comes first.

    >>> sections("Walk.\n\n## Action Space\n- 0: left\n- 1: right\n")
    {'': 'Walk.', 'action space': '- 0: left\n- 1: right'}
    """
    doc = inspect.cleandoc(doc)[:_LONGEST]
    found: dict[str, str] = {}
    name, start = "", 0
    for heading in _HEADING.finditer(doc):
        found.setdefault(name, doc[start : heading.start()].strip())
        name, start = (heading[1] or heading[2]).lower(), heading.end()
    found.setdefault(name, doc[start:].strip())
    return found


def numbered(text: str, count: int) -> list[str] | None:
    r"""Return what ``text`` lists under the numbers 0 to ``count`` - 1, or None.

    >>> numbered("- 0: Move left (west)\n- 1: Move right", 2)
    ['Move left', 'Move right']
    >>> numbered("- 0: Wait\n- 1: Left\n- 2: Right", 2)
    >>> numbered("| Num | Name | Unit |\n| - | - | - |\n| 0 | height | position (m) |", 1)
    ['height (m)']
    >>> numbered("| 0 | Cart Position | -4.8 |\n| 1 | Cart Velocity | -Inf |", 2)
    ['Cart Position', 'Cart Velocity']
    """
    names: list[str] = []
    unit_at = _unit_column(text)
    for row in _ROW.finditer(text):
        number = row[1] or row[3]
        if len(number) <= 4 and int(number) == len(names):  # the first list that counts up is it
            names.append(_label(row[2] or row[4]) + _unit(text, row.start(), unit_at))
        elif len(names) == count:
            break
    # A list that goes on is about something else: four choices are no names of two numbers.
    return names if len(names) == len(set(names)) == count and all(names) else None


def prose(text: str, longest: int) -> str:
    r"""Return the first paragraphs of ``text`` as plain words, at most ``longest`` characters.

    >>> prose("See [the book](http://x.y). A `cart` moves.", 100)
    'See the book. A cart moves.'
    >>> prose("It earns *at most* 5*2 points. To see it, type: ```run```", 100)
    'It earns at most 5*2 points.'
    >>> prose("A bird flies.\n\nArgs:\n    screen: Its size.", 100)
    'A bird flies.'
    """
    kept: list[str] = []
    if coders := _FOR_CODERS.search(text):
        text = text[: coders.start()]
    for paragraph in re.split(r"\n[ \t]*\n", text.partition("```")[0]):
        for pattern, plain in _MARKUP:
            paragraph = pattern.sub(plain, paragraph)
        words = " ".join(paragraph.split())
        if sum(map(len, kept)) + len(words) > longest:
            kept.append(_whole_sentences(words[: longest - sum(map(len, kept))]))
            break
        kept.append(words)
    told = " ".join(filter(None, kept))
    return _whole_sentences(told) if told.endswith(":") else told  # it announced some code


def _label(text: str) -> str:
    for pattern, plain in _MARKUP:
        text = pattern.sub(plain, text)
    text = re.sub(r"[ \t]+\([^)]*\)", "", text)
    return re.split(r"[,;]", text)[0].strip(" .:")[:60].strip()  # what follows explains it


def _unit_column(text: str) -> int | None:
    """Return which column of the first table in ``text`` has units."""
    head = next((line for line in text.splitlines() if line.strip().startswith("|")), "")
    columns = [cell.strip().lower() for cell in head.split("|")]
    return next((at for at, cell in enumerate(columns) if cell.startswith("unit")), None)


def _unit(text: str, start: int, column: int | None) -> str:
    cells = text[start : text.find("\n", start) % (len(text) + 1)].split("|")
    if column is None or column >= len(cells):
        return ""
    cell = cells[column].strip()
    found = re.search(r"\(([^()]{1,12})\)", cell)  # position (m)
    unit = found[1] if found else cell
    return f" ({unit})" if re.fullmatch(r"[\w/^*. -]{1,12}", unit) and unit != "-" else ""


def _whole_sentences(text: str) -> str:
    return text[: text.rfind(". ") + 1]
