"""Hostile SQL: scripts reach no file, and queries have limits of memory and time."""

import os
import resource
import sqlite3
import threading

import pytest

from llm_gym.core.errors import ConfigError
from llm_gym.tools import ToolError, ToolRegistry
from llm_gym.tools.builtin.sql import Database, SqlProcess, SqlTool, sql_process

SCRIPT = "CREATE TABLE t (n INTEGER, s TEXT); INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, NULL);"


@pytest.fixture
def sql():
    return SqlTool(SCRIPT, max_rows=2)


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
def test_only_reading_is_allowed(sql, query):
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
def test_a_failed_query_has_a_reason(sql, query, reason):
    with pytest.raises(ToolError, match=reason):
        sql.execute(query=query)


def test_exponential_common_table_expressions_are_refused_unparsed(sql, monkeypatch):
    monkeypatch.setattr(SqlProcess, "ask", None)  # nobody asks SQLite
    query = "WITH t0 AS (SELECT 1 AS x)" + "".join(
        f", t{i} AS (SELECT 1 AS x FROM t{i - 1}, t{i - 1} AS u)" for i in range(1, 40)
    )
    with pytest.raises(ToolError, match="at most 20"):
        sql.execute(query=f"{query} SELECT * FROM t39")


def test_a_query_is_held_to_its_limits():
    count = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 9999) "
    database = Database(SCRIPT)
    assert database.query(f"{count} SELECT max(n) FROM c")[1] == [(9999,)]
    database.max_steps = 1000
    with pytest.raises(ToolError, match="too long"):
        database.query(f"{count} SELECT max(n) FROM c")
    database.max_value_chars = 100
    with pytest.raises(ToolError, match="too big"):
        database.query("SELECT hex(zeroblob(80))")
    with pytest.raises(ConfigError, match="max_rows"):
        SqlTool(SCRIPT, max_rows=0)


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
    assert path.read_bytes() == before


def doubled(levels: int) -> str:
    """Return a short query that SQLite expands to 8 to the power of ``levels`` before a step."""
    inner = "(SELECT 1 AS x)"
    for _ in range(levels):
        inner = f"(SELECT {'+'.join('x' * 8)} AS x FROM {inner})"
    return f"SELECT x FROM {inner}"


@pytest.mark.parametrize(
    "script",
    [
        "ATTACH '{0}' AS x; CREATE TABLE x.t (a);",
        "CREATE TABLE t (a); ATTACH DATABASE 'file:{0}?mode=rwc' AS x; CREATE TABLE x.t (a);",
        "VACUUM INTO '{0}';",
        "PRAGMA temp_store_directory = '{0}'; CREATE TEMP TABLE t (a);",
        "SELECT writefile('{0}', 'x');",
        "SELECT load_extension('{0}');",
        "CREATE VIRTUAL TABLE t USING csv('{0}');",
        "CREATE TABLE t (a); CREATE TRIGGER r AFTER INSERT ON t BEGIN "
        "SELECT writefile('{0}', 'x'); END; INSERT INTO t VALUES (1);",
    ],
)
def test_a_script_that_makes_a_database_writes_no_file(tmp_path, script):
    target = tmp_path / "planted.pth"
    with pytest.raises(ToolError, match="cannot be made"):
        SqlTool(script.format(target)).execute(query="SELECT 1")
    assert list(tmp_path.iterdir()) == []


def test_a_script_may_make_tables_rows_views_indices_and_full_text_search():
    script = (
        "BEGIN; CREATE TABLE t (n INTEGER PRIMARY KEY, s TEXT); CREATE INDEX i ON t (s); "
        "INSERT INTO t VALUES (1, 'a'), (2, 'b'); CREATE VIEW v AS SELECT max(n) AS m FROM t; "
        "CREATE VIRTUAL TABLE f USING fts5(body); INSERT INTO f VALUES ('hello there');"
    )
    database = Database(script)
    assert database.query("SELECT m FROM v")[1] == [(2,)]
    assert database.query("SELECT count(*) FROM f WHERE f MATCH 'hello'")[1] == [(1,)]


