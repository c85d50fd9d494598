"""Invented databases.

A domain has two tables of things and one that links them. An episode uses some of their columns.
Rows have their own seed, so that one question can be asked of many databases.
"""

import json
from collections.abc import Sequence
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from llm_gym.envs.tool_use.fact_world import ADJECTIVES, FIRST_NAMES, LAST_NAMES, NOUNS, draw_names

Thing = tuple[str, str, int]
"""A row of a table of things: name, text, number."""
NAME_PARTS = ((ADJECTIVES, NOUNS), (FIRST_NAMES, LAST_NAMES))


class Things(NamedTuple):
    """A table of people or objects. Its columns are singular: "whose price is above 3"."""

    table: str
    one: str
    are_people: bool
    words: dict[str, list[str]]
    """Columns of text, with their possible values."""
    numbers: dict[str, list[int]]
    """Columns of whole numbers, with their range."""


class Domain(NamedTuple):
    """Two tables of things and the table that links them."""

    first: Things
    second: Things
    links: str
    numbers: dict[str, list[int]]


def _load() -> list[Domain]:
    home = resources.files("llm_gym.envs.tool_use.text_to_sql")
    rows = json.loads(home.joinpath("domains.json").read_text("ascii"))
    return [
        Domain(Things(**row[first]), Things(**row[second]), row["links"], row["numbers"])
        for first, second in (("first", "second"), ("second", "first"))
        for row in rows
    ]


DOMAINS = _load()
"""Each domain is listed in both orders, because questions on one table use the first table."""


class Schema(NamedTuple):
    """The tables of one episode: a domain and the columns taken from it."""

    domain: int
    columns: tuple[str, str, str, str, str]
    """Word and number of the first table, of the second table, and number of the links."""
    tables: int

    def things(self, second: bool) -> tuple[Things, str, str]:
        """Return a table of things with its column of text and its column of numbers."""
        domain = DOMAINS[self.domain]
        at = 2 * second
        return domain.second if second else domain.first, self.columns[at], self.columns[at + 1]

    def sql(self) -> str:
        domain = DOMAINS[self.domain]
        made = []
        for second in range(2 if self.tables == 3 else 1):
            table, word, number = self.things(bool(second))
            made.append(
                f"CREATE TABLE {table.table} (id INTEGER PRIMARY KEY, name TEXT, {word} TEXT, "
                f"{number} INTEGER);"
            )
        if self.tables > 1:
            keys = [domain.first, domain.second][: self.tables - 1]
            refer = "".join(f"{key.one}_id INTEGER REFERENCES {key.table}(id), " for key in keys)
            made.append(
                f"CREATE TABLE {domain.links} (id INTEGER PRIMARY KEY, {refer}"
                f"{self.columns[4]} INTEGER);"
            )
        return "\n".join(made)


def draw_schema(rng: np.random.Generator, tables: int) -> Schema:
    """Return a domain with columns."""
    at = int(rng.random() * len(DOMAINS))
    domain = DOMAINS[at]
    choices = (
        domain.first.words, domain.first.numbers, domain.second.words, domain.second.numbers,
        domain.numbers,
    )  # fmt: skip
    a, b, c, d, e = (list(names)[int(rng.random() * len(names))] for names in choices)
    return Schema(at, (a, b, c, d, e), tables)


