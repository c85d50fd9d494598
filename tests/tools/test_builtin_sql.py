"""SQL from strangers: scripts reach no file, queries no more memory and time than they may."""

import os
import resource
import sqlite3
import threading

import pytest

from llm_gym.core.errors import ConfigError
from llm_gym.tools import ToolError
from llm_gym.tools.builtin.sql import Database, SqlProcess, SqlTool, sql_process

SCRIPT = "CREATE TABLE t (n); INSERT INTO t VALUES (1), (2);"


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


def test_a_short_query_that_grows_inside_sqlite_costs_this_process_nothing():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    database = Database(SCRIPT)
    with pytest.raises(ToolError, match=r"too much memory|too long"):
        database.query(doubled(9))
    assert database.query("SELECT sum(n) FROM t")[1] == [(3,)]
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kb < 64 << 10


def test_a_query_that_kills_the_process_costs_no_other_database(monkeypatch):
    first, second = Database(SCRIPT), Database("CREATE TABLE u (n); INSERT INTO u VALUES (7);")
    assert first.query("SELECT count(*) FROM t")[1] == [(2,)]
    process = sql_process()
    starts = process.starts
    process._process.kill()
    process._process.wait()
    with pytest.raises(ToolError, match="too long"):
        first.query("SELECT 1")
    assert second.query("SELECT n FROM u")[1] == [(7,)]
    assert first.query("SELECT count(*) FROM t")[1] == [(2,)]
    assert process.starts == starts + 1


def test_results_have_a_size_and_come_back_as_they_are():
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
def test_a_query_knows_no_present_time(when):
    database = Database(SCRIPT)
    with pytest.raises(ToolError):
        database.query(f"SELECT {when}")
    assert database.query("SELECT date('2020-02-28', '+2 days')")[1] == [("2020-03-01",)]


def test_a_damaged_or_hostile_file_is_answered_and_writes_nothing(tmp_path):
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


def test_more_databases_than_are_kept_open_are_made_again():
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
def test_what_no_file_could_be_called_is_no_database(source):
    with pytest.raises(ConfigError, match="database") as said:
        SqlTool(source)
    assert len(str(said.value)) < 400
