"""The process in which SQL runs: a script that imports only the standard library.

A query can use much memory and time inside SQLite before its first step is counted, and Python
cannot stop it there. So it runs in this process, under limits of the kernel. The authorizer allows
only reads. (The sandbox is Linux only, and it limits wall-clock time.)
"""

import contextlib
import json
import signal
import sqlite3
import sys
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

MEMORY_BYTES = 256 << 20
CPU_S = 2.0
MAX_ANSWER_CHARS = 1_000_000
_OPEN = 64  # databases that are kept open
_STEPS_AT_ONCE = 1000
_SCRIPT_STEPS = 50_000_000  # of SQLite's machine, to make a database
_LONGEST_PATTERN, _DEEPEST = 100, 200

_READS = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_RECURSIVE,
}
# Further rights of a script that creates a database: no file, no setting, no other database.
_MAKES = {
    getattr(sqlite3, f"SQLITE_{name}")
    for name in (
        "ALTER_TABLE", "ANALYZE", "CREATE_INDEX", "CREATE_TABLE", "CREATE_TEMP_INDEX",
        "CREATE_TEMP_TABLE", "CREATE_TEMP_TRIGGER", "CREATE_TEMP_VIEW", "CREATE_TRIGGER",
        "CREATE_VIEW", "DELETE", "DROP_INDEX", "DROP_TABLE", "DROP_TEMP_INDEX", "DROP_TEMP_TABLE",
        "DROP_TEMP_TRIGGER", "DROP_TEMP_VIEW", "DROP_TRIGGER", "DROP_VIEW", "INSERT", "REINDEX",
        "SAVEPOINT", "TRANSACTION", "UPDATE",
    )
}  # fmt: skip
_MODULES = {"fts3", "fts4", "fts5", "rtree"}
# Functions that reach files or memory, or give every call another result.
_FORBIDDEN = {
    "load_extension", "fts3_tokenizer", "writefile", "readfile", "edit", "random", "randomblob",
    "current_date", "current_time", "current_timestamp", "sqlite_version", "sqlite_source_id",
}  # fmt: skip
_CLOCKS = ("date", "time", "datetime", "julianday", "unixepoch", "strftime", "timediff")
_NOW = {"now", "subsec", "subsecond"}


def _authorize(making: bool) -> Callable[..., int]:
    allowed = _READS | _MAKES if making else _READS

    def judge(action: int, first: str | None, second: str | None, *_: str | None) -> int:
        if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _FORBIDDEN:
            return sqlite3.SQLITE_DENY
        if making and action == sqlite3.SQLITE_CREATE_VTABLE:
            return sqlite3.SQLITE_OK if (second or "").lower() in _MODULES else sqlite3.SQLITE_DENY
        if action == sqlite3.SQLITE_PRAGMA and not second:  # full-text search asks for this
            return sqlite3.SQLITE_OK if first == "data_version" else sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK if action in allowed else sqlite3.SQLITE_DENY

    return judge


def _stop_clocks(connection: sqlite3.Connection) -> None:
    """Replace the date functions by ones that refuse the current time."""
    plain = sqlite3.connect(":memory:")

    def stopped(name: str) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            # It is the first argument that may be "now", or the second, after a format.
            dates = arguments[1:2] if name == "strftime" else arguments[:2]
            if not dates or any(_means_now(value) for value in dates):
                raise ValueError("there is no now")
            marks = ", ".join("?" * len(arguments))
            return plain.execute(f"SELECT {name}({marks})", arguments).fetchone()[0]

        return call

    for name in _CLOCKS:
        connection.create_function(name, -1, stopped(name), deterministic=True)


def _means_now(value: Any) -> bool:
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    return isinstance(text, str) and text.partition("\0")[0].strip().lower() in _NOW


def _connect(request: dict[str, Any]) -> sqlite3.Connection:
    """Open the file, or create the database from the script, in ``request``."""
    if request["file"]:
        connection = sqlite3.connect(request["source"], uri=True, isolation_level=None)
        connection.execute("PRAGMA cell_size_check = ON")
    else:
        connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA temp_store = MEMORY")  # this process can write no file
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_EXPR_DEPTH, _DEEPEST)
    _stop_clocks(connection)
    if not request["file"]:
        connection.set_authorizer(_authorize(making=True))
        _count(connection, _SCRIPT_STEPS)
        connection.executescript(request["source"])
        connection.set_authorizer(None)
        if connection.in_transaction:
            connection.execute("COMMIT")
    connection.execute("PRAGMA query_only = ON")
    # Reads the schema now, whose statements may be longer than a value.
    connection.execute("SELECT count(*) FROM sqlite_master").fetchall()
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, request["max_value_chars"])
    connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, _LONGEST_PATTERN)
    connection.set_authorizer(_authorize(making=False))
    return connection


def _count(connection: sqlite3.Connection, most: int) -> None:
    steps = 0

    def stop() -> bool:
        nonlocal steps
        steps += _STEPS_AT_ONCE
        return steps > most

    connection.set_progress_handler(stop, _STEPS_AT_ONCE)


def _query(connection: sqlite3.Connection, request: dict[str, Any]) -> dict[str, Any]:
    _count(connection, request["max_steps"])
    cursor = connection.execute(request["sql"])
    try:
        columns = [column[0] for column in cursor.description or ()]
        rows: list[list[Any]] = []
        size = sum(map(len, columns))
        while len(rows) < request["max_rows"] and (row := cursor.fetchone()) is not None:
            cells = [{"x": cell.hex()} if isinstance(cell, bytes) else cell for cell in row]
            size += sum(8 + (len(cell) if isinstance(cell, str | bytes) else 0) for cell in row)
            if size > MAX_ANSWER_CHARS:
                return {"error": f"the result has more than {MAX_ANSWER_CHARS} characters"}
            rows.append(cells)
    finally:
        cursor.close()
    return {"columns": columns, "rows": rows}


class SqlWorker:
    """Answers requests and keeps their databases open."""

    def __init__(self) -> None:
        self.open: OrderedDict[tuple[str, int], sqlite3.Connection] = OrderedDict()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return columns and rows, or an error and whether the database could be made."""
        key = request["source"], request["max_value_chars"]
        try:
            if key not in self.open:
                if len(self.open) >= _OPEN:
                    self.open.popitem(last=False)[1].close()
                self.open[key] = _connect(request)
            self.open.move_to_end(key)
            return _query(self.open[key], request)
        except MemoryError:
            while self.open:
                self.open.popitem()[1].close()
            return {"error": "out of memory"}
        except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
            return {"error": str(error) or type(error).__name__, "made": key in self.open}


def _set_limits() -> None:
    import resource

    # No script can write a byte to a file.
    for name, value in (("AS", MEMORY_BYTES), ("FSIZE", 0), ("CORE", 0)):
        with contextlib.suppress(ValueError, OSError):  # macOS bounds no address space
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)


def main() -> None:
    """Answer requests, one line of JSON each, until the input ends."""
    limited = sys.platform != "win32"
    if limited:
        _set_limits()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt at the terminal is for the parent
    worker = SqlWorker()
    for line in sys.stdin.buffer:
        # The limit is on processor time, so that the result does not depend on the load.
        if limited:
            signal.setitimer(signal.ITIMER_PROF, CPU_S)
        answer = worker.answer(json.loads(line))
        if limited:
            signal.setitimer(signal.ITIMER_PROF, 0)
        sys.stdout.buffer.write(json.dumps(answer).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