def fill(schema: Schema, rows: int, seed: int) -> str:
    """Return a script that makes the database of ``schema`` with rows drawn from ``seed``."""
    rng = np.random.default_rng(seed)
    things = []
    for second in range(2 if schema.tables == 3 else 1):
        table, word, number = schema.things(bool(second))
        count = max(rows // (1 + second), 3)
        names = draw_names(rng, count, *NAME_PARTS[table.are_people])
        kinds = rng.choice(table.words[word], count).tolist()
        low, high = table.numbers[number]
        numbers = rng.integers(low, high, count, endpoint=True).tolist()
        things.append(list(zip(names, kinds, numbers, strict=True)))
    links: list[list[int]] = []
    if schema.tables > 1:
        count = 2 * rows
        # The square makes the links uneven: some rows have many, some none.
        keys = [1 + (rng.random(count) ** 2 * len(of)).astype(int) for of in things]
        low, high = DOMAINS[schema.domain].numbers[schema.columns[4]]
        links = np.stack([*keys, rng.integers(low, high, count, endpoint=True)], 1).tolist()
    return write(schema, things, links)


def write(schema: Schema, things: Sequence[Sequence[Thing]], links: Sequence[list[int]]) -> str:
    """Return a script that makes the database of ``schema`` with these rows, numbered from 1.

    Args:
        schema: The tables.
        things: For each table of things its rows: name, text and number.
        links: Rows of the table that links them: a key for each table of things, and a number.
    """
    script = [schema.sql()]
    for second, rows in enumerate(things):
        table = schema.things(bool(second))[0].table
        lines = [
            f"({at}, '{name}', '{kind}', {value})" for at, (name, kind, value) in enumerate(rows, 1)
        ]
        script.append(f"INSERT INTO {table} VALUES {', '.join(lines)};")
    if links:
        lines = [f"({', '.join(map(str, (at, *row)))})" for at, row in enumerate(links, 1)]
        script.append(f"INSERT INTO {DOMAINS[schema.domain].links} VALUES {', '.join(lines)};")
    return "\n".join(script)


# Links of the first rows: below, on and above the limit, with totals around twice the limit.
_FIRST = ((-1, 0, 1), (0, -1), (0, 0), (0, 1))


class TwinKind(NamedTuple):
    """The edge cases that a twin, a hidden test database, contains."""

    rows: int
    """Rows of a table of things, before doubling. With few rows, every row affects the result."""
    double: str = ""
    """How the second copy of a row differs: ``same`` makes ties between rows, ``moved`` (to another
    group) makes ties between groups, ``mirrored`` (at the limit) makes the limit the average; empty
    for no copies."""
    upwards: bool = True
    """Whether rows are numbered in the order of their names, or in reverse: a query that relies on
    an accidental order fails in one of the two."""
    far_limit: bool = False
    """Whether numbers lie at the end of a range instead of its beginning."""
    one_amount: bool = False
    """Whether all links have the amount that is asked about."""
    wild: float = 0.2
    """Share of numbers drawn from their whole range."""


TWINS = (
    *(TwinKind(rows, upwards=bool(rows % 2), wild=0.5) for rows in (3, 4, 5, 6)),
    TwinKind(9, upwards=False, wild=0.0),
    TwinKind(3, upwards=False, wild=0.8),
    TwinKind(14, "same"),
    TwinKind(14, "same", upwards=False),
    TwinKind(5, "same", upwards=False, one_amount=True),
    TwinKind(14, "same", far_limit=True),
    *(TwinKind(rows, "moved", upwards=bool(rows % 2)) for rows in (2, 3, 4, 5)),
    TwinKind(6, "moved", one_amount=True),
    TwinKind(7, "mirrored"),
)
"""The hidden databases on which each answer is checked, besides the one the player sees."""


def draw_twin(schema: Schema, blanks: dict[str, Any], seed: int, number: int) -> str:
    """Return a script that creates twin ``number`` for a question."""
    rng, kind = np.random.default_rng((seed, number)), TWINS[number]
    tables = 2 if schema.tables == 3 else 1
    things = [_draw_things(rng, schema, blanks, bool(at), kind) for at in range(tables)]
    links = _draw_links(rng, schema, blanks, things, kind) if schema.tables > 1 else []
    return write(schema, things, links)


def _draw_things(
    rng: np.random.Generator, schema: Schema, blanks: dict[str, Any], second: bool, kind: TwinKind
) -> list[Thing]:
    table, word, number = schema.things(second)
    first = table.table == blanks["a"]
    asked, edges = (blanks["v"], ("k", "k2")) if first else (blanks["b_v"], ("j", "j"))
    edge = blanks[edges[kind.far_limit]]
    others = [value for value in table.words[word] if value != asked]
    rows: list[tuple[str, int]] = []
    for _ in range(kind.rows):
        text = asked if rng.random() < 0.5 else others[int(rng.random() * len(others))]
        if kind.double == "moved":  # to the other of two groups, which then are equal
            text = asked if text == asked else others[0]
        # One row at least lies on the limit.
        value = _near(rng, edge, table.numbers[number], kind.wild) if rows else edge
        rows.append((text, value))
        if kind.double == "moved":
            rows.append((others[0] if text == asked else asked, value))
        elif kind.double:
            rows.append((text, 2 * edge - value if kind.double == "mirrored" else value))
    parts = NAME_PARTS[table.are_people]
    names = sorted(draw_names(rng, len(rows), *parts), reverse=not kind.upwards)
    return [(name, text, value) for name, (text, value) in zip(names, rows, strict=True)]


def _near(rng: np.random.Generator, edge: int, span: Sequence[int], wild: float) -> int:
    if rng.random() < wild:
        return int(rng.integers(span[0], span[1], endpoint=True))
    return edge + int(rng.integers(-1, 1, endpoint=True))


def _draw_links(
    rng: np.random.Generator,
    schema: Schema,
    blanks: dict[str, Any],
    things: Sequence[Sequence[Thing]],
    kind: TwinKind,
) -> list[list[int]]:
    """Return links of the rows in the question; a row and its double have the same links."""
    span = DOMAINS[schema.domain].numbers[schema.columns[4]]
    few, m = blanks["few"], blanks["m"]
    counts = (0, 1, 2, few - 1, few, few + 1)
    turned = len(things) == 2 and blanks["a"] == schema.things(True)[0].table
    owners, partners = things[turned], things[len(things) - 1 - turned]
    copies = 2 if kind.double else 1
    links = []
    for owner in range(0, len(owners), copies):
        count, partner = counts[int(rng.random() * len(counts))], 0
        amounts = [_near(rng, m, span, kind.wild) for _ in range(count)]
        if owner // copies < len(_FIRST):
            amounts = [m + more for more in _FIRST[owner // copies]]
        for at, amount in enumerate(amounts):
            if not at or rng.random() < 0.7:  # otherwise the same partner again
                partner = int(rng.random() * len(partners))
            for copy in range(copies):
                # A double's partner is the partner's double.
                keys = [owner + copy + 1, (partner ^ copy) + 1][: len(things)]
                links.append([*keys[:: -1 if turned else 1], m if kind.one_amount else amount])
    return links
