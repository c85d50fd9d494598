"""What an environment's docstring and attributes say about it.

Gymnasium documents environments in Markdown with fixed headings, and most packages follow it.
Attributes follow conventions: ``get_action_meanings``, an ``Enum`` of actions, ``max_steps``. What
is not found is left out, and no docstring raises an exception.
"""

import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from functools import partial
from typing import Any

import gymnasium as gym

from llm_gym.core.infos import find_attribute

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
_FOR_AUTHORS = re.compile(
    r"\b(?:abstract|base[- ]class|sub-?class(?:es)?|implementations?|must be defined|"
    r"be overridden|inherit(?:s|ed)?|mixin)\b",
    re.IGNORECASE,
)
# Of a picture that a player does not see.
_PICTURED = re.compile(
    r"[^.!?]*\b(?:diagram|figure|picture|image|plot|animation|video|gif)s?\b[^.!?]*[.!?]*\s*",
    re.IGNORECASE,
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


def for_authors(doc: str) -> bool:
    """Whether a docstring, of a base, is about writing environments and not about playing one.

    >>> for_authors("A generic base class; the dynamics must be defined in the implementations.")
    True
    """
    return _FOR_AUTHORS.search(doc) is not None


def numbered(text: str, count: int) -> list[str] | None:
    r"""Return what ``text`` lists under the numbers 0 to ``count`` - 1, or None.

    >>> numbered("- 0: Move left (west)\n- 1: Move right", 2)
    ['Move left', 'Move right']
    >>> numbered("- 0: Wait\n- 1: Left\n- 2: Right", 2)
    >>> numbered("| 0 | Cart Position | -4.8 |\n| 1 | Cart Velocity | -Inf |", 2)
    ['Cart Position', 'Cart Velocity']
    """
    names: list[str] = []
    for row in _ROW.finditer(text):
        number = row[1] or row[3]
        if len(number) <= 4 and int(number) == len(names):  # the first list that counts up is it
            names.append(_label(row[2] or row[4]))
        elif len(names) == count:
            break
    # A list that goes on is about something else: four choices are no names of two numbers.
    return names if len(names) == len(set(names)) == count and all(names) else None


def tidy(text: str) -> str:
    """Return ``text`` as names are compared: lower case, single spaces, no quotes around it.

    >>> tidy(' "Move  Left". ')
    'move left'
    """
    return " ".join(text.lower().split()).strip(" .!'\"`")


def distinct(names: Sequence[str], count: int) -> list[str] | None:
    """Return tidy ``names``, or None unless they are ``count`` different ones.

    >>> distinct(["Left", "Stay."], 2), distinct(["Up!", "up"], 2), distinct(["..."], 1)
    (['left', 'stay'], None, None)
    """
    tidied = [tidy(name) for name in names]
    return tidied if len(tidied) == len(set(tidied)) == count and all(tidied) else None


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
        words = _PICTURED.sub("", " ".join(paragraph.split())).strip()
        if sum(map(len, kept)) + len(words) > longest:
            kept.append(_whole_sentences(words[: longest - sum(map(len, kept))]))
            break
        kept.append(words)
    text = " ".join(filter(None, kept))
    return _whole_sentences(text) if text.endswith(":") else text  # it announced some code


def _label(text: str) -> str:
    for pattern, plain in _MARKUP:
        text = pattern.sub(plain, text)
    text = re.sub(r"[ \t]+\([^)]*\)", "", text)
    return re.split(r"[,;]", text)[0].strip(" .:")[:60].strip()  # what follows explains it


def _whole_sentences(text: str) -> str:
    return text[: text.rfind(". ") + 1]


_ACTIONS = ("action_meanings", "ACTION_MEANING", "action_names", "ACTION_NAMES", "actions",
            "Actions", "ACTIONS", "action_type", "_action_to_name")  # fmt: skip
_LIMITS = ("max_steps", "max_episode_steps", "max_episode_length", "horizon")


def choice_names(game: Any, count: int) -> list[str] | None:
    """Return names of ``count`` choices, from the attributes of an environment, or None.

    >>> class Lift(Enum):
    ...     STAY = 0
    ...     GO_UP = 1
    >>> class Game:
    ...     actions = Lift
    >>> choice_names(Game(), 2)
    ['stay', 'go up']
    """
    module = sys.modules.get(type(game).__module__)
    ways: list[Callable[[], Any]] = [
        lambda: game.get_action_meanings(),  # as Atari games have it
        *(partial(getattr, game, name) for name in _ACTIONS),
        lambda: game.action_type.actions,  # as highway-env has it
        *(
            partial(getattr, module, name)
            for name, each in vars(module or object).items()
            if name.lower().endswith(("action", "actions")) and isinstance(each, type)
        ),
    ]
    for find in ways:
        with suppress(Exception):  # of others' code, which may mean something else by it
            if names := _names(find(), count):
                return names
    return None


def _names(found: Any, count: int) -> list[str] | None:
    if isinstance(found, type) and issubclass(found, Enum):
        found = {member.value: name for name, member in found.__members__.items()}
    if isinstance(found, Mapping):
        if all(isinstance(name, str) for name in found):  # from name to number
            found = {number: name for name, number in found.items() if isinstance(number, int)}
        found = [found[at] for at in range(count)] if {*found} == {*range(count)} else None
    if isinstance(found, (tuple, list)) and all(isinstance(each, Enum) for each in found):
        found = [each.name for each in found]
    if not isinstance(found, Sequence) or not all(isinstance(name, str) for name in found):
        return None
    return distinct([name.replace("_", " ") for name in found], count)


def step_limit(env: gym.Env[Any, Any], game: Any) -> int | None:
    """Return after how many steps an episode is cut: by ``TimeLimit``, its spec, or itself."""
    spec_limit = None if env.spec is None else env.spec.max_episode_steps
    limits = [find_attribute(env, "_max_episode_steps"), spec_limit]
    for name in _LIMITS:
        with suppress(Exception):  # it may be a property that raises
            limits.append(getattr(game, name, None))
    for limit in limits:
        if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0:
            return limit
    return None
