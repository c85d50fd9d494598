"""Questions about a database, with the SQL that answers them."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from llm_gym.envs.tool_games.text_to_sql.world import DOMAINS, Schema

Blanks = dict[str, Any]

_AGGREGATES = {"average": "avg", "largest": "max", "smallest": "min", "total": "sum"}
_JOIN_A = "{links} JOIN {a} ON {a}.id = {links}.{a_id}"
_JOIN_B = "JOIN {b} ON {b}.id = {links}.{b_id}"
# What is asked, the SQL that answers it, and how many tables that takes.
QUESTIONS: tuple[tuple[str, str, int], ...] = (
    (
        "How many {a} have a {number} above {k}?",
        "SELECT count(*) FROM {a} WHERE {number} > {k}",
        1,
    ),
    (
        "What are the names of the {a} whose {word} is '{v}'?",
        "SELECT name FROM {a} WHERE {word} = '{v}'",
        1,
    ),
    (
        "What is the {aggregate} {number} of the {a} whose {word} is '{v}'?",
        "SELECT {function}({number}) FROM {a} WHERE {word} = '{v}'",
        1,
    ),
    (
        "How many {a} are there for each {word}? Give the {word} and the count.",
        "SELECT {word}, count(*) FROM {a} GROUP BY {word}",
        1,
    ),
    (
        "How many {links} belong to {a} whose {word} is '{v}'?",
        f"SELECT count(*) FROM {_JOIN_A} WHERE {{a}}.{{word}} = '{{v}}'",
        2,
    ),
    (
        "Which of the {a} has the largest total {amount} in its {links}? Give the name; of equal "
        "ones the first by name.",
        f"SELECT {{a}}.name FROM {_JOIN_A} GROUP BY {{a}}.id "
        "ORDER BY sum({links}.{amount}) DESC, {a}.name LIMIT 1",
        2,
    ),
    (
        "What are the names of the {a} without any {links}?",
        "SELECT name FROM {a} WHERE id NOT IN (SELECT {a_id} FROM {links})",
        2,
    ),
    (
        "What are the names of the {a} with at least {few} {links}?",
        f"SELECT {{a}}.name FROM {_JOIN_A} GROUP BY {{a}}.id HAVING count(*) >= {{few}}",
        2,
    ),
    (
        "What are the names of the {a} that have {links} with {b} whose {b_word} is '{b_v}'? Give "
        "each once.",
        f"SELECT DISTINCT {{a}}.name FROM {_JOIN_A} {_JOIN_B} WHERE {{b}}.{{b_word}} = '{{b_v}}'",
        3,
    ),
    (
        "What is the total {amount} in the {links} of {a} with a {number} above {k}, for each "
        "{b_word} of the {b}? Give the {b_word} and the total, where there is any.",
        f"SELECT {{b}}.{{b_word}}, sum({{links}}.{{amount}}) FROM {_JOIN_A} {_JOIN_B} "
        "WHERE {a}.{number} > {k} GROUP BY {b}.{b_word}",
        3,
    ),
)


def _pattern(question: str) -> re.Pattern[str]:
    """Return a regex that reads the blanks of a question back."""
    parts, seen = re.split(r"\{(\w+)\}", question), set[str]()
    for at in range(1, len(parts), 2):
        name = parts[at]
        parts[at] = f"(?P={name})" if name in seen else f"(?P<{name}>[\\w-]+)"
        seen.add(name)
    parts[::2] = [re.escape(part) for part in parts[::2]]
    return re.compile("".join(parts))


_PATTERNS = [_pattern(question) for question, _, _ in QUESTIONS]


def draw_question(rng: np.random.Generator, schema: Schema) -> tuple[int, Blanks]:
    """Return a question that needs all tables of ``schema``: its number and what it asks about."""
    fitting = [at for at, (_, _, tables) in enumerate(QUESTIONS) if tables == schema.tables]
    number = fitting[int(rng.random() * len(fitting))]
    turned = schema.tables == 3 and rng.random() < 0.5
    (a, word, column), (b, b_word, _) = schema.things(turned), schema.things(not turned)
    low, high = a.numbers[column]
    values, b_values = a.words[word], b.words[b_word]
    aggregates = list(_AGGREGATES)
    return number, {
        "a": a.table,
        "b": b.table,
        "links": DOMAINS[schema.domain].links,
        "word": word,
        "b_word": b_word,
        "number": column,
        "amount": schema.columns[4],
        "v": values[int(rng.random() * len(values))],
        "b_v": b_values[int(rng.random() * len(b_values))],
        "k": low + int((0.2 + 0.5 * rng.random()) * (high - low)),
        "few": 2 + int(3 * rng.random()),
        "aggregate": aggregates[int(rng.random() * len(aggregates))],
    }


def ask(number: int, blanks: Blanks) -> str:
    """Return the question in words."""
    return QUESTIONS[number][0].format(**blanks)


def answer(number: int, blanks: Blanks, keys: dict[str, str]) -> str:
    """Return the SQL that answers a question.

    Args:
        number: Which question.
        blanks: What it asks about.
        keys: For each table of things, the column that refers to it.
    """
    return QUESTIONS[number][1].format(
        **blanks,
        function=_AGGREGATES.get(blanks.get("aggregate", ""), ""),
        a_id=keys.get(blanks.get("a", ""), ""),
        b_id=keys.get(blanks.get("b", ""), ""),
    )


def read_keys(schema: str) -> dict[str, str]:
    """Return the column that refers to each table, from the statements that create them.

    >>> read_keys("CREATE TABLE orders (id INTEGER, customer_id INTEGER REFERENCES customers(id))")
    {'customers': 'customer_id'}
    """
    found = re.findall(r"(\w+) INTEGER REFERENCES (\w+)\(id\)", schema)
    return {table: column for column, table in found}


def read_question(text: str) -> tuple[int, Blanks] | None:
    """Return the question in ``text``: its number and what it asks about.

    >>> read_question("How many books have a pages above 120?")
    (0, {'a': 'books', 'number': 'pages', 'k': '120'})
    """
    for number, pattern in enumerate(_PATTERNS):
        if found := pattern.search(text):
            return number, found.groupdict()
    return None
