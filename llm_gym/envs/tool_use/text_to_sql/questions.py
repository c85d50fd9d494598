"""Questions about a database, with the SQL that answers them; ``questions.txt`` lists them."""

import re
from collections.abc import Sequence
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from llm_gym.envs.tool_use.text_to_sql.world import DOMAINS, Schema

COMPARE = {"above": ">", "at least": ">=", "below": "<", "at most": "<="}
MANY = {"at least": ">=", "more than": ">", "exactly": "="}
EXTREMES = {"largest": "DESC", "smallest": "ASC"}
AGGREGATES = {"average": "avg", "largest": "max", "smallest": "min", "total": "sum"}


class QuestionTemplate(NamedTuple):
    """A question, its answer, and how many tables it takes."""

    question: str
    sql: str
    tables: int


def _load() -> tuple[QuestionTemplate, ...]:
    """Read ``questions.txt``: after each heading the questions about one table more."""
    home = resources.files("llm_gym.envs.tool_use.text_to_sql")
    rows, tables = [], 0
    for block in home.joinpath("questions.txt").read_text("ascii").strip().split("\n\n"):
        if block.startswith("#"):
            tables += 1
        else:
            question, sql = block.split("\n")
            rows.append(QuestionTemplate(question, sql, tables))
    return tuple(rows)


QUESTIONS = _load()
Blanks = dict[str, Any]

_WORDS = {
    "compare": COMPARE, "b_compare": COMPARE, "m_compare": COMPARE, "many": MANY,
    "extreme": EXTREMES, "aggregate": AGGREGATES,
}  # fmt: skip
"""Blanks that hold one of a few words, each of which stands for some SQL."""
_MEANT = {
    "compare": "op", "b_compare": "b_op", "m_compare": "m_op", "many": "many_op",
    "extreme": "direction", "aggregate": "function",
}  # fmt: skip


def _pattern(question: str) -> re.Pattern[str]:
    """Return a regex that reads the blanks of a question back."""
    parts, seen = re.split(r"\{(\w+)\}", question), set[str]()
    for at in range(1, len(parts), 2):
        name = parts[at]
        content = "|".join(_WORDS[name]) if name in _WORDS else r"[\w-]+"
        parts[at] = f"(?P={name})" if name in seen else f"(?P<{name}>{content})"
        seen.add(name)
    parts[::2] = [re.escape(part) for part in parts[::2]]
    return re.compile("".join(parts))


_PATTERNS = [_pattern(row.question) for row in QUESTIONS]


def draw_question(rng: np.random.Generator, schema: Schema) -> tuple[int, Blanks]:
    """Return a question that needs all tables of ``schema``: its number and what it asks about."""
    fitting = [at for at, row in enumerate(QUESTIONS) if row.tables == schema.tables]
    number = fitting[int(rng.random() * len(fitting))]
    turned = schema.tables == 3 and rng.random() < 0.5
    (a, word, column), (b, b_word, b_column) = schema.things(turned), schema.things(not turned)
    links, amount = DOMAINS[schema.domain], schema.columns[4]
    k, k_step = _inside(rng, *a.numbers[column])
    j, _ = _inside(rng, *b.numbers[b_column])
    m, _ = _inside(rng, *links.numbers[amount])
    words = {name: _one_of(rng, list(meanings)) for name, meanings in _WORDS.items()}
    return number, words | {
        "a": a.table, "word": word, "number": column, "v": _one_of(rng, a.words[word]),
        "b": b.table, "b_word": b_word, "b_number": b_column, "b_v": _one_of(rng, b.words[b_word]),
        "links": links.links, "amount": amount, "k": k, "k2": k + k_step, "j": j, "m": m,
        "t": 2 * m, "few": 2 + int(3 * rng.random()),
    }  # fmt: skip


def _one_of(rng: np.random.Generator, values: Sequence[str]) -> str:
    return values[int(rng.random() * len(values))]


def _inside(rng: np.random.Generator, low: int, high: int) -> tuple[int, int]:
    """Return a number well inside a range, and a step that stays in it."""
    width = high - low
    return low + max(int((0.1 + 0.65 * rng.random()) * width), 1), max(width // 5, 2)


def ask(number: int, blanks: Blanks) -> str:
    """Return the question in words."""
    return QUESTIONS[number].question.format(**blanks)


def answer(number: int, blanks: Blanks, keys: dict[str, str]) -> str:
    """Return the SQL that answers a question.

    Args:
        number: Which question.
        blanks: What it asks about.
        keys: For each table of things, the column that refers to it.
    """
    meant = {_MEANT[name]: _WORDS[name][blanks[name]] for name in _WORDS if name in blanks}
    return QUESTIONS[number].sql.format(
        **blanks,
        **meant,
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

    >>> read_question("How many books are there whose length is above 120?")
    (0, {'a': 'books', 'number': 'length', 'compare': 'above', 'k': '120'})
    """
    for number, pattern in enumerate(_PATTERNS):
        if found := pattern.search(text):
            return number, found.groupdict()
    return None
