"""The commands that a sentence names: "I think I should take the lamp, then see"."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from llm_gym.envs.navigation.text_game.world import DIRECTIONS, Command
from llm_gym.reading.moves import Named

_QUIET = frozenset({"look", "inventory", "inv"})  # in a sentence these are mere words
_STOP = re.compile(
    r"\s+(?:and|then|because|so|since|but|or|if|as|before|while|which|that|when|first|next|now)\b",
    re.IGNORECASE,
)
_WAY = re.compile(rf"(?:(?:to|the|towards?|through)\s+)*({'|'.join(DIRECTIONS)})\b", re.IGNORECASE)
_WORD = re.compile(r"\s+\S+|\S+")
_JOINT = re.compile(r"\s+(?:with(?! (?:me|it)\b)|in|into|inside|on|from|using)\b", re.IGNORECASE)
_JOINED = re.compile(rf"{_JOINT.pattern}$", re.IGNORECASE)
_MOST_WORDS = 8


@lru_cache(maxsize=8)
def _commands(verbs: tuple[str, ...]) -> tuple[re.Pattern[str], dict[str, str]]:
    forms: dict[str, str] = {}
    for verb in verbs:
        if verb not in _QUIET:
            doing = (f"{verb}ing", f"{verb.removesuffix('e')}ing", f"{verb}{verb[-1]}ing")
            forms |= dict.fromkeys((verb, *doing), verb)
    names = "|".join(sorted(forms, key=len, reverse=True))
    # What follows the verb stays in a lookahead: the next command may begin in it.
    found = rf"\b({names})\b(?=((?:\s+[a-z'-]+){{0,{_MOST_WORDS}}}))"
    return re.compile(found, re.IGNORECASE), forms


def find_commands(
    text: str, verbs: Iterable[str], understand: Callable[[str], Command | str]
) -> Iterator[Named]:
    """Yield the usable commands that a sentence names, and every "go" with a direction.

    Args:
        text: The sentence.
        verbs: The words that begin a command.
        understand: Gives the usable command that a text means, or why there is none.
    """
    pattern, forms = _commands(tuple(verbs))
    done = 0
    for one in pattern.finditer(text):
        if one.start() < done:
            continue
        verb, rest = forms[one[1].lower()], _STOP.split(one[2])[0]
        for end in [word.end() for word in _WORD.finditer(rest)][::-1]:
            # "attack the troll with the lamp" is not "attack the troll".
            halved = _JOINT.match(rest, end) or _JOINED.search(rest[:end])
            command = understand(f"{verb}{rest[:end]}")
            if isinstance(command, Command) and not halved:
                done = one.end() + end
                yield one.start(), done, str(command)
                break
        else:
            way = _WAY.search(rest)
            if way and not rest[: way.start()].strip() and verb not in ("take", "drop", "put"):
                done = one.end() + way.end()
                yield one.start(), done, f"go {way[1].lower()}"
