"""What can be asked about a database, and the SQL that answers it.

A template has blanks in braces. Those of the question are filled from what ``draw_question`` drew;
those of the SQL also from what the words stand for: ``{op}`` for ``{compare}``, and so on.
"""

from __future__ import annotations

from typing import NamedTuple

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
        "How many {a} have a {number} {compare} {k}?",
        "SELECT count(*) FROM {a} WHERE {number} {op} {k}",
    ),
    (
        "What are the names of the {a} whose {word} is '{v}'?",
        "SELECT name FROM {a} WHERE {word} = '{v}'",
    ),
    (
        "What are the names of the {a} whose {word} is not '{v}'?",
        "SELECT name FROM {a} WHERE {word} <> '{v}'",
    ),
    (
        "What is the {aggregate} {number} of the {a} whose {word} is '{v}'?",
        "SELECT {function}({number}) FROM {a} WHERE {word} = '{v}'",
    ),
    (
        "How many {a} are there for each {word}? Give the {word} and the count.",
        "SELECT {word}, count(*) FROM {a} GROUP BY {word}",
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
        "How many different values of {word} do the {a} with a {number} {compare} {k} have?",
        "SELECT count(DISTINCT {word}) FROM {a} WHERE {number} {op} {k}",
    ),
    (
        "What are the names of the {a} with a {number} from {k} to {k2}, both included?",
        "SELECT name FROM {a} WHERE {number} >= {k} AND {number} <= {k2}",
    ),
    (
        "What are the names of the {a} whose {word} is '{v}' and whose {number} is {compare} {k}?",
        "SELECT name FROM {a} WHERE {word} = '{v}' AND {number} {op} {k}",
    ),
    (
        "How many {a} have the {word} '{v}' or a {number} {compare} {k}, or both?",
        "SELECT count(*) FROM {a} WHERE {word} = '{v}' OR {number} {op} {k}",
    ),
    (
        "Which values of {word} do {many} {few} of the {a} have?",
        "SELECT {word} FROM {a} GROUP BY {word} HAVING count(*) {many_op} {few}",
    ),
    (
        "What are the names of the {a} with a {number} above the average of all {a}?",
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
        "What are the names of the {a} that have {links} with a {amount} {m_compare} {m}? Give "
        "each once.",
        f"SELECT DISTINCT {{a}}.name {_FROM_A} WHERE {{links}}.{{amount}} {{m_op}} {{m}}",
    ),
    (
        "What is the total {amount} in the {links} for each {word} of the {a}? Give the {word} "
        "and the total, where there is any.",
        f"SELECT {{a}}.{{word}}, sum({{links}}.{{amount}}) {_FROM_A} GROUP BY {{a}}.{{word}}",
    ),
    (
        "How many {a} have no {links} with a {amount} {m_compare} {m}?",
        "SELECT count(*) FROM {a} WHERE id NOT IN "
        "(SELECT {a_id} FROM {links} WHERE {amount} {m_op} {m})",
    ),
    (
        "What are the names of the {a} whose {links} have a total {amount} {m_compare} {t}? Leave "
        "out those without {links}.",
        f"SELECT {{a}}.name {_FROM_A} GROUP BY {{a}}.id "
        "HAVING sum({links}.{amount}) {m_op} {t}",
    ),
    (
        "How many different {a} with a {number} {compare} {k} have {links}?",
        f"SELECT count(DISTINCT {{links}}.{{a_id}}) {_FROM_A} WHERE {{a}}.{{number}} {{op}} {{k}}",
    ),
    (
        "Which {word} of the {a} has the most {links}? Give the {word}; of equal ones the first by "
        "alphabet.",
        f"SELECT {{a}}.{{word}} {_FROM_A} GROUP BY {{a}}.{{word}} "
        "ORDER BY count(*) DESC, {a}.{word} LIMIT 1",
    ),
    (
        "How many {links} with a {amount} {m_compare} {m} belong to {a} with a {number} {compare} "
        "{k}?",
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
        "What is the total {amount} in the {links} of {a} with a {number} {compare} {k}, for each "
        "{b_word} of the {b}? Give the {b_word} and the total, where there is any.",
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
        "that have a {b_number} {b_compare} {j}?",
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
        "Who is in the {links} with a {amount} {m_compare} {m}? Give the name of the {a} and that "
        "of the {b}, a row for each of the {links}.",
        f"SELECT {{a}}.name, {{b}}.name {_FROM_AB} WHERE {{links}}.{{amount}} {{m_op}} {{m}}",
    ),
    (
        "Which {b_word} of the {b} has the largest total {amount} in {links} with {a} that have a "
        "{number} {compare} {k}? Give the {b_word}; of equal ones the first by alphabet.",
        f"SELECT {{b}}.{{b_word}} {_FROM_AB} WHERE {{a}}.{{number}} {{op}} {{k}} "
        "GROUP BY {b}.{b_word} ORDER BY sum({links}.{amount}) DESC, {b}.{b_word} LIMIT 1",
    ),
)
QUESTIONS: tuple[QuestionTemplate, ...] = tuple(
    QuestionTemplate(question, sql, tables)
    for tables, rows in enumerate((_ONE, _TWO, _THREE), 1)
    for question, sql in rows
)
