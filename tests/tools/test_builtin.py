"""The tools that come with the package: calculator, search and SQL."""

import json
import math
import pickle
import sqlite3

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_gym.core.errors import ConfigError
from llm_gym.tools import ToolError, ToolRegistry, get_tool
from llm_gym.tools.builtin.calculator import calculate
from llm_gym.tools.builtin.search import BM25, SearchTool, words
from llm_gym.tools.builtin.sql import SqlProcess, SqlTool
from tests.work import ends_at_all, steps_of

# --- calculator --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 1", "2"), ("7 // 2", "3"), ("7 % 4", "3"), ("2 ** 10", "1024"), ("2^10", "1024"),
        ("-3 ** 2", "-9"), ("10 / 4", "2.5"), ("6 / 3", "2"), ("1e3", "1000"), ("0", "0"),
        ("sqrt(16)", "4"), ("Max(1, 2.5)", "2.5"), ("round(2.567, 2)", "2.57"), ("3 × 4 − 2", "10"),
        ("factorial(20)", str(math.factorial(20))), ("comb(10, 3)", "120"), ("gcd(12, 18)", "6"),
        ("pi", "3.14159265359"), ("0.1 + 0.2", "0.3"), ("1234567 * 7654321", "9449772114007"),
    ],
)  # fmt: skip
def test_calculates(expression, value):
    assert calculate(expression) == value


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("1 / 0", "Division by zero"), ("1 +", "not an arithmetic"), ("", "not an arithmetic"),
        ("9 ** 9 ** 9 ** 9", "bits"), ("factorial(100000)", "up to 1000"), ("sqrt(-1)", "no value"),
        ("(-8) ** 0.5", "real number"), ("1e308 * 10", "too large"), ("min(x=1)", "numbers"),
        ("__import__('os')", "numbers"), ("().__class__", "numbers"), ("[1]", "numbers"),
        ("open('/etc/passwd')", "numbers"), ("1 if 1 else 2", "numbers"), ("lambda: 1", "numbers"),
        ("True", "numbers"), ("'a' * 9", "numbers"), ("x", "numbers"), ("sin()", "no value"),
        ("eval(1)", "no function eval"), ("(" * 400, "not an arithmetic"), ("1;2", "not an arith"),
        ("9" * 501, "at most 500"), ("\x00", "not an arithmetic"), ("10**3000 * 10**3000", "bits"),
        ("10**400 * 1.5", "no value"), ("round(1, -9999999)", "digits"), ("comb(1e9, 2)", "up to"),
    ],
)  # fmt: skip
def test_refuses_what_is_not_arithmetic_or_too_large(expression, reason):
    with pytest.raises(ToolError, match=reason):
        calculate(expression)


@given(st.text(alphabet="0123456789.+-*/%^() eE,<>&|~sqrtpimaxfl_'\"[]", max_size=120))
def test_any_expression_is_a_number_or_a_reason_in_few_steps(text):
    def read():
        try:
            float(calculate(text))
        except ToolError as error:
            assert str(error)  # noqa: PT017

    with ends_at_all():  # one step may multiply numbers of any size
        assert steps_of(read) < 5000


# --- search ------------------------------------------------------------------------------

DOCUMENTS = ["the cat sat", "the dog sat on the cat", "a bird flew", "cat cat cat"]


def by_hand(documents, query, k1=1.2, b=0.75):
    """BM25 as in the textbook, one document at a time."""
    bags = [words(document) for document in documents]
    mean = sum(map(len, bags)) / len(bags)
    scores = []
    for bag in bags:
        score = 0.0
        for word in set(words(query)):
            n = sum(word in other for other in bags)
            tf = bag.count(word)
            idf = math.log(1 + (len(bags) - n + 0.5) / (n + 0.5))
            score += idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * len(bag) / mean))
        scores.append(score)
    return scores


def test_scores_are_those_of_the_formula():
    for query, constants in (
        ("cat", {}), ("the cat sat", {}), ("bird on", {}), ("dog dog dog", {}),
        ("cat", {"k1": 0.1}), ("cat", {"b": 0.0}),
    ):  # fmt: skip
        expected = by_hand(DOCUMENTS, query, **constants)
        found = dict(BM25(DOCUMENTS, **constants).search(query, 10))
        assert found == pytest.approx({at: s for at, s in enumerate(expected) if s > 0})


def test_the_best_come_first_and_common_words_never_count_against_one():
    assert [at for at, _ in BM25(["x y", "x y", "z"]).search("x", 5)] == [0, 1]
    assert BM25([]).search("x", 5) == []
    assert BM25(["", ""]).search("x", 5) == []
    assert BM25(["a b"]).search("", 5) == []
    rng = np.random.default_rng(0)
    documents = [" ".join(rng.choice(list("abcdef"), 6)) for _ in range(50)]
    assert all(score > 0 for _, score in BM25(documents).search("a b c d e f", 50))


def test_search_shows_titles_and_beginnings():
    tool = SearchTool({"Cats": "Cats purr." * 9, "Dogs": "Dogs bark."}, results=1, snippet_chars=10)
    assert tool.execute(query="cats dogs purr") == "[1] Cats: Cats purr."
    assert tool.execute(query="whales") == "No document matches."
    assert ToolRegistry([tool]).execute_tool("search", query=" ") == (False, "The query is empty.")
    assert tool.execute(query="cats " * 5000).startswith("[1] Cats")


