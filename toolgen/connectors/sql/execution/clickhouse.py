"""ClickHouse by chdb: a folder, opened for one statement by an account that can only read tables of the database `default`.

The engine runs inside of this process (https://clickhouse.com/docs/chdb). The account is in clickhouse.xml, and its rights are checked at
every connection, because the library ignores a configuration that it does not find. Two means remain that no right of the account covers,
the function `file` and INTO OUTFILE: only the guard refuses them. One process at a time can open a folder.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from toolgen.connectors.sql.execution.commit_state import CommitState
from toolgen.connectors.sql.execution.engine_errors import (
    CHANGED,
    CONVERT,
    FUNCTION,
    GROUPING,
    UNKNOWN,
    Reason,
    failed,
    failure_with_advice,
    not_a_change,
    timed_out,
    unavailable,
)
from toolgen.connectors.sql.execution.result_rows import AnswerColumn, RowCollector
from toolgen.connectors.sql.execution.statement_watch import StatementWatch
from toolgen.core.errors import ConfigError
from toolgen.model.call import Statement
from toolgen.model.result import Failed, Success
from toolgen.model.schema import Json

try:
    import chdb
except ImportError as error:
    raise ConfigError(
        "the engine of ClickHouse is not installed", suggestion='install it with: pip install "toolgen[clickhouse]"'
    ) from error

__all__ = ["EXPLAIN", "MEMORY", "SETTINGS", "FolderInUseError", "change", "connected", "query", "rest", "with_values"]

EXPLAIN: Final = "EXPLAIN "
MEMORY: Final = 4 * 2**30
"""Maximum bytes of address space for statements, most of which the engine reserves and never uses."""

_ACCOUNT: Final = Path(__file__).with_suffix(".xml")
_RIGHTS: Final = b"GRANT SELECT ON default.* TO default"
SETTINGS: Final = (
    "SET max_memory_usage = 256000000, max_threads = 2, max_result_bytes = 64000000, result_overflow_mode = 'throw',"
    " max_bytes_before_external_sort = 0, max_bytes_before_external_group_by = 0, max_ast_depth = 500,"
    " use_query_condition_cache = 0, use_query_condition_cache_for_top_k = 0, allow_correlated_subqueries = 0,"
    " allow_experimental_correlated_subqueries = 0, prefer_column_name_to_alias = 1, enable_positional_arguments = 1, enable_analyzer = 1,"
    " output_format_json_quote_64bit_integers = 0, output_format_json_quote_decimals = 1,"
    " output_format_json_quote_denormals = 1, output_format_json_validate_utf8 = 1, max_execution_time = {}, readonly = 1"
)
"""Settings of a session, with its seconds for a statement. `readonly` is last: no other can be changed after it.

