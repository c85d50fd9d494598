"""Turn the player's text into a command about things in the current room.

``read`` splits a text into verb and nouns without using the world. ``settle`` finds the things that
the nouns mean, or says in one sentence why the command cannot be used.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import lru_cache
from itertools import filterfalse
from typing import NamedTuple

from llm_gym.envs.navigation.text_game.world import CARRIED, DIRECTIONS, Command, World
from llm_gym.reading.moves import Named, fold

_MAX_WORDS = 12
_SKIP = r"(?:the|an?|my|to|at|please|i|now)(?![^\W\d_])"
_WORD = re.compile(rf"(?<![^\W\d_])(?!{_SKIP})[^\W\d_]+")
_IN_A_NUMBER = re.compile(r"\d[a-z]|[a-z]\d")  # the e of 1e5 is not east
_UNCLEAR = frozenset({"or", "not", "never", "don", "dont"})
_SHORT = {"n": "north", "e": "east", "s": "south", "w": "west", "l": "look"}
VERBS = {
    "go": "go", "move": "go", "walk": "go", "run": "go", "head": "go", "travel": "go",
    "take": "take", "get": "take", "grab": "take", "pick": "take", "collect": "take",
    "drop": "drop", "leave": "drop", "put": "put", "place": "put", "insert": "put",
    "open": "open", "unlock": "unlock",
    "attack": "attack", "fight": "attack", "kill": "attack", "hit": "attack", "defeat": "attack",
    "look": "look", "inventory": "inventory", "inv": "inventory",
}  # fmt: skip
JOINTS = {
    "put": {"in", "into", "inside", "on"}, "take": {"from"}, "unlock": {"with"},
    "attack": {"with"}, "open": {"with"},
}  # fmt: skip


class Sentence(NamedTuple):
    """Verb and nouns as typed."""

    verb: str
    noun: str = ""
    other: str = ""


def read(
    text: str, verbs: Mapping[str, str] = VERBS, joints: Mapping[str, AbstractSet[str]] = JOINTS
) -> Sentence | None:
    """Return verb and nouns, or None if this is no command.

    Args:
        text: What the player typed.
        verbs: Each word that begins a command, and the verb it stands for.
        joints: By verb, the words that separate its first noun from its second.

    >>> read("Pick up the brass key!")
    Sentence(verb='take', noun='brass key', other='')
    >>> read("unlock the brass door with the brass key")
    Sentence(verb='unlock', noun='brass door', other='brass key')
    >>> read("n") == read("walk north") == Sentence("go", "north")
    True
    >>> read("put down the lamp").verb
    'drop'
    >>> read("take the lamp or the rope"), read("I")
    (None, None)
    """
    if text.strip() == "i":  # a capital "I" is the start of a sentence that was cut off
        return Sentence("inventory")
    text = text.lower()
    written = _WORD.findall(text)
    words: list[str] = [*map(_SHORT.get, written, written)]  # type: ignore[list-item]
    if not words or len(words) > _MAX_WORDS or not _UNCLEAR.isdisjoint(words):
        return None
    if words[0] in DIRECTIONS and len(words) == 1 and not _IN_A_NUMBER.search(text):
        return Sentence("go", words[0])
    verb = verbs.get(words[0])
    if verb is None:
        return None
    rest = words[1:]
    if verb == "put" and rest[:1] == ["down"]:
        verb = "drop"
    idle = {"down", "around", "up"} if verb == "take" else {"down", "around"}
    rest = [*filterfalse(idle.__contains__, rest)]
    for at, word in enumerate(rest):
        if word in joints.get(verb, ()):
            return Sentence(verb, " ".join(rest[:at]), " ".join(rest[at + 1 :]))
    return Sentence(verb, " ".join(rest))


def find(noun: str, names: list[str]) -> str | None:
    """Return the one name that ``noun`` means, by its full name or by one of its words.

    >>> find("key", ["brass key", "lamp"]), find("key", ["brass key", "iron key"])
    ('brass key', None)
    """
    if noun in names:
        return noun
    fits = [name for name in names if noun and set(noun.split()) <= set(name.split())]
    return fits[0] if len(fits) == 1 else None


def settle(world: World, sentence: Sentence | None) -> Command | str:
    """Return the usable command that ``sentence`` means, or the reason why there is none."""
    if sentence is None:
        return "I do not know that command."
    verb, noun, other = sentence
    if verb in ("look", "inventory"):
        return Command(verb)
    return {
        "go": _go, "take": _take, "drop": _drop, "put": _put,
        "open": _open, "unlock": _unlock, "attack": _attack,
    }[verb](world, noun, other)  # fmt: skip


def _go(world: World, noun: str, other: str) -> Command | str:
    if noun not in world.exits[world.here]:
        return "There is no exit that way." if noun in DIRECTIONS else "Say which way to go."
    if door := world.locked_door(world.here, world.exits[world.here][noun]):
        return f"The {door} is locked."
    return Command("go", noun)


def _take(world: World, noun: str, other: str) -> Command | str:
    item = find(noun, world.visible_items())
    if item is None:
        return "You already carry that." if find(noun, world.items_in(CARRIED)) else _UNSEEN
    if monster := world.guard(world.here):
        return f"The {monster} will not let you take anything."
    if other and find(other, [world.place[item]]) is None:
        return f"The {item} is not in there."
    return Command("take", item)


def _drop(world: World, noun: str, other: str) -> Command | str:
    item = find(noun, world.items_in(CARRIED))
    if item is None:
        return _NOT_CARRIED
    return _kept(world) or Command("drop", item)


def _put(world: World, noun: str, other: str) -> Command | str:
    item = find(noun, world.items_in(CARRIED))
    box = find(other, world.containers_here())
    if item is None:
        return _NOT_CARRIED
    if box is None:
        return "Say which container here to put it in."
    if world.closed[box]:
        return f"The {box} is closed."
    return _kept(world) or Command("put", item, box)


def _open(world: World, noun: str, other: str) -> Command | str:
    box = find(noun, world.containers_here())
    if box is None:
        # "Open the door" is a common way to say "unlock the door".
        return _unlock(world, noun, other)
    return Command("open", box) if world.closed[box] else f"The {box} is already open."


def _unlock(world: World, noun: str, other: str) -> Command | str:
    doors = [name for name, ends in world.doors.items() if world.here in ends]
    door = find(noun, doors)
    if door is None:
        return _UNSEEN
    if not world.locked[door]:
        return f"The {door} is not locked."
    key = world.keys[door]
    if other and find(other, world.items_in(CARRIED)) not in (None, key):
        return f"That does not fit the {door}."
    return Command("unlock", door, key) if world.place[key] == CARRIED else f"You need the {key}."


def _attack(world: World, noun: str, other: str) -> Command | str:
    monster = world.guard(world.here)
    if monster is None or find(noun, [monster]) is None:
        return "There is nothing like that to attack here."
    weapon = world.banes[monster]
    if other and find(other, world.items_in(CARRIED)) not in (None, weapon):
        return f"The {monster} does not fear that."
    if world.place[weapon] != CARRIED:
        return f"You need the {weapon} to defeat the {monster}."
    return Command("attack", monster)


def _kept(world: World) -> str | None:
    monster = world.guard(world.here)
    return f"The {monster} would keep it." if monster else None


_UNSEEN = "You see nothing like that here."
_NOT_CARRIED = "You do not carry that."


_QUIET = frozenset({"look", "inventory", "inv"})  # in a sentence these are ordinary words
_STOP = re.compile(
    r"\s+(?:and|then|because|so|since|but|or|if|as|before|while|which|that|when|first|next|now)\b",
    re.IGNORECASE,
)
WAY = re.compile(
    rf"(?:(?:to|the|towards?|through|out|on|by|via|room|door|exit|way)\s+)*({'|'.join(DIRECTIONS)})(?:ern)?\b(\s+(?:exit|door))?",
    re.IGNORECASE,
)
_FIRST = re.compile(rf"(?i)\W*({'|'.join(DIRECTIONS)})(?=[,;:!.]|\W*$)")
_LAST = re.compile(
    rf"(?i)(?:\b(?:so|then|thus|hence|therefore)|[>→])\s+({'|'.join(DIRECTIONS)})\W*$"
)
_CARRIED = re.compile(r"(?i)\b(?:check|see|show|view)(?:ing)?\s+(?:my|the)\s+inventory\b")
_WAYS_TO_GO = (
    "try", "trying", "explore", "exploring", "check", "checking", "start with", "starting with",
    "begin with", "leave through", "leave by", "leave to", "out through", "exit", "choose",
    "choosing", "pick", "use", "proceed", "proceeding", "continue", "continuing",
)  # fmt: skip
_STARTS = frozenset({*DIRECTIONS, "start", "starting", "begin", "leave", "out", "inventory"})
_SPACED_WORD = re.compile(r"\s+\S+|\S+")
_JOINT = re.compile(r"\s+(?:with(?! (?:me|it)\b)|in|into|inside|on|from|using)\b", re.IGNORECASE)
_JOINED = re.compile(rf"{_JOINT.pattern}$", re.IGNORECASE)
_MOST_WORDS = 8


@lru_cache(maxsize=8)
def _commands(verbs: tuple[str, ...]) -> tuple[re.Pattern[str], dict[str, str]]:
    forms = dict.fromkeys(_WAYS_TO_GO, "go")
    for verb in verbs:
        if verb not in _QUIET:
            doing = (f"{verb}ing", f"{verb.removesuffix('e')}ing", f"{verb}{verb[-1]}ing")
            forms |= dict.fromkeys((verb, f"{verb}s", f"{verb}es", *doing), verb)
    names = "|".join(sorted(forms, key=len, reverse=True))
    # The words after the verb are matched in a lookahead: the next command may begin there.
    found = rf"\b({names})\b(?=((?:\s+[a-z'-]+){{0,{_MOST_WORDS}}}))"
    return re.compile(found, re.IGNORECASE), forms


def find_commands(
    text: str, verbs: Iterable[str], understand: Callable[[str], Command | str]
) -> Iterator[Named]:
    """Yield the usable commands that a sentence names, and every "go" with a direction."""
    pattern, forms = _commands(tuple(verbs))
    words = _WORD.findall(text.lower())
    if forms.keys().isdisjoint(words) and _STARTS.isdisjoint(words):
        return
    for one in _CARRIED.finditer(text):
        yield one.start(), one.end(), "inventory"
    done = 0
    if first := _FIRST.match(text) or _LAST.search(text):
        done = first.end(1)
        yield first.start(1), done, f"go {first[1].lower()}"
    for one in pattern.finditer(text):
        if one.start() < done:
            continue
        verb, rest = forms[fold(one[1])], _STOP.split(one[2])[0]
        for end in [word.end() for word in _SPACED_WORD.finditer(rest)][::-1]:
            # "attack the troll with the lamp" is not "attack the troll".
            halved = _JOINT.match(rest, end) or _JOINED.search(rest[:end])
            command = understand(f"{verb}{rest[:end]}")
            if isinstance(command, Command) and not halved:
                done = one.end() + end
                yield one.start(), done, str(command)
                break
        else:
            way = WAY.search(rest)
            is_way = way and (way[2] or verb not in ("take", "drop", "put"))
            if way and is_way and not rest[: way.start()].strip():
                done = one.end() + way.end()
                yield one.start(), done, f"go {way[1].lower()}"
