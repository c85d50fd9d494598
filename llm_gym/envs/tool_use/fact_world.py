"""A small invented world: people, works, companies, cities and countries, and facts about them.

Every fact has a subject, a relation and a value. Only the document about the subject states it. A
question follows a chain of relations: "the country of the birthplace of ...".
"""

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np


def _words(text: str) -> list[str]:
    return text.split()


FIRST_NAMES = _words(
    "Alva Bram Cora Dain Edda Finn Greta Hale Ines Joss Kira Lorn Mila Nils Odra Pell Quin Rhea "
    "Sten Tova Ulla Vero Wren Xeno Yara Zeno"
)
LAST_NAMES = _words(
    "Abelin Bosko Carvel Denholt Elstrand Farrow Grauer Hollin Ibsrud Jarvik Kestrel Lindqvar "
    "Morvane Norling Ostrava Penhal Quillan Rusk Soltane Tremont Ulvik Varga Westrom Yarrow Zell"
)
ADJECTIVES = _words("Amber Broken Crimson Distant Empty Frozen Gilded Hidden Iron Jade Silent")
NOUNS = _words("Anchor Bridge Candle Desert Engine Forest Garden Harbour Island Journey Lantern")
_CITY_A = _words("Bal Cor Dun El Fer Gal Hal Kar Lor Mar Nor Or Per Rav Sel Tor Ul Ver")
_CITY_B = _words("ban dale enna ford grad holm idia mere nova oria port sund tova vik wick")
_COUNTRIES = _words("Avaria Belmora Cassand Drevia Estmark Florin Gondria Hesper")
_CURRENCIES = _words("arin bezant crown dram ecu florn gulda herrin")
_TRADES = _words("Foundry Instruments Labs Motors Optics Press Shipping Textiles Timber Works")
_PROFESSIONS = _words(
    "astronomer baker botanist carpenter dentist engineer geologist judge nurse painter pilot "
    "plumber surgeon tailor translator"
)
_WALKS = 50  # tries to find a chain before a new world is drawn


class Relation(NamedTuple):
    """Connects an entity of one type to an entity or a word of another type."""

    subject: str
    value: str
    sentence: str
    """The sentence in the document about ``s`` which says that the value is ``v``."""


RELATIONS: dict[str, Relation] = {
    "author": Relation("work", "person", "{s} was created by {v}."),
    "founder": Relation("company", "person", "{s} was founded by {v}."),
    "seat": Relation("company", "city", "{s} has its head office in {v}."),
    "birthplace": Relation("person", "city", "{s} was born in {v}."),
    "employer": Relation("person", "company", "{s} works for {v}."),
    "profession": Relation("person", "profession", "{s} is by training a {v}."),
    "country": Relation("city", "country", "{s} lies in {v}."),
    "capital": Relation("country", "city", "{s} is governed from {v}."),
    "currency": Relation("country", "currency", "{s} pays with the {v}."),
}
SHARES = {"person": 0.4, "work": 0.2, "company": 0.2, "city": 0.15, "country": 0.05}
"""Share of the documents about each type."""
_FROM = {
    kind: [name for name, relation in RELATIONS.items() if relation.subject == kind]
    for kind in SHARES
}
_PATTERNS = {
    name: re.compile(relation.sentence.replace(".", r"\.").format(s="(.+?)", v="(.+?)"))
    for name, relation in RELATIONS.items()
}


def draw_names(rng: np.random.Generator, count: int, *parts: list[str]) -> list[str]:
    """Return ``count`` different names made of one word of each list."""
    names = []
    for code in rng.permutation(math.prod(map(len, parts)))[:count].tolist():
        words = []
        for part in parts:
            code, at = divmod(code, len(part))
            words.append(part[at])
        names.append(words)
    joint = "" if parts[0] is _CITY_A else " "
    return [joint.join(words) for words in names]