The cache of conditions and correlated subqueries (a beta) are off, because they gave wrong rows of subqueries with a LIMIT, as a row filter
has.
"""
_ESCAPES: Final = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_LEAST_S: Final = 0.05
_AGAIN_S: Final = 0.02
_RETRY_S: Final = 1.0
# Names of the engine's errors; its texts may quote the data. https://github.com/ClickHouse/ClickHouse/blob/master/src/Common/ErrorCodes.cpp
_REASONS: Final = (
    ("UNKNOWN_FUNCTION", FUNCTION),
    ("UNKNOWN_TABLE", CHANGED),
    ("UNKNOWN_IDENTIFIER", CHANGED),
    ("NOT_AN_AGGREGATE", GROUPING),
    ("ILLEGAL_AGGREGATION", GROUPING),
    ("ILLEGAL_TYPE_OF_ARGUMENT", Reason("a function does not take these types", "cast the arguments", ("types",))),
    ("NO_COMMON_TYPE", Reason("two values have no common type", "cast one of them", ("types",))),
    ("NUMBER_OF_ARGUMENTS_DOESNT_MATCH", Reason("a function was called with the wrong number of arguments", "check them")),
    ("ILLEGAL_DIVISION", Reason("division by zero", "use nullIf(divisor, 0)")),
    ("CANNOT_PARSE", CONVERT),
    ("CANNOT_CONVERT_TYPE", CONVERT),
    ("TYPE_MISMATCH", CONVERT),
    ("SYNTAX_ERROR", Reason("the database parses the statement differently", "write it more simply", ("function",))),
    (
        "READONLY",
        Reason("the session may not do what the statement requires", "send a SELECT over the listed tables"),
    ),
    (
        "ACCESS_DENIED",
        Reason("the session may not do what the statement requires", "send a SELECT over the listed tables"),
    ),
    *(
        (name, Reason("the statement exceeds its memory limit", "reduce the result: filter, or aggregate", (), "response_too_large"))
        for name in ("MEMORY_LIMIT_EXCEEDED", "TOO_MANY_ROWS_OR_BYTES")
    ),
)  # fmt: skip


class FolderInUseError(Exception):
    """Folder that another process has open, or that is not a database."""


class _RightsError(RuntimeError):
    """Session with other rights than those of clickhouse.xml."""


def rest() -> None:
    """Do nothing: no connection is kept between statements, because an open folder is locked for every other process."""


@contextlib.contextmanager
def connected(path: Path, seconds: float, attempts: int = 1) -> Iterator[Any]:
    """Open a folder for statements that read, each for at most `seconds`. Raises `FolderInUseError` after these attempts."""
    if any(sign in f"{path}{_ACCOUNT}" for sign in "?&%#"):  # the library would read options in the path
        raise FolderInUseError
    connection = _open(path, attempts)
    try:
        if connection.query("SHOW GRANTS", "TSV").bytes().strip() != _RIGHTS:
            raise _RightsError
        connection.query(SETTINGS.format(max(seconds, _LEAST_S)))
        yield connection
    finally:
        connection.close()


def _open(path: Path, attempts: int) -> Any:
    for left in range(attempts - 1, -1, -1):
        try:
            return chdb.connect(f"{path}?config-file={_ACCOUNT}")
        except RuntimeError as error:
            if not left:
                raise FolderInUseError from error
            time.sleep(_AGAIN_S)
    raise FolderInUseError


def query(path: Path, statement: Statement, prefix: str, watch: StatementWatch) -> Success | Failed:
    """Return the statement's rows, or its plan, from a separate connection. `prefix` is the dialect's EXPLAIN, or ""."""
    if not (path / "metadata").is_dir():  # the library would make a database of any folder
        return failed("upstream_error", "the database cannot be read", "the operator should check the folder")
    while True:
        try:
            with connected(path, statement.timeout_s) as connection:
                return _read(connection, statement, prefix)
        except FolderInUseError:
            if watch.stop():
                return unavailable(
                    "the database folder cannot be opened: another process uses it, or it is not a database",
                    retry_after_s=_RETRY_S,
                )
            time.sleep(_AGAIN_S)  # another statement's process has it open
        except _RightsError:
            return failed("upstream_error", "the session has other rights than expected", "tell the operator")
        except RuntimeError as error:
            return _explained(str(error), statement, watch)


def change(
    _path: Path, change: CommitState, _watch: StatementWatch, _committing: Callable[[], None]
) -> Success | Failed:
    """Refuse the change: the engine has no transaction to roll back."""
    return not_a_change(change.statement)


def _read(connection: Any, statement: Statement, prefix: str) -> Success:
    sql, values = with_values(statement)
    found = json.loads(connection.query(f"{prefix}{sql}", "JSONCompact", params=values).bytes())
    kinds = [str(column["type"]) for column in found["meta"]]
    answer = RowCollector(
        statement,
        [AnswerColumn(name=column["name"], type=kind) for column, kind in zip(found["meta"], kinds, strict=True)],
    )
    for row in found["data"]:
        if not answer.take(map(_value, row, kinds)):
            break
    return answer.success()


def _value(value: object, kind: str) -> object:
    """Return a value of a column of this type. Numbers that JSON does not have, or that a float would round, arrive as texts."""
    if isinstance(value, str):
        inner = kind.removeprefix("LowCardinality(").removeprefix("Nullable(")
        if inner.startswith("Decimal"):
            return Decimal(value)
        if inner.startswith(("Float", "BFloat")):
            return float(value)
    return value


def with_values(statement: Statement) -> tuple[str, dict[str, Json]]:
    """Return the text with each `?` as `{p1:Int64}`, and the values by these names.

    https://clickhouse.com/docs/sql-reference/syntax#defining-and-using-query-parameters. The text is the guard's: a question mark outside
    of quotes is a placeholder.
    """
    parts: list[str] = []
    values: dict[str, Json] = {}
    quote = ""
    skipped = False
    for sign in statement.sql:
        if skipped:
            skipped = False
        elif quote:
            skipped = sign == "\\"
            quote = "" if sign == quote else quote
        elif sign in "'\"`":
            quote = sign
        elif sign == "?":
            value = statement.parameters[len(values)]
            name = f"p{len(values) + 1}"
            parts.append(f"{{{name}:{_type_of(value)}}}")
            values[name] = _escaped(value)
            continue
        parts.append(sign)
    return "".join(parts), values


def _type_of(value: Json) -> str:
    match value:
        case None:
            return "Nullable(String)"
        case bool():
            return "Bool"
        case int():
            return "Int64" if -(2**63) <= value < 2**63 else "UInt64" if 0 < value < 2**64 else "Int256"
        case float():
            return "Float64"
        case _:
            return "String"


def _escaped(value: Json) -> Json:
    """Return a value in the format in which the engine reads parameters: https://clickhouse.com/docs/interfaces/formats/TabSeparated."""
    if value is None:
        return "\\N"
    return value.translate(_ESCAPES) if isinstance(value, str) else value


def _explained(text: str, statement: Statement, watch: StatementWatch) -> Failed:
    """Return our own message for an error of the engine, because its text may quote the data. Only the name at its end is read."""
    name = text.rstrip().rpartition("(")[2]
    if watch.stop() or name.startswith("TIMEOUT_EXCEEDED"):
        return timed_out(statement)
    return failure_with_advice(
        next((reason for known, reason in _REASONS if name.startswith(known)), UNKNOWN), statement
    )
