"""Runs guarded statements on a SQLite database and describes what a principal may see of one; text of an agent never reaches it."""

from __future__ import annotations

import asyncio
import base64
import math
import sqlite3
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from toolgen.clock import Clock, SystemClock
from toolgen.errors import ConfigError
from toolgen.execute.sqlite_session import Watch, open_session
from toolgen.model.call import Call, Statement
from toolgen.model.database import Database, Table
from toolgen.model.names import nearest
from toolgen.model.result import Error, Failed, Success
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import SqlBinding

__all__ = ["SqlExecutor"]

_SCHEME: Final = "sqlite:///"
_THREADS: Final = 4
_GRACE_S: Final = 1.0  # beyond the statement's own time: for the thread to notice, or to get its turn
_EXPLAIN: Final = "EXPLAIN QUERY PLAN "

# What SQLite says begins like this; what follows may quote values of the data, so only our own words go on.
_REASONS: Final = (
    ("no such function", "a function is not built into this database", "compute it another way"),
    (
        "wrong number of arguments",
        "a function was called with the wrong number of arguments",
        "check the function's arguments",
    ),
    ("misuse of aggregate", "an aggregate stands where it may not", "use HAVING, or a subquery"),
    ("misuse of window function", "a window function stands where it may not", "use a subquery"),
    ("ambiguous column name", "a column name is ambiguous", "write table.column"),
    ("malformed JSON", "a value is not JSON", "filter with json_valid first"),
    ("JSON path error", "a JSON path is malformed", "write paths like '$.name'"),
    ("bad JSON path", "a JSON path is malformed", "write paths like '$.name'"),
    ("integer overflow", "a sum or product is too large for an integer", "use total() or convert to REAL"),
    (
        "SELECTs to the left and right",
        "the sides of a set operation have different numbers of columns",
        "make them the same",
    ),
    (
        "sub-select returns",
        "a subquery returns the wrong number of columns",
        "select as many columns as it is compared with",
    ),
    ("ORDER BY term", "an ORDER BY term does not match a column of the result", "order by a column of the result"),
    ("row value misused", "a row value stands where one value belongs", "compare columns one by one"),
)


