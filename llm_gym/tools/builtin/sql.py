"""``sql``: reads a database, and nothing but reads.

A query is stopped after a number of steps of SQLite's machine, not of seconds: the same query
has the same answer on every machine. It runs in a process of its own (``sql_process``), whose
memory and processor time are bounded, since some use up both before their first step.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

from llm_gym.errors import ConfigError
from llm_gym.tools.builtin.sql_process import sql_process
from llm_gym.tools.definition import Tool, ToolDefinition, ToolError

MAX_QUERY_CHARS = 5000
# Each name in WITH is expanded wherever it is used, before the first step: a query of a dozen
# lines can double a dozen times. Every use needs one of these.
_USES = re.compile(r",|\b(?:from|join|in)\b", re.IGNORECASE)
_WITH = re.compile(r"\bwith\b", re.IGNORECASE)
_MAX_USES = 20


class Database:
    """A database that only answers questions.

    It is opened at the first question, and opened again in a process it was pickled into.

    Args:
        source: Path of an SQLite file, or SQL that makes a database in memory: tables, rows,
            indices and views. Such a script reaches no file and no other database.
        max_steps: Steps of SQLite's machine per query.
        max_value_chars: Longest text that a query may make or read.

    >>> database = Database("CREATE TABLE t (n); INSERT INTO t VALUES (1), (2);")
    >>> database.query("SELECT sum(n) FROM t")
    (['sum(n)'], [(3,)])
    """

    def __init__(
        self, source: str, *, max_steps: int = 2_000_000, max_value_chars: int = 1000
    ) -> None:
        self.source, self.max_steps, self.max_value_chars = source, max_steps, max_value_chars
        named = f"{max_value_chars} {source}".encode("utf-8", "surrogatepass")
        self._key = hashlib.blake2b(named, digest_size=16).hexdigest()

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
        request = {"key": self._key, "sql": sql, "max_rows": max_rows, "max_steps": self.max_steps}
        answer = sql_process().ask(request, self._how())
        if "error" in answer:
            raise ToolError(_reason(answer["error"], answer.get("made", True)))
        if not answer["columns"]:  # an empty statement, or one that does nothing here
            raise ToolError("Use one SELECT.")
        return answer["columns"], [tuple(map(_cell, row)) for row in answer["rows"]]

    def close(self) -> None:
        """Close the connection; the next question opens it again."""
        sql_process().forget(self._key)

    def _how(self) -> dict[str, Any]:
        file = _is_file(self.source)
        source = f"{Path(self.source).resolve().as_uri()}?mode=ro" if file else self.source
        return {"source": source, "file": file, "max_value_chars": self.max_value_chars}


def _is_file(source: str) -> bool:
    return "\n" not in source and ";" not in source


def _is_there(path: str) -> bool:
    try:
        return Path(path).is_file()
    except (OSError, ValueError):  # no name that a file could have
        return False


def _cell(value: Any) -> Any:
    return bytes.fromhex(value["x"]) if isinstance(value, dict) else value


def _reason(text: str, made: bool) -> str:
    if not made:
        return f"The database cannot be made: {text}."
    if "interrupted" in text:
        return "The query takes too long."
    if "out of memory" in text:
        return "The query needs too much memory."
    if "not authorized" in text or "prohibited" in text or "readonly" in text:
        return "The database is read-only: use one SELECT."
    if "one statement" in text:
        return "Give one statement at a time."
    if "user-defined function raised" in text:
        return "The database knows no present time: give dates."
    return f"SQL error: {text}."


_DEFINITION = ToolDefinition(
    "sql",
    "Read the database with one SELECT statement (SQLite).",
    {
        "type": "object",
        "properties": {"query": {"type": "string", "description": "A SELECT statement."}},
        "required": ["query"],
        "additionalProperties": False,
    },
)


class SqlTool(Tool):
    """Answers SQL queries, read-only.

    Args:
        database: Path of an SQLite file, or SQL that makes a database in memory.
        max_rows: Rows shown.
        max_steps: Steps of SQLite's machine per query.
        max_value_chars: Longest text that a query may make or read.

    >>> tool = SqlTool("CREATE TABLE t (n, s); INSERT INTO t VALUES (1, 'one'), (2, NULL);")
    >>> print(tool.execute(query="SELECT * FROM t"))
    n | s
    1 | one
    2 | NULL
    (2 rows)
    """

    timeout = None  # it counts steps instead

    def __init__(
        self,
        database: str,
        *,
        max_rows: int = 20,
        max_steps: int = 2_000_000,
        max_value_chars: int = 1000,
    ) -> None:
        for name, value, least in (
            ("max_rows", max_rows, 1),
            ("max_steps", max_steps, 1),
            ("max_value_chars", max_value_chars, 100),
        ):
            if value < least:
                raise ConfigError(f"{name} must be at least {least}, got {value}")
        if _is_file(database) and not _is_there(database):
            got = f"{database!r:.200}"
            raise ConfigError(f"database must be a file or SQL that makes one, got {got}")
        self.max_rows = max_rows
        self.database = Database(database, max_steps=max_steps, max_value_chars=max_value_chars)

    @property
    def definition(self) -> ToolDefinition:
        return _DEFINITION

    def execute(self, /, **params: Any) -> str:
        columns, rows = self.database.query(params["query"], self.max_rows + 1)
        return show_table(columns, rows, self.max_rows)

    def close(self) -> None:
        self.database.close()


def show_table(columns: list[str], rows: list[tuple[Any, ...]], max_rows: int) -> str:
    r"""Return a result as text.

    >>> show_table(["n"], [(1,), (2.5,), (None,)], 2)
    'n\n1\n2.5\n(the first 2 rows)'
    """
    shown = [" | ".join(columns)]
    shown += [" | ".join(_show(value) for value in row) for row in rows[:max_rows]]
    count = len(rows)
    if count > max_rows:
        shown.append(f"(the first {max_rows} rows)")
    else:
        shown.append(f"({count} row{'s' * (count != 1)})")
    return "\n".join(shown)


def _show(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    return str(value)
