"""Questions about a database, with the SQL that answers them."""

import re
from collections.abc import Sequence
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


_FROM_A = "FROM {links} JOIN {a} ON {a}.id = {links}.{a_id}"
_FROM_AB = f"{_FROM_A} JOIN {{b}} ON {{b}}.id = {{links}}.{{b_id}}"
_ONE = (
    (
        "How many {a} are there whose {number} is {compare} {k}?",
        "SELECT count(*) FROM {a} WHERE {number} {op} {k}",
    ),
    (
        "What are the names of the {a} whose {word} is '{v}'?",
        "SELECT name FROM {a} WHERE {word} = '{v}'",
    ),
    (
        "What are the names of the {a} whose {word} is not '{v}' and whose {number} is {compare} "
        "{k}?",
        "SELECT name FROM {a} WHERE {word} <> '{v}' AND {number} {op} {k}",
    ),
    (
        "What is the {aggregate} {number} of the {a} whose {word} is '{v}'?",
        "SELECT {function}({number}) FROM {a} WHERE {word} = '{v}'",
    ),
    (
        "How many of the {a} whose {number} is {compare} {k} are there for each {word}? Give the "
        "{word} and the count, where there is any.",
        "SELECT {word}, count(*) FROM {a} WHERE {number} {op} {k} GROUP BY {word}",
    ),
    (
        "What is the {aggregate} {number} of the {a} for each {word}? Give the {word} and the "
        "{number}.",
        "SELECT {word}, {function}({number}) FROM {a} GROUP BY {word}",
    ),
    (
        "Which of the {a} has the {extreme} {number}? Give the name; of equal ones the first by "
        "name.",
        "SELECT name FROM {a} ORDER BY {number} {direction}, name LIMIT 1",
    ),
    (
        "Which {few} of the {a} have the {extreme} {number}? Give the names; of equal ones the "
        "first by name.",
        "SELECT name FROM {a} ORDER BY {number} {direction}, name LIMIT {few}",
    ),
    (
        "How many different values of {word} do the {a} have whose {number} is {compare} {k}?",
        "SELECT count(DISTINCT {word}) FROM {a} WHERE {number} {op} {k}",
    ),
    (
        "What are the names of the {a} whose {number} is from {k} to {k2}, both included?",
        "SELECT name FROM {a} WHERE {number} >= {k} AND {number} <= {k2}",
    ),
    (
        "What are the names of the {a} whose {word} is '{v}' and whose {number} is {compare} {k}?",
        "SELECT name FROM {a} WHERE {word} = '{v}' AND {number} {op} {k}",
    ),
    (
        "How many {a} are there whose {word} is '{v}' or whose {number} is {compare} {k}, or both?",
        "SELECT count(*) FROM {a} WHERE {word} = '{v}' OR {number} {op} {k}",
    ),
    (
        "Which values of {word} do {many} {few} of the {a} have?",
        "SELECT {word} FROM {a} GROUP BY {word} HAVING count(*) {many_op} {few}",
    ),
    (
        "What are the names of the {a} whose {number} is above the average of all {a}?",
        "SELECT name FROM {a} WHERE {number} > (SELECT avg({number}) FROM {a})",
    ),
)
_TWO = (
    (
        "How many {links} belong to {a} whose {word} is '{v}'?",
        f"SELECT count(*) {_FROM_A} WHERE {{a}}.{{word}} = '{{v}}'",
    ),
    (
        "Which of the {a} has the largest total {amount} in its {links}? Give the name; of equal "
        "ones the first by name.",
        f"SELECT {{a}}.name {_FROM_A} GROUP BY {{a}}.id "
        "ORDER BY sum({links}.{amount}) DESC, {a}.name LIMIT 1",
    ),
    (
        "What are the names of the {a} without any {links}?",
        "SELECT name FROM {a} WHERE id NOT IN (SELECT {a_id} FROM {links})",
    ),
    (
        "What are the names of the {a} with {many} {few} {links}?",
        f"SELECT {{a}}.name {_FROM_A} GROUP BY {{a}}.id HAVING count(*) {{many_op}} {{few}}",
    ),
    (
        "How many {links} does each of the {a} have? Give the name and the count, also where it "
        "is 0.",
        "SELECT {a}.name, count({links}.id) FROM {a} LEFT JOIN {links} "
        "ON {a}.id = {links}.{a_id} GROUP BY {a}.id",
    ),
    (
        "What is the {aggregate} {amount} in the {links} of {a} whose {word} is '{v}'?",
        f"SELECT {{function}}({{links}}.{{amount}}) {_FROM_A} WHERE {{a}}.{{word}} = '{{v}}'",
    ),
    (
        "What are the names of the {a} that have {links} whose {amount} is {m_compare} {m}? "
        "Give each once.",
        f"SELECT DISTINCT {{a}}.name {_FROM_A} WHERE {{links}}.{{amount}} {{m_op}} {{m}}",
    ),
    (
        "What is the total {amount} in the {links} for each {word} of the {a}? Give the {word} "
        "and the total, where there is any.",
        f"SELECT {{a}}.{{word}}, sum({{links}}.{{amount}}) {_FROM_A} GROUP BY {{a}}.{{word}}",
    ),
    (
        "How many {a} have no {links} whose {amount} is {m_compare} {m}?",
        "SELECT count(*) FROM {a} WHERE id NOT IN "
        "(SELECT {a_id} FROM {links} WHERE {amount} {m_op} {m})",
    ),
    (
        "What are the names of the {a} for whose {links} the total {amount} is {m_compare} {t}? "
        "Leave out those without {links}.",
        f"SELECT {{a}}.name {_FROM_A} GROUP BY {{a}}.id "
        "HAVING sum({links}.{amount}) {m_op} {t}",
    ),
    (
        "How many different {a} whose {number} is {compare} {k} have {links}?",
        f"SELECT count(DISTINCT {{links}}.{{a_id}}) {_FROM_A} WHERE {{a}}.{{number}} {{op}} {{k}}",
    ),
    (
        "Which {word} of the {a} has the most {links}? Give the {word}; of equal ones the first by "
        "alphabet.",
        f"SELECT {{a}}.{{word}} {_FROM_A} GROUP BY {{a}}.{{word}} "
        "ORDER BY count(*) DESC, {a}.{word} LIMIT 1",
    ),
    (
        "How many {links} whose {amount} is {m_compare} {m} belong to {a} whose {number} is "
        "{compare} {k}?",
        f"SELECT count(*) {_FROM_A} WHERE {{links}}.{{amount}} {{m_op}} {{m}} "
        "AND {a}.{number} {op} {k}",
    ),
)
_THREE = (
    (
        "What are the names of the {a} that have {links} with {b} whose {b_word} is '{b_v}'? Give "
        "each once.",
        f"SELECT DISTINCT {{a}}.name {_FROM_AB} WHERE {{b}}.{{b_word}} = '{{b_v}}'",
    ),
    (
        "What is the total {amount} in the {links} of {a} whose {number} is {compare} {k}, for "
        "each {b_word} of the {b}? Give the {b_word} and the total, where there is any.",
        f"SELECT {{b}}.{{b_word}}, sum({{links}}.{{amount}}) {_FROM_AB} "
        "WHERE {a}.{number} {op} {k} GROUP BY {b}.{b_word}",
    ),
    (
        "How many {links} are there of {a} whose {word} is '{v}' with {b} whose {b_word} is "
        "'{b_v}'?",
        f"SELECT count(*) {_FROM_AB} WHERE {{a}}.{{word}} = '{{v}}' "
        "AND {b}.{b_word} = '{b_v}'",
    ),
    (
        "What are the names of the {a} without any {links} with {b} whose {b_word} is '{b_v}'?",
        "SELECT name FROM {a} WHERE id NOT IN (SELECT {links}.{a_id} FROM {links} JOIN {b} "
        "ON {b}.id = {links}.{b_id} WHERE {b}.{b_word} = '{b_v}')",
    ),
    (
        "What is the {aggregate} {amount} in the {links} of {a} whose {word} is '{v}' with {b} "
        "whose {b_number} is {b_compare} {j}?",
        f"SELECT {{function}}({{links}}.{{amount}}) {_FROM_AB} WHERE {{a}}.{{word}} = '{{v}}' "
        "AND {b}.{b_number} {b_op} {j}",
    ),
    (
        "How many different {b} are in the {links} of {a} whose {word} is '{v}'?",
        f"SELECT count(DISTINCT {{links}}.{{b_id}}) {_FROM_AB} WHERE {{a}}.{{word}} = '{{v}}'",
    ),
    (
        "How many {links} are there for each {word} of the {a} and {b_word} of the {b}? Give the "
        "{word}, the {b_word} and the count, where there is any.",
        f"SELECT {{a}}.{{word}}, {{b}}.{{b_word}}, count(*) {_FROM_AB} "
        "GROUP BY {a}.{word}, {b}.{b_word}",
    ),
    (
        "Which of the {b} has the most {links} with {a} whose {word} is '{v}'? Give the name; of "
        "equal ones the first by name.",
        f"SELECT {{b}}.name {_FROM_AB} WHERE {{a}}.{{word}} = '{{v}}' GROUP BY {{b}}.id "
        "ORDER BY count(*) DESC, {b}.name LIMIT 1",
    ),
    (
        "What are the names of the {a} with {many} {few} different {b} in their {links}?",
        f"SELECT {{a}}.name {_FROM_AB} GROUP BY {{a}}.id "
        "HAVING count(DISTINCT {links}.{b_id}) {many_op} {few}",
    ),
    (
        "How many different {b} are in the {links} of the {a}, for each {word} of the {a}? Give "
        "the {word} and the count, where there is any.",
        f"SELECT {{a}}.{{word}}, count(DISTINCT {{links}}.{{b_id}}) {_FROM_AB} "
        "GROUP BY {a}.{word}",
    ),
    (
        "Who is in the {links} whose {amount} is {m_compare} {m}? Give the name of the {a} and "
        "that of the {b}, a row for each of the {links}.",
        f"SELECT {{a}}.name, {{b}}.name {_FROM_AB} WHERE {{links}}.{{amount}} {{m_op}} {{m}}",
    ),
    (
        "Which {b_word} of the {b} has the largest total {amount} in {links} with {a} "
        "whose {number} is {compare} {k}? Give the {b_word}; of equal ones the first by alphabet.",
        f"SELECT {{b}}.{{b_word}} {_FROM_AB} WHERE {{a}}.{{number}} {{op}} {{k}} "
        "GROUP BY {b}.{b_word} ORDER BY sum({links}.{amount}) DESC, {b}.{b_word} LIMIT 1",
    ),
)
QUESTIONS: tuple[QuestionTemplate, ...] = tuple(
    QuestionTemplate(question, sql, tables)
    for tables, rows in enumerate((_ONE, _TWO, _THREE), 1)
    for question, sql in rows
)


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
        "a": a.table,
        "b": b.table,
        "links": links.links,
        "word": word,
        "b_word": b_word,
        "number": column,
        "b_number": b_column,
        "amount": amount,
        "v": _one_of(rng, a.words[word]),
        "b_v": _one_of(rng, b.words[b_word]),
        "k": k,
        "k2": k + k_step,
        "j": j,
        "m": m,
        "t": 2 * m,
        "few": 2 + int(3 * rng.random()),
    }


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