@dataclass(slots=True)
class _Answer:
    """Rows as they come, until a cap is reached."""

    statement: Statement
    rows: list[list[Json]] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    size: int = 0
    cut: bool = False

    def take(self, row: Iterable[object]) -> bool:
        """Adds a row; False when it does not fit and nothing more should be read."""
        if len(self.rows) >= self.statement.max_rows:
            self.cut = True
            return False
        cells: list[Json] = []
        size = 0
        for index, value in enumerate(row):
            cell, length = self._cell(value)
            size += length
            cells.append(cell)
            if value is not None and index < len(self.types) and not self.types[index]:
                self.types[index] = _type_name(value)
        if self.size + size > self.statement.max_bytes:
            self.cut = True
            return False
        self.size += size
        self.rows.append(cells)
        return True

    def _cell(self, value: object) -> tuple[Json, int]:
        """A cell as JSON, and how many bytes it adds. A blob is `{"base64": …}`; a cell over its cap is cut."""
        most = self.statement.max_cell_bytes
        match value:
            case None | int():
                return value, 8
            case float():
                return (value, 8) if math.isfinite(value) else (str(value), 8)
            case str():
                data = value.encode("utf-8")
                if len(data) > most:
                    self.cut = True
                    return data[:most].decode("utf-8", "ignore"), most
                return value, len(data)
            case bytes():
                if len(value) > most * 3 // 4:
                    self.cut = True
                encoded = base64.b64encode(value[: most * 3 // 4]).decode("ascii")
                return {"base64": encoded}, len(encoded)
            case _:
                return None, 8


class SqlExecutor:
    """Executes `query` and `explain` from `call.statement`, and `list_tables` and `describe_table` from `call.database`, alone."""

    def __init__(self, location: str, *, clock: Clock | None = None) -> None:
        """`location` is `sqlite:///` and a path. Raises `ConfigError` for any other engine."""
        if not location.startswith(_SCHEME):
            raise ConfigError(
                f"databases of the kind {location.partition(':')[0]!r} are not supported yet",
                suggestion="use sqlite:///path",
            )
        self._path = Path(location.removeprefix(_SCHEME))
        self._clock = clock or SystemClock()
        self._threads = ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="sql")

    async def execute(self, call: Call) -> Success | Failed:
        """`data` is `{"columns": [{"name", "type"}], "rows": [[…]], "row_count": n}` for a query or a plan.

        Fails with `internal` when the inspect stage left nothing to run, `upstream_timeout` when the statement's time is up,
        `response_too_large` when a value grew too large, and `upstream_error` for anything else the database refused.
        """
        binding = call.tool.binding
        if not isinstance(binding, SqlBinding):
            return _failed("internal", "this tool is not a database's", "")
        match binding.operation:
            case "query" | "explain":
                return await self._run_guarded(call.statement, explain=binding.operation == "explain")
            case "list_tables":
                return _list(call.database)
            case "describe_table":
                return _describe(call.database, call.arguments.get("table"))
            case _:
                return _failed("internal", "this tool does something with a database that is not known", "")

    def preview(self, call: Call) -> JsonObject:
        """`{"sql", "parameters"}` as they would be sent; both empty for a tool that sends nothing."""
        statement = call.statement
        if statement is None:
            return {"sql": "", "parameters": []}
        explains = isinstance(call.tool.binding, SqlBinding) and call.tool.binding.operation == "explain"
        return {"sql": _EXPLAIN * explains + statement.sql, "parameters": list(statement.parameters)}

    async def close(self) -> None:
        """Takes no more statements; those that run end at their own deadline."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run_guarded(self, statement: Statement | None, *, explain: bool) -> Success | Failed:
        if statement is None:
            return _failed("internal", "no checked statement reached the database", "")
        watch = Watch(clock=self._clock)
        running = self._threads.submit(self._run, statement, watch, _EXPLAIN * explain + statement.sql)
        running.add_done_callback(_settled)
        try:
            async with asyncio.timeout(statement.timeout_s + _GRACE_S):
                return await asyncio.shield(asyncio.wrap_future(running))
        except TimeoutError:
            return _timed_out(statement)
        finally:
            # Also when this task is cancelled: the thread then stops at its next look at the watch, and frees itself.
            watch.cancelled = True

    def _run(self, statement: Statement, watch: Watch, sql: str) -> Success | Failed:
        """In a thread of its own, from opening the connection to closing it."""
        if watch.cancelled:
            return _timed_out(statement)
        watch.start(statement.timeout_s)
        try:
            connection = open_session(self._path, statement, watch)
            try:
                return _read(connection, sql, statement)
            finally:
                connection.close()
        except sqlite3.Error as error:
            return _explained(error, statement, watch)


def _read(connection: sqlite3.Connection, sql: str, statement: Statement) -> Success | Failed:
    cursor = connection.execute(sql, statement.parameters)
    if cursor.description is None:
        return _failed("upstream_error", "the statement is not a query", "send a SELECT", {"sql": statement.sql})
    names = [column[0] for column in cursor.description]
    answer = _Answer(statement, types=[""] * len(names))
    for row in cursor:
        if not answer.take(row):
            break
    columns: list[Json] = [
        {"name": name, "type": kind or "null"} for name, kind in zip(names, answer.types, strict=True)
    ]
    rows: list[Json] = list(answer.rows)
    count = len(rows)
    return Success(
        data={"columns": columns, "rows": rows, "row_count": count},
        truncated=answer.cut or (statement.limited and count >= statement.max_rows),
        facts={"sql": statement.sql, "rows": count, "bytes": answer.size},
    )


def _type_name(value: object) -> str:
    match value:
        case int():
            return "integer"
        case float():
            return "real"
        case str():
            return "text"
        case _:
            return "blob"


def _explained(error: sqlite3.Error, statement: Statement, watch: Watch) -> Failed:
    """Our own words for what SQLite said: its text may quote the data, so it goes no further."""
    code = getattr(error, "sqlite_errorname", "")
    facts: dict[str, Json] = {"sql": statement.sql}
    if watch.expired or watch.cancelled or code == "SQLITE_INTERRUPT":
        return _timed_out(statement)
    match code:
        case "SQLITE_TOOBIG":
            return _failed(
                "response_too_large", "a value grew too large", "select less of it, for example with substr", facts
            )
        case "SQLITE_AUTH":
            return _failed(
                "upstream_error",
                "the database would not do something the statement did not declare",
                "if its tables changed, the operator runs `toolgen build` again; otherwise write the statement more simply",
                facts,
            )
        case "SQLITE_BUSY" | "SQLITE_LOCKED":
            return _failed("upstream_error", "the database is busy", "try again", facts)
        case "SQLITE_CANTOPEN" | "SQLITE_NOTADB" | "SQLITE_CORRUPT" | "SQLITE_IOERR":
            return _failed("upstream_error", "the database cannot be read", "the operator should check the file", facts)
    text = str(error)
    for beginning, reason, suggestion in _REASONS:
        if text.startswith(beginning):
            return _failed("upstream_error", reason, suggestion, facts)
    return _failed("upstream_error", "the database could not run the statement", "write it more simply", facts)


def _timed_out(statement: Statement) -> Failed:
    return _failed(
        "upstream_timeout",
        f"the statement took longer than {statement.timeout_s:g} s",
        "ask for less: filter on indexed columns, or aggregate",
        {"sql": statement.sql},
    )


def _failed(code: str, message: str, suggestion: str, facts: JsonObject | None = None) -> Failed:
    return Failed(error=Error(code=code, message=message, suggestion=suggestion), facts=facts or {})


def _settled(running: Future[Success | Failed]) -> None:
    """Looks at the outcome nobody may be waiting for any more, so that it is not reported as lost."""
    if not running.cancelled():
        running.exception()


def _list(database: Database | None) -> Success | Failed:
    if database is None:
        return _failed("internal", "nothing said which tables may be seen", "")
    tables: list[Json] = [
        {
            "name": _name(table),
            "kind": "view" if table.view else "table",
            "columns": len(table.columns),
            "comment": table.comment,
        }
        for table in database.tables
    ]
    return Success(data={"dialect": database.dialect, "tables": tables}, facts={"rows": len(tables)})


def _describe(database: Database | None, asked: Json) -> Success | Failed:
    if database is None:
        return _failed("internal", "nothing said which tables may be seen", "")
    names = [_name(table) for table in database.tables]
    for table in database.tables:
        if isinstance(asked, str) and _name(table).lower() == asked.lower():
            return Success(data=_described(table, database.dialect), facts={"rows": len(table.columns)})
    wanted = asked if isinstance(asked, str) and len(asked) <= 64 else "…"
    listed = f"available tables: {', '.join(names[:40])}" if names else "no table of this database is available"
    return _failed("validation", f"table {wanted} is not available{nearest(wanted, names)}", listed)


def _described(table: Table, dialect: str) -> Json:
    columns: list[Json] = [
        {"name": column.name, "type": column.type, "nullable": column.nullable, "comment": column.comment}
        for column in table.columns
    ]
    return {
        "name": _name(table),
        "kind": "view" if table.view else "table",
        "dialect": dialect,
        "columns": columns,
        "primary_key": list(table.primary_key),
        "references": dict(table.references),
        "comment": table.comment,
    }


def _name(table: Table) -> str:
    return f"{table.schema}.{table.name}" if table.schema else table.name