def draw_world(rng: np.random.Generator, documents: int) -> dict[str, dict[str, str]]:
    """Return the facts of a new world: for each subject, its relations and their values."""
    counts = {kind: max(2, round(share * documents)) for kind, share in SHARES.items()}
    names = {
        "person": draw_names(rng, counts["person"], FIRST_NAMES, LAST_NAMES),
        "work": [f"The {name}" for name in draw_names(rng, counts["work"], ADJECTIVES, NOUNS)],
        "company": draw_names(rng, counts["company"], LAST_NAMES, _TRADES),
        "city": draw_names(rng, counts["city"], _CITY_A, _CITY_B),
        "country": draw_names(rng, counts["country"], _COUNTRIES),
        "profession": _PROFESSIONS,
        "currency": _CURRENCIES,
    }
    picks = iter(rng.random(3 * documents + 30).tolist())
    world: dict[str, dict[str, str]] = {}
    for kind in SHARES:
        for subject in names[kind]:
            world[subject] = {
                relation: names[value][int(next(picks) * len(names[value]))]
                for relation in _FROM[kind]
                for value in [RELATIONS[relation].value]
            }
    return world


def draw_chain(
    rng: np.random.Generator, world: Mapping[str, Mapping[str, str]], hops: int
) -> tuple[str, list[str]] | None:
    """Return a subject and a chain of ``hops`` relations that visits no entity twice.

    Returns None if a few random walks find none.
    """
    subjects = list(world)
    for _ in range(_WALKS):
        start = here = subjects[int(rng.random() * len(subjects))]
        seen, chain = {start}, list[str]()
        for hop in range(hops):
            ways = [
                relation
                for relation, value in world[here].items()
                if value not in seen
                and (value in world or hop == hops - 1)
                # In this world a capital may lie in another country, which would confuse players.
                and (relation != "country" or chain[-1:] != ["capital"])
            ]
            if not ways:
                break
            chain.append(ways[int(rng.random() * len(ways))])
            here = world[here][chain[-1]]
            seen.add(here)
        if len(chain) == hops:
            return start, chain
    return None


def follow(world: Mapping[str, Mapping[str, str]], start: str, chain: list[str]) -> list[str]:
    """Return the entities along ``chain``, the start first and the answer last."""
    way = [start]
    for relation in chain:
        way.append(world[way[-1]][relation])
    return way


def document(subject: str, facts: Mapping[str, str]) -> str:
    """Return what the document about ``subject`` says.

    >>> document("Belmora", {"capital": "Norvik", "currency": "crown"})
    'Belmora is governed from Norvik. Belmora pays with the crown.'
    """
    return " ".join(
        RELATIONS[relation].sentence.format(s=subject, v=value) for relation, value in facts.items()
    )


def fact(text: str, subject: str, relation: str) -> str | None:
    """Return the value that a document gives for a relation of ``subject``.

    >>> fact("Ada Rusk was born in Norvik. Ada Rusk works for Zell Labs.", "Ada Rusk", "employer")
    'Zell Labs'
    """
    for sentence in re.findall(r"[^.]+\.", text):
        found = _PATTERNS[relation].fullmatch(sentence.strip())
        if found and found[1] == subject:
            return found[2]
    return None


def ask(start: str, chain: list[str]) -> str:
    """Return the question in words.

    >>> ask("The Silent Bridge", ["author", "birthplace"])
    'What is the birthplace of the author of The Silent Bridge?'
    """
    return f"What is {''.join(f'the {relation} of ' for relation in reversed(chain))}{start}?"


def read_question(text: str) -> tuple[str, list[str]] | None:
    """Return the start and the chain of the question in ``text``.

    >>> read_question("What is the birthplace of the author of The Silent Bridge?")
    ('The Silent Bridge', ['author', 'birthplace'])
    """
    found = re.search(r"What is ((?:the \w+ of )+)([^?]+)\?", text)
    if found is None:
        return None
    return found[2], re.findall(r"the (\w+) of ", found[1])[::-1]
