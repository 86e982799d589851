"""ClickHouse by chdb: a fifth dialect in one file, which a line in `ENGINES` names. It proves that no other file knows the engines.

It is no part of the product: chdb brings pandas and pyarrow, and reads files of the machine in its read-only sessions too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from sqlglot.tokenizer_core import TokenType
from sqlglot.tokens import Tokenizer

from toolgen.connectors.sql.dialects.costs import COMMON, OPERATORS, Cost, table
from toolgen.connectors.sql.dialects.record import Dialect, words
from toolgen.connectors.sql.engines import SqlEngine
from toolgen.connectors.sql.execution.commit_state import CommitState
from toolgen.connectors.sql.execution.engine_errors import (
    UNKNOWN,
    Reason,
    failed,
    failure_with_advice,
    not_a_change,
    timed_out,
)
from toolgen.connectors.sql.execution.result_rows import AnswerColumn, RowCollector
from toolgen.connectors.sql.execution.statement_watch import StatementWatch
from toolgen.connectors.sql.reading.schema import ReadSchema, Relation, assembled
from toolgen.core.errors import DescriptionError
from toolgen.model.call import Statement
from toolgen.model.database import Column
from toolgen.model.database_rights import Power, Rights
from toolgen.model.database_url import FileLocation
from toolgen.model.result import Delivery, Failed, Success
from toolgen.model.schema import Json

__all__ = ["DIALECT", "ENGINE", "EXPLAIN", "MEMORY", "change", "connected", "query", "rest"]

ENGINE: Final = SqlEngine(name="clickhouse", schemes=("chdb",), extra="clickhouse", module=__name__)
"""The line of the registry."""

# execution, in a process of its own

EXPLAIN: Final = "EXPLAIN "
MEMORY: Final = 4 * 2**30
_READER: Final = "?mode=ro"
_SETTINGS: Final = " SETTINGS max_memory_usage = 200000000, max_threads = 2, max_execution_time = "
_REASONS: Final = (
    ("UNKNOWN_FUNCTION", Reason("a function does not exist", "check its name", ("function",))),
    ("ILLEGAL_TYPE", Reason("a function does not take these types", "cast the arguments", ("types",))),
    ("DIVISION", Reason("division by zero", "use nullIf(divisor, 0)")),
    ("CANNOT_PARSE", Reason("a value cannot be converted to the required type", "compare as text", ("types",))),
    (
        "MEMORY_LIMIT",
        Reason("the statement exceeds its memory limit", "ask for less", (), "response_too_large"),
    ),
)


def connected(path: Path, mode: str = "") -> Any:
    """Return a connection to the database in a folder."""
    return import_module("chdb").connect(f"{path}{mode}")


def rest() -> None:
    """Nothing is held between two statements."""


def query(path: Path, statement: Statement, prefix: str, watch: StatementWatch) -> Success | Failed:
    """The rows of a statement, or its plan."""
    if not path.is_dir():
        return failed("upstream_unavailable", "there is no such database", "")
    sql, given = _named(statement)
    connection = connected(path, _READER)
    try:
        limited = f"{prefix}{sql}" if prefix else f"{sql}{_SETTINGS}{max(statement.timeout_s, 0.1)}"
        found = json.loads(connection.query(limited, "JSONCompact", params=given).bytes())
    except Exception as error:
        return _explained(str(error), statement, watch)
    finally:
        connection.close()
    answer = RowCollector(
        statement, [AnswerColumn(name=column["name"], type=column["type"]) for column in found["meta"]]
    )
    for row in found["data"]:
        if not answer.take(row):
            break
    return answer.success()


def change(
    _path: Path, change: CommitState, _watch: StatementWatch, _committing: Callable[[], None]
) -> Success | Failed:
    """Nothing is changed: the engine has no transactions."""
    return not_a_change(change.statement)


def _named(statement: Statement) -> tuple[str, dict[str, Json]]:
    """`?` as `{p1:Int64}`, with values that have the type in the text."""
    parts: list[str] = []
    given: dict[str, Json] = {}
    end = 0
    for token in Tokenizer(dialect="clickhouse").tokenize(statement.sql):
        if token.token_type is TokenType.PLACEHOLDER:
            value = statement.parameters[len(given)]
            kind = {bool: "Bool", int: "Int64", float: "Float64"}.get(type(value), "String")
            name = f"p{len(given) + 1}"
            given[name] = value
            parts += [
                statement.sql[end : token.start],
                f"{{{name}:{kind if value is not None else 'Nullable(String)'}}}",
            ]
            end = token.end + 1
    return "".join([*parts, statement.sql[end:]]), given


def _explained(text: str, statement: Statement, watch: StatementWatch) -> Failed:
    if watch.stop() or "TIMEOUT_EXCEEDED" in text:
        return timed_out(statement)
    if reason := next((reason for word, reason in _REASONS if f"({word}" in text), None):
        return failure_with_advice(reason, statement)
    return failed(
        "sql_failed", "the database does not accept the statement", UNKNOWN.suggestion, Delivery(sql=statement.sql)
    )


# reading

_TABLES: Final = "SELECT name, engine LIKE '%View', comment FROM system.tables WHERE database = currentDatabase()"
_COLUMNS: Final = """
SELECT table, name, type, comment, default_expression, is_in_primary_key FROM system.columns WHERE database = currentDatabase()
ORDER BY table, position
"""


def _read(location: FileLocation, _password: str) -> ReadSchema:
    if not location.path.is_dir():
        raise DescriptionError("there is no such database", suggestion="check the path after chdb:///")
    connection = connected(location.path, _READER)
    try:
        tables = json.loads(connection.query(_TABLES, "JSONCompact").bytes())["data"]
        columns = json.loads(connection.query(_COLUMNS, "JSONCompact").bytes())["data"]
    finally:
        connection.close()
    relations = {name: Relation(schema="", name=name, view=bool(view), comment=note) for name, view, note in tables}
    return ReadSchema(
        database=assembled(
            "clickhouse",
            relations.values(),
            [
                (
                    owner,
                    Column(name=name, type=kind, nullable=kind.startswith("Nullable"), comment=note, default=default),
                )
                for owner, name, kind, note, default, _ in columns
            ],
            [(owner, name) for owner, name, *_, keyed in columns if keyed],
            [],
        )
    )


def _prepare(
    location: FileLocation, _password: str, statements: Sequence[Statement]
) -> Iterator[str | tuple[str, ...]]:
    connection = connected(location.path, _READER)
    try:
        for statement in statements:
            sql, given = _named(statement)
            try:
                found = json.loads(connection.query(f"DESCRIBE ({sql})", "JSONCompact", params=given).bytes())
                yield tuple(str(row[1]).lower() for row in found["data"])
            except Exception:
                yield "ClickHouse does not take it"
    finally:
        connection.close()


def _rights(location: FileLocation, _password: str) -> Rights:
    power = Power(code="folder-readable", message=f"this process reads {location.path.name}", harmless=True)
    return Rights(account="", powers=(power,))


# guard

_FUNCTIONS: Final = table(
    COMMON,
    (
        (Cost(), "toyear tomonth todayofmonth todate length lengthutf8 position any uniq uniqexact multiif"),
        (Cost(result="one", work=1), "ifnull if avg sum nullif"),
        (Cost(result="sum"), "lower upper substring concat trim tostring replaceone"),
        (Cost(result="cast"), "toint32 toint64 tofloat64"),
    ),
)
_ALIASES: Final = frozenset({"expressions", "where", "group", "having", "order"})

DIALECT: Final = Dialect(
    name="clickhouse",
    engine="ClickHouse",
    functions=_FUNCTIONS,
    operators=table(OPERATORS),
    special_calls=words("cast extract trim substring interval"),
    grammar={"Extract": "this expression", "Substring": "this start length", "Trim": "this expression position"},
    types=words("int32 int64 float64 string"),
    default_schema="default",
    exact_names=True,
    alias_clauses=_ALIASES,
    alias_subquery_clauses=_ALIASES,
    later_ctes="always",
    later_ctes_hide=True,
    titles_by_text=True,
    read=_read,
    prepare=_prepare,
    rights=_rights,
    sandbox=__name__,
    driver="chdb",
)
