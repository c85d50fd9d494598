"""``sql``: read-only queries of a database.

A query is stopped after a number of steps of SQLite's virtual machine, not after a time, so the
same query has the same answer on every machine. Queries run in a child process (``sql_worker``),
which all tools of this process share and which is replaced if a query kills it.
"""

import atexit
import json
import os
import re
import select
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from llm_gym.core.errors import ConfigError
from llm_gym.core.settings import check_range
from llm_gym.tools.definition import Tool, ToolError, text_definition

MAX_QUERY_CHARS = 5000
# SQLite expands each name in WITH wherever it is used, before the first step: a query of a dozen
# lines can double a dozen times. Every use needs one of these words.
_USES = re.compile(r",|\b(?:from|join|in)\b", re.IGNORECASE)
_WITH = re.compile(r"\bwith\b", re.IGNORECASE)
_MAX_USES = 20
_WALL_S = 60.0  # far above the limit on processor time
_WORKER = Path(__file__).with_name("sql_worker.py")


class SqlProcess:
    """The process that answers queries, one at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        """How often the process was started."""

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer; if a query kills the process, the answer is the reason."""
        with self._lock:
            process = self._get_process()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                process.stdin.write(json.dumps(request).encode() + b"\n")
                process.stdin.flush()
                if os.name == "posix" and not select.select([process.stdout], [], [], _WALL_S)[0]:
                    raise TimeoutError
                answer: dict[str, Any] = json.loads(process.stdout.readline())
            except (OSError, ValueError, TimeoutError):
                killed = [-getattr(signal, name, 0) for name in ("SIGPROF", "SIGKILL")]
                return {"error": "interrupted" if self._end() in killed else "out of memory"}
            except BaseException:  # an interrupt: its answer must not reach another query
                self._end()
                raise
            return answer

    def close(self) -> None:
        """End the process; a later query starts another."""
        with self._lock:
            self._end()

    def _get_process(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self.starts += 1
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", str(_WORKER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={"TZ": "UTC", "PATH": os.defpath},
                cwd="/",
            )
        return self._process

    def _end(self) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            with suppress(OSError):
                stream.close()
        try:
            return process.wait(0.2)  # a dying process gives its signal; an idle one ends itself
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


@cache
def _of_process(process: int) -> SqlProcess:
    found = SqlProcess()
    atexit.register(found.close)
    return found


def sql_process() -> SqlProcess:
    """Return the SQL process that this process shares; a forked process gets its own."""
    return _of_process(os.getpid())


class Database:
    """A read-only database.

    Args:
        source: Path of an SQLite file, or SQL that creates a database in memory: tables, rows,
            indices and views. Such a script has no access to files or other databases.

    >>> database = Database("CREATE TABLE t (n); INSERT INTO t VALUES (1), (2);")
    >>> database.query("SELECT sum(n) FROM t")
    (['sum(n)'], [(3,)])
    """

    max_steps = 2_000_000
    """Maximum steps of SQLite's virtual machine per query."""
    max_value_chars = 1000
    """Maximum length of a text that a query may create or read."""

    def __init__(self, source: str) -> None:
        self.source = source

    def query(self, sql: str, max_rows: int = 1000) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Return the names of the columns and up to ``max_rows`` rows.

        Raises ``ToolError`` with the reason if the query cannot be answered.
        """
        if len(sql) > MAX_QUERY_CHARS:
            raise ToolError(f"A query has at most {MAX_QUERY_CHARS} characters.")
        if _WITH.search(sql) and len(_USES.findall(sql)) > _MAX_USES:
            raise ToolError(
                f"A query with WITH has at most {_MAX_USES} commas, FROM, JOIN and IN together."
            )
        source, is_file = self.source, _is_file(self.source)
        if is_file:
            source = f"{Path(source).resolve().as_uri()}?mode=ro"
        limits = {"max_steps": self.max_steps, "max_value_chars": self.max_value_chars}
        request = {"sql": sql, "source": source, "file": is_file, "max_rows": max_rows, **limits}
        answer = sql_process().ask(request)
        if "error" in answer:
            raise ToolError(_reason(answer["error"], answer.get("made", True)))
        if not answer["columns"]:  # an empty statement, or one that does nothing here
            raise ToolError("Use one SELECT.")
        return answer["columns"], [tuple(map(_decode_cell, row)) for row in answer["rows"]]


def _is_file(source: str) -> bool:
    return "\n" not in source and ";" not in source


def _decode_cell(value: Any) -> Any:
    return bytes.fromhex(value["x"]) if isinstance(value, dict) else value


_READ_ONLY = "The database is read-only: use one SELECT."
_REASONS = {
    "interrupted": "The query takes too long.",
    "out of memory": "The query needs too much memory.",
    "not authorized": _READ_ONLY,
    "prohibited": _READ_ONLY,
    "readonly": _READ_ONLY,
    "one statement": "Give one statement at a time.",
    "user-defined function raised": "The database knows no present time: give dates.",
}
"""What SQLite's messages contain, and what the model is told."""


def _reason(text: str, made: bool) -> str:
    if not made:
        return f"The database cannot be made: {text}."
    return next((why for part, why in _REASONS.items() if part in text), f"SQL error: {text}.")


class SqlTool(Tool):
    """Answers SQL queries, read-only.

    Args:
        database: Path of an SQLite file, or SQL that creates a database in memory.
        max_rows: Maximum rows shown.

    >>> tool = SqlTool("CREATE TABLE t (n, s); INSERT INTO t VALUES (1, 'one'), (2, NULL);")
    >>> print(tool.execute(query="SELECT * FROM t"))
    n | s
    1 | one
    2 | NULL
    (2 rows)
    """

    definition = text_definition(
        "sql",
        "Read the database with one SELECT statement (SQLite).",
        "query",
        "A SELECT statement.",
    )
    timeout = None  # it counts steps instead

    def __init__(self, database: str, *, max_rows: int = 20) -> None:
        check_range("max_rows", max_rows, 1)
        if _is_file(database) and not os.path.isfile(database):
            got = f"{database!r:.200}"
            raise ConfigError(f"database must be a file or SQL that makes one, got {got}")
        self.max_rows = max_rows
        self.database = Database(database)

    def execute(self, /, **params: Any) -> str:
        columns, rows = self.database.query(params["query"], self.max_rows + 1)
        return show_table(columns, rows, self.max_rows)


def show_table(columns: list[str], rows: list[tuple[Any, ...]], max_rows: int) -> str:
    r"""Return a result as text.

    >>> show_table(["n"], [(1,), (2.5,), (None,)], 2)
    'n\n1\n2.5\n(the first 2 rows)'
    """
    lines = [" | ".join(columns)]
    lines += [" | ".join(map(_show, row)) for row in rows[:max_rows]]
    count = len(rows)
    if count > max_rows:
        lines.append(f"(the first {max_rows} rows)")
    else:
        lines.append(f"({count} row{'s' * (count != 1)})")
    return "\n".join(lines)


def _show(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return str(value)
