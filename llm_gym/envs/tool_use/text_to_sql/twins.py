"""Databases on which a wrong answer shows.

Rows drawn at large hardly ever lie on the edge of a question: ``>`` and ``>=`` give the same, and
there is no tie to break. A twin has the tables of an episode and rows drawn around what its
question asks about: numbers next to and on the limit, values that match and values that do not,
as many links as asked for and one more or less, and every row twice, so that the first place is
always shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from llm_gym.envs.tool_use.fact_world import draw_names
from llm_gym.envs.tool_use.text_to_sql.world import (
    DOMAINS,
    NAME_PARTS,
    Schema,
    Thing,
    write,
)

# What the first rows have: links below, on and above the limit, and totals about twice of it.
_FIRST = ((-1, 0, 1), (0, -1), (0, 0), (0, 1))


class TwinKind(NamedTuple):
    """What a twin is made to show."""

    rows: int
    """Of a table of things, before they are doubled. Few make every row decide."""
    double: str = ""
    """What is done with the second copy of a row: ``same`` shares first places among rows,
    ``moved`` to another group shares them among groups, ``mirrored`` at the limit makes the limit
    the average; empty for none."""
    upwards: bool = True
    """Whether rows are numbered as their names go, or the other way round: an order that nobody
    asked for shows in one of the two."""
    far_limit: bool = False
    """Whether numbers lie at the end of a range rather than at its beginning."""
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
"""The databases of which each question is asked, besides the one that the player sees."""


def draw_twin(schema: Schema, blanks: dict[str, Any], seed: int, number: int) -> str:
    """Return a script that makes the twin of that ``number`` for a question."""
    rng, kind = np.random.default_rng((seed, number)), TWINS[number]
    tables = 2 if schema.tables == 3 else 1
    things = [_draw_things(rng, schema, blanks, bool(at), kind) for at in range(tables)]
    links = _draw_links(rng, schema, blanks, things, kind) if schema.tables > 1 else []
    return write(schema, things, links)


def _draw_things(
    rng: np.random.Generator, schema: Schema, blanks: dict[str, Any], objects: bool, kind: TwinKind
) -> list[Thing]:
    table, word, number = schema.things(objects)
    first = table.table == blanks["a"]
    asked, edges = (blanks["v"], ("k", "k2")) if first else (blanks["b_v"], ("j", "j"))
    edge = blanks[edges[kind.far_limit]]
    others = [value for value in table.words[word] if value != asked]
    rows: list[tuple[str, int]] = []
    for _ in range(kind.rows):
        text = asked if rng.random() < 0.5 else others[int(rng.random() * len(others))]
        if kind.double == "moved":  # between two groups, which then are alike
            text = asked if text == asked else others[0]
        # One row at least lies on the limit.
        value = _near(rng, edge, table.numbers[number], kind.wild) if rows else edge
        rows.append((text, value))
        if kind.double == "moved":
            rows.append((others[0] if text == asked else asked, value))
        elif kind.double:
            rows.append((text, 2 * edge - value if kind.double == "mirrored" else value))
    names = sorted(draw_names(rng, len(rows), *NAME_PARTS[objects]), reverse=not kind.upwards)
    return [(name, text, value) for name, (text, value) in zip(names, rows, strict=True)]


def _near(rng: np.random.Generator, edge: int, span: tuple[int, int], wild: float) -> int:
    if rng.random() < wild:
        return int(rng.integers(*span, endpoint=True))
    return edge + int(rng.integers(-1, 1, endpoint=True))


def _draw_links(
    rng: np.random.Generator,
    schema: Schema,
    blanks: dict[str, Any],
    things: Sequence[Sequence[Thing]],
    kind: TwinKind,
) -> list[list[int]]:
    """Return links of the rows that are asked about; a row and its double have the same."""
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
            if not at or rng.random() < 0.7:  # the same partner again, now and then
                partner = int(rng.random() * len(partners))
            for copy in range(copies):
                # A double's partner is the partner's double.
                keys = [owner + copy + 1, (partner ^ copy) + 1][: len(things)]
                links.append([*keys[:: -1 if turned else 1], m if kind.one_amount else amount])
    return links