def test_a_query_that_grows_inside_sqlite_costs_this_process_no_memory():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    database = Database(SCRIPT)
    with pytest.raises(ToolError, match=r"too much memory|too long"):
        database.query(doubled(9))
    assert database.query("SELECT sum(n) FROM t")[1] == [(6,)]
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kb < 64 << 10


def test_a_killed_process_affects_no_other_database(monkeypatch):
    first, second = Database(SCRIPT), Database("CREATE TABLE u (n); INSERT INTO u VALUES (7);")
    assert first.query("SELECT count(*) FROM t")[1] == [(3,)]
    process = sql_process()
    starts = process.starts
    process._process.kill()
    process._process.wait()
    with pytest.raises(ToolError, match="too long"):
        first.query("SELECT 1")
    assert second.query("SELECT n FROM u")[1] == [(7,)]
    assert first.query("SELECT count(*) FROM t")[1] == [(3,)]
    assert process.starts == starts + 1


def test_results_are_limited_in_size_and_exact():
    query = "SELECT " + ", ".join(["hex(zeroblob(400))"] * 150)
    wide = f"{query} FROM t a, t b, t c, t d, t e"
    with pytest.raises(ToolError, match="1000000"):
        Database(SCRIPT).query(wide)
    query = "SELECT 9223372036854775807, -1e999, 0.1, x'00ff', NULL, 'é\u2028'"
    row = (2**63 - 1, float("-inf"), 0.1, b"\x00\xff", None, "é\u2028")
    assert Database(SCRIPT).query(query)[1] == [row]


@pytest.mark.parametrize(
    "when",
    [
        "date('now')", "date()", "datetime('NOW')", "strftime('%Y')", "strftime('%Y', 'now')",
        "time(x'6e6f77')", "julianday('now' || char(0) || 'x')", "CURRENT_TIMESTAMP",
        "CURRENT_DATE", "CURRENT_TIME", "date('subsec')", "datetime(' now ')",
    ],
)  # fmt: skip
def test_a_query_cannot_read_the_clock(when):
    database = Database(SCRIPT)
    with pytest.raises(ToolError):
        database.query(f"SELECT {when}")
    assert database.query("SELECT date('2020-02-28', '+2 days')")[1] == [("2020-03-01",)]


def test_a_damaged_or_hostile_file_is_refused_and_writes_nothing(tmp_path):
    (tmp_path / "bad.db").write_bytes(b"SQLite format 3\0" + os.urandom(5000))
    connection = sqlite3.connect(tmp_path / "view.db")
    connection.executescript(
        f"CREATE VIEW v AS SELECT writefile('{tmp_path}/planted', 'x') AS a; CREATE TABLE t (a);"
    )
    connection.close()
    for name, table in (("bad.db", "sqlite_master"), ("view.db", "v")):
        with pytest.raises(ToolError):
            SqlTool(str(tmp_path / name)).execute(query=f"SELECT * FROM {table}")
    assert {found.name for found in tmp_path.iterdir()} == {"bad.db", "view.db"}


def test_many_threads_share_the_process_and_get_their_own_answers():
    found: dict[int, object] = {}

    def ask(number: int) -> None:
        database = Database(f"CREATE TABLE t (n); INSERT INTO t VALUES ({number});")
        found[number] = [database.query("SELECT n FROM t")[1] for _ in range(5)]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {number: [[(number,)]] * 5 for number in range(8)}


def test_databases_beyond_the_cache_are_made_again():
    many = [Database(f"CREATE TABLE t (n); INSERT INTO t VALUES ({at});") for at in range(70)]
    for _ in range(2):
        assert [one.query("SELECT n FROM t")[1][0][0] for one in many] == list(range(70))


def test_the_process_ends_when_it_is_closed():
    process = SqlProcess()
    limits = {"max_rows": 1, "max_steps": 10**6, "max_value_chars": 1000}
    request = {"sql": "SELECT 1", "source": SCRIPT, "file": False, **limits}
    assert process.ask(request)["rows"] == [[1]]
    running = process._process
    process.close()
    assert running.poll() is not None


@pytest.mark.parametrize("source", ["x" * 5_000_000, "a\0b", "\ud800", "/no/such/file.db"])
def test_an_impossible_file_name_is_refused(source):
    with pytest.raises(ConfigError, match="database") as caught:
        SqlTool(source)
    assert len(str(caught.value)) < 400
