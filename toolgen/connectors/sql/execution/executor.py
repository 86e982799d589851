"""Executor of a database's tools: sends checked statements to their engine, never the text of an agent.

`list_tables`, `describe_table` and `search_schema` are answered here, without the database, from the part of the manifest's database that
the inspect stage left for this principal.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from toolgen.connectors.executor import Permit
from toolgen.connectors.secrets import SecretReference, SecretResolver
from toolgen.connectors.sql.engines import ENGINES, location_of
from toolgen.connectors.sql.execution.commit_state import CommitState
from toolgen.connectors.sql.execution.engine import Engine
from toolgen.connectors.sql.execution.engine_errors import failed
from toolgen.connectors.sql.execution.sandbox_pool import FileEngine
from toolgen.connectors.sql.execution.server_address import Reach
from toolgen.connectors.sql.execution.table_descriptions import describe_table, list_tables, with_estimate
from toolgen.connectors.sql.execution.value_samples import with_samples
from toolgen.core.clock import Clock, SystemClock
from toolgen.core.errors import ConfigError
from toolgen.model.call import Call, Statement
from toolgen.model.database import Database, Table
from toolgen.model.database_url import FileLocation
from toolgen.model.result import Error, Failed, Success
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import SqlBinding

if TYPE_CHECKING:
    from toolgen.connectors.sql.dialects import Dialect

__all__ = ["SqlExecutor", "search_schema"]

DEFAULT_TABLES: Final = 10
_MAX_COLUMNS: Final = 12  # columns of a table
_MAX_WORDS: Final = 40  # words of a query
_MIN_PART: Final = 4  # minimum letters of a word that is the start of another
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+|\d+")
_ENDINGS: Final = (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("xes", "x"), ("ss", "ss"), ("us", "us"), ("s", ""))
_NAME, _COLUMN, _TEXT, _PART = 3.0, 1.5, 0.7, 0.5


def search_schema(database: Database, query: str, limit: int) -> Json:
    """Return the best matching tables, best first, each with its matching columns; a table that matches only by its name gets its first
    columns.

    A table scores for the words it contains, rare ones most: words in its name count more than those in its columns, and these more than
    words in comments and labels.
    """
    asked = tuple(dict.fromkeys(_words(query)))[:_MAX_WORDS]
    held = [(table, _weights(table)) for table in database.tables]
    known = Counter(word for _, weights in held for word in weights)
    meant = [_possible_words(word, known, len(held)) for word in asked]
    scored: list[tuple[float, Table]] = []
    for table, weights in held:
        found = [
            max((weights[word] * worth for word, worth in words.items() if word in weights), default=0.0)
            for words in meant
        ]
        if total := sum(found):  # several matching words count more than one frequent word
            scored.append((total * sum(map(bool, found)) / len(found), table))
    scored.sort(key=lambda item: (-item[0], _full(item[1])))
    hits: list[Json] = [_hit(table, asked) for _, table in scored[:limit]]
    return {"tables": hits, "matching": len(scored), "searched": len(database.tables)}


def _possible_words(word: str, known: Counter[str], tables: int) -> dict[str, float]:
    """Return the words of the database that a word may mean, with their weights: a rare word weighs more, a word with only the same
    start less.
    """
    worth = {other: _PART * math.log(1 + tables / known[other]) for other in known if _is_part(word, other)}
    return worth | ({word: math.log(1 + tables / known[word])} if word in known else {})


def _weights(table: Table) -> dict[str, float]:
    found: dict[str, float] = {}

    def add(texts: Iterable[str], weight: float) -> None:
        for text in texts:
            for word in _words(text):
                found[word] = max(found.get(word, 0.0), weight)

    add((table.schema, table.name), _NAME)
    add((column.name for column in table.columns), _COLUMN)
    add((table.comment, *(column.comment for column in table.columns)), _TEXT)
    add((label for column in table.columns for label in column.labels), _TEXT)
    return found


def _hit(table: Table, asked: Iterable[str]) -> Json:
    wanted = tuple(asked)
    fitting = [column for column in table.columns if any(_fits(wanted, (column.name, column.comment, *column.labels)))]
    columns: list[Json] = []
    for column in (fitting or table.columns)[:_MAX_COLUMNS]:
        told: dict[str, Json] = {"name": column.name, "type": column.type}
        if column.comment:
            told["comment"] = column.comment
        columns.append(told)
    hit: dict[str, Json] = {
        "name": _full(table),
        "kind": "view" if table.view else "table",
        "columns": columns,
        "column_count": len(table.columns),
    }
    return {**hit, "comment": table.comment} if table.comment else hit


def _fits(asked: Iterable[str], texts: Iterable[str]) -> Iterator[bool]:
    held = [word for text in texts for word in _words(text)]
    return (word == other or _is_part(word, other) for word in asked for other in held)


def _is_part(word: str, other: str) -> bool:
    """Return True if one word begins with the other: `cust` and `customer`."""
    shorter, longer = (word, other) if len(word) <= len(other) else (other, word)
    return len(shorter) >= _MIN_PART and longer.startswith(shorter)


@lru_cache(maxsize=100_000)
def _words(text: str) -> tuple[str, ...]:
    """Return the words of a name or a sentence, in lower case and in the singular."""
    return tuple(_singular(word.lower()) for word in _WORD.findall(text))


def _singular(word: str) -> str:
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) > len(ending) + 1:
            return word[: -len(ending)] + instead
    return word


def _full(table: Table) -> str:
    return f"{table.schema}.{table.name}" if table.schema else table.name


def found_tables(database: Database | None, arguments: JsonObject) -> Success | Failed:
    """Return the visible tables and columns that match some words."""
    if database is None:
        return failed("internal", "no stage decided which tables are visible", "")
    query, limit = arguments.get("query"), arguments.get("limit", DEFAULT_TABLES)
    found = search_schema(database, str(query), limit if isinstance(limit, int) else DEFAULT_TABLES)
    return Success(data=found)


class SqlExecutor:
    """Executor of `query`, `named`, `explain` and `change` from `call.statement` only, and of the descriptions of the database
    (`list_tables`, `search_schema`, `describe_table`) from `call.database`.

    `location` is that of toolgen.yaml without its password; the password is resolved for every connection and not stored. `permit` checks
    every address before a connection. No file or connection is opened, and no driver loaded, before the first statement.
    """

    def __init__(
        self,
        location: str,
        *,
        password: SecretReference | None = None,
        secrets: SecretResolver | None = None,
        permit: Permit | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Create the executor. Raises `ConfigError` for an invalid location."""
        self._location = location_of(location)
        self._reach = Reach(password=password, secrets=secrets or SecretResolver(), permit=permit)
        self._clock = clock or SystemClock()
        self._opened: Engine | None = None

    async def execute(self, call: Call) -> Success | Failed:
        """Run a call. `data` is `{"columns": [{"name", "type"}], "rows": [[…]], "row_count": n}` for a query or a plan, and `{"row_count":
        n}` for a change.

        Fails with `internal` if the inspect stage left no statement, `upstream_timeout` if the statement's time is up, `response_too_large`
        if a value grew too large, `upstream_unavailable` if the server cannot be reached, all connections are in use or the driver is not
        installed, `egress_refused` if the policy forbids the address, `sql_failed` if the statement is wrong, and `upstream_error` for any
        other error of the database. A change of too many rows is `sql_refused` and rolled back; one whose commit got no reply is
        `outcome_unknown`. Raises `SecretError` if the password cannot be resolved.
        """
        binding = call.tool.binding
        if not isinstance(binding, SqlBinding):
            return failed("internal", "this tool does not belong to a database", "")
        match binding.operation:
            case "query" | "named":
                return await self._statement(call.statement, "query")
            case "explain":
                return await self._statement(call.statement, "explain")
            case "change":
                return await self._statement(call.statement, "change")
            case "list_tables":
                return list_tables(call.database, call.arguments)
            case "describe_table":
                return await self._described(call)
            case "search_schema":
                # A thousand tables take a tenth of a second.
                return await asyncio.to_thread(found_tables, call.database, call.arguments)
            case _:
                return failed("internal", "this tool has an unknown database operation", "")

    async def check(self, call: Call) -> Error | None:
        """Count the rows of a change with a query, and return an error if there are too many, as `ChecksFirst` describes.

        A failed count does not refuse the change, except for the errors `sql_failed` and `egress_refused`.
        """
        statement = call.statement
        if statement is None or statement.counting is None:
            return None
        counted = await self._statement(statement.counting, "query")
        if isinstance(counted, Failed):
            return counted.error if counted.error.code in {"sql_failed", "egress_refused"} else None
        rows: Any = counted.data
        refused = CommitState(statement).refused(int(rows["rows"][0][0]))
        return None if refused is None else refused.error

    def preview(self, call: Call) -> JsonObject:
        """Return `{"sql", "parameters"}` as they would be sent; both empty for a tool that sends nothing."""
        statement = call.statement or (call.sampling.statement if call.sampling is not None else None)
        if statement is None:
            return {"sql": "", "parameters": []}
        explains = isinstance(call.tool.binding, SqlBinding) and call.tool.binding.operation == "explain"
        prefix = (self._record().explain or "") if explains else ""
        return {"sql": prefix + statement.sql, "parameters": list(statement.parameters)}

    async def close(self) -> None:
        """Accept no more statements; running statements end at their own deadline."""
        if self._opened is not None:
            await self._opened.close()

    async def _statement(self, statement: Statement | None, operation: str) -> Success | Failed:
        """Run the checked statement. `change` runs only statements that write, and the other operations run none of those."""
        if statement is None or bool(statement.writes) is not (operation == "change"):
            return failed("internal", "no checked statement reached the database", "")
        engine = self._engine()
        if isinstance(engine, Failed):
            return engine
        match operation:
            case "change":
                result = await engine.change(statement)
            case "explain":
                result = await engine.explain(statement)
            case _:
                result = await engine.run(statement)
        noted = statement.row_notes and isinstance(result, Success)
        return replace(result, row_notes=statement.row_notes) if noted else result

    async def _described(self, call: Call) -> Success | Failed:
        """Return the description of a table, with an estimate of its rows, and with samples if the inspect stage left values to read.
        Failed estimates and samples are omitted.
        """
        described = describe_table(call.database, call.arguments.get("table"))
        if isinstance(described, Failed):
            return described
        if call.counting is not None:
            counted = await self._statement(call.counting, "query")
            described = with_estimate(described, counted) if isinstance(counted, Success) else described
        if call.sampling is None:
            return described
        read = await self._statement(call.sampling.statement, "query")
        return with_samples(described, read, call.sampling) if isinstance(read, Success) else described

    def _engine(self) -> Engine | Failed:
        if self._opened is None:
            try:
                self._opened = self._open()
            except ConfigError as error:
                return failed("upstream_unavailable", error.message, error.suggestion)
        return self._opened

    def _record(self) -> Dialect:
        from toolgen.connectors.sql.dialects import RECORDS  # noqa: PLC0415 - behind an extra

        return RECORDS[self._location.dialect]

    def _open(self) -> Engine:
        record = self._record()
        if isinstance(self._location, FileLocation):
            if record.driver and find_spec(record.driver) is None:
                extra = ENGINES[record.name].extra
                raise ConfigError(
                    f"the driver of {record.engine} is not installed",
                    suggestion=f'install it with: pip install "toolgen[{extra}]"',
                )
            return FileEngine(record.sandbox, self._location.path, self._clock)
        assert record.open_engine is not None  # noqa: S101 - it has a port
        return record.open_engine(self._location, self._reach, self._clock)