def test_search_reads_a_file_and_pickles(tmp_path):
    path = tmp_path / "corpus.json"
    path.write_text(json.dumps({"A": "apple", "B": "banana"}))
    tool = get_tool("search", corpus=str(path))
    assert tool.execute(query="banana") == "[1] B: banana"
    assert pickle.loads(pickle.dumps(tool)).execute(query="apple") == "[1] A: apple"
    path.write_text("[1]")
    with pytest.raises(ConfigError, match="object of texts"):
        SearchTool(str(path))
    with pytest.raises(ConfigError, match="cannot read"):
        SearchTool(str(tmp_path / "none.json"))
    with pytest.raises(ConfigError, match="results"):
        SearchTool({}, results=0)
    with pytest.raises(ConfigError, match="snippet_chars"):
        SearchTool({}, snippet_chars=0)


# --- SQL ---------------------------------------------------------------------------------

SCRIPT = "CREATE TABLE t (n INTEGER, s TEXT); INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, NULL);"


@pytest.fixture
def sql():
    tool = SqlTool(SCRIPT, max_rows=2)
    yield tool
    tool.close()


def test_a_query_is_a_table(sql):
    assert sql.execute(query="SELECT s, n FROM t WHERE n < 3;") == "s | n\na | 1\nb | 2\n(2 rows)"
    assert sql.execute(query="SELECT s FROM t WHERE n = 3") == "s\nNULL\n(1 row)"
    assert sql.execute(query="SELECT n FROM t") == "n\n1\n2\n(the first 2 rows)"
    assert sql.execute(query="SELECT x'00ff' AS b") == "b\nx'00ff'\n(1 row)"
    assert sql.execute(query="WITH a AS (SELECT 5 AS n) SELECT n FROM a") == "n\n5\n(1 row)"


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM t", "INSERT INTO t VALUES (4, 'd')", "UPDATE t SET n = 0", "DROP TABLE t",
        "CREATE TABLE u (n)", "PRAGMA query_only = OFF", "ATTACH '/tmp/x.db' AS x", "VACUUM",
        "VACUUM INTO '/tmp/x.db'", "BEGIN", "", "SELECT load_extension('x')", "SELECT random()",
        "CREATE TEMP TABLE u (n)", "REINDEX", "ANALYZE", "DETACH main", "SAVEPOINT x",
        "SELECT * FROM pragma_database_list",
    ],
)  # fmt: skip
def test_nothing_but_reading_is_possible(sql, query):
    assert ToolRegistry([sql]).execute_tool("sql", query=query)[0] is False
    assert sql.execute(query="SELECT count(*) FROM t") == "count(*)\n3\n(1 row)"


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT x FROM t", "no such column: x"), ("SELEC 1", "syntax error"),
        ("SELECT 1; SELECT 2", "one statement"), ("SELECT '" + "x" * 5000 + "'", "at most 5000"),
        ("SELECT zeroblob(1e9)", "too big"), ("SELECT \ud800", "SQL error"), ("\x00", "SQL error"),
        ("SELECT " + "(" * 900 + "1" + ")" * 900, "SQL error"),
        ("WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT sum(n) FROM c",
         "too long"),
        ("SELECT count(*) FROM t a, t b, t c, t d, t e, t f, t g, t h, t i, t j, t k, t l, t m",
         "too long"),
    ],
)  # fmt: skip
def test_what_cannot_be_answered_has_a_reason(sql, query, reason):
    with pytest.raises(ToolError, match=reason):
        sql.execute(query=query)


def test_names_that_double_again_and_again_are_stopped_before_they_are_expanded(sql, monkeypatch):
    monkeypatch.setattr(SqlProcess, "ask", None)  # nobody asks SQLite
    query = "WITH t0 AS (SELECT 1 AS x)" + "".join(
        f", t{i} AS (SELECT 1 AS x FROM t{i - 1}, t{i - 1} AS u)" for i in range(1, 40)
    )
    with pytest.raises(ToolError, match="at most 20"):
        sql.execute(query=f"{query} SELECT * FROM t39")


def test_a_query_is_held_to_its_limits():
    count = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 9999) "
    for steps, ok in ((1000, False), (2_000_000, True)):
        registry = ToolRegistry([tool := SqlTool(SCRIPT)])
        tool.database.max_steps = steps
        assert registry.execute_tool("sql", query=f"{count} SELECT max(n) FROM c")[0] is ok
        tool.close()
    tool = SqlTool(SCRIPT)
    tool.database.max_value_chars = 100
    with pytest.raises(ToolError, match="too big"):
        tool.execute(query="SELECT hex(zeroblob(80))")
    tool.close()
    with pytest.raises(ConfigError, match="max_rows"):
        SqlTool(SCRIPT, max_rows=0)
    with pytest.raises(ConfigError, match="database"):
        SqlTool("nowhere.db")


def test_a_file_is_opened_read_only_and_left_alone(tmp_path):
    path = tmp_path / "data base.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(SCRIPT)
    connection.close()
    before = path.read_bytes()
    tool = SqlTool(str(path))
    assert "2 | b" in tool.execute(query="SELECT * FROM t")
    with pytest.raises(ToolError, match="read-only"):
        tool.execute(query="DELETE FROM t")
    tool.close()
    assert path.read_bytes() == before
