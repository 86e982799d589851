"""Errors of database engines. A server's own texts quote data, so only its error codes are read, and each code has a message of ours."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from toolgen.core.error_codes import ErrorCode
from toolgen.model.call import Statement
from toolgen.model.result import UNTRIED, Delivery, Error, Failed

__all__ = [
    "BROKEN_RULE",
    "CHANGED",
    "CONVERT",
    "FUNCTION",
    "GATHERED",
    "GROUPING",
    "UNKNOWN",
    "Reason",
    "explain_errno",
    "explain_sqlstate",
    "failed",
    "failure_with_advice",
    "not_a_change",
    "not_a_query",
    "timed_out",
    "unavailable",
]


def failed(code: ErrorCode, message: str, suggestion: str, delivery: Delivery = UNTRIED) -> Failed:
    """Return a failure with our own words; text of an engine is never included."""
    return Failed(error=Error(code=code, message=message, suggestion=suggestion), delivery=delivery)


def timed_out(statement: Statement) -> Failed:
    """Return the failure of a statement over its time limit."""
    return failed(
        "upstream_timeout",
        f"the statement took longer than {statement.timeout_s:g} s",
        "ask for less: filter on indexed columns, or aggregate",
        Delivery(sql=statement.sql),
    )


def unavailable(message: str, suggestion: str = "", *, retry_after_s: float) -> Failed:
    """Return the failure of a database that accepts no statement now; nothing of this one was run."""
    return Failed(
        error=Error(code="upstream_unavailable", message=message, suggestion=suggestion, retry_after_s=retry_after_s)
    )


def not_a_query(statement: Statement) -> Failed:
    """Return the failure of a statement without rows where a query is required."""
    return failed("sql_failed", "the statement is not a query", "send a SELECT", Delivery(sql=statement.sql))


def not_a_change(statement: Statement) -> Failed:
    """Return the failure of a statement with rows, or with wrong values, where a change is required."""
    return failed(
        "sql_failed",
        "the statement does not change a table",
        "send an INSERT, UPDATE or DELETE",
        Delivery(sql=statement.sql),
    )


class Reason(NamedTuple):
    """Reason of a failed statement, with a suggestion for the case that the statement itself gives none. `about` selects better advice of
    the statement, best first.

    `sql_failed` means that the statement is wrong, and a repetition fails too; any other code is a failure of the database.
    """

    message: str
    suggestion: str
    about: tuple[str, ...] = ()
    code: ErrorCode = "sql_failed"


BROKEN_RULE: Final = Reason(
    "the change violates a constraint of the table", "check keys, required columns and references to the rows"
)
CHANGED: Final = Reason(
    "a name in the statement does not exist in the database any more",
    "the operator should run `toolgen build` again; otherwise check the names",
)
_DENIED: Final = Reason(
    "the gateway's database role may not do this",
    "the operator should grant the role the rights that the policy opens; otherwise omit this part",
)
_COLUMN: Final = Reason(
    "a column, or a column number in ORDER BY or GROUP BY, does not exist",
    "check the names; if a table was changed, the operator should run `toolgen build` again",
)
_READ_ONLY: Final = Reason("the statement would write, and this session only reads", "send a SELECT")
_TOO_MUCH: Final = Reason(
    "the statement exceeds its limit of memory or space",
    "reduce the result: filter, or aggregate",
    code="response_too_large",
)
GATHERED: Final = Reason(
    "the statement aggregates more than 9.5 MB of values",
    "aggregate fewer rows or parts of values, for example with LIMIT in a subquery, or count them",
    code="response_too_large",
)
CONVERT: Final = Reason(
    "a value cannot be converted to the required type",
    "filter out such values first, or compare as text",
    ("types",),
)
_TYPES: Final = Reason("two values that are compared or combined have different types", "cast one of them", ("types",))
_ARITHMETIC: Final = Reason("a number is out of range", "use a wider type, or filter such values out first")
FUNCTION: Final = Reason(
    "a function or operator does not exist for these argument types",
    "cast the arguments, for example CAST(x AS text)",
    ("function", "types"),
)
_ARGUMENTS: Final = Reason(
    "a function was called with arguments it does not take", "check the function's arguments", ("function",)
)
_COUNT: Final = Reason(
    "a function was called with the wrong number of arguments", "check the function's arguments", ("function",)
)
BUSY: Final = Reason(
    "rows are locked by another session, or two statements wait for each other", "call again", code="upstream_error"
)
GROUPING: Final = Reason(
    "an aggregate, or a column beside one, is not allowed in its place",
    "add the column to GROUP BY, or use HAVING",
    ("grouping",),
)
_SYNTAX: Final = Reason("the database parses the statement differently", "write it more simply", ("function",))
_BROKEN: Final = Reason("the database server has an internal error", "tell the operator", code="upstream_error")
_ZERO: Final = Reason("division by zero", "use NULLIF(divisor, 0)")
_ONE_ROW: Final = Reason("a subquery returns more than one row where one is allowed", "add LIMIT 1, or use IN")
_REGEX: Final = Reason("a regular expression is malformed", "check brackets and repetitions")
_AMBIGUOUS: Final = Reason("a column name is ambiguous", "write table.column")
_NO_JSON: Final = Reason("a value is not JSON", "filter with JSON_VALID first")
_JSON_PATH: Final = Reason("a JSON path is malformed", "write paths like '$.name'")
UNKNOWN: Final = Reason(
    "the database could not run the statement", "write it more simply", ("grouping", "function"), code="upstream_error"
)
# https://www.postgresql.org/docs/current/errcodes-appendix.html: the complete code first, then its class.
_STATES: Final[Mapping[str, Reason]] = MappingProxyType(
    {
        "22012": _ZERO,
        "22003": _ARITHMETIC,
        "22008": Reason("a date or time is out of range", "use dates that exist"),
        "22007": Reason("a date or time has an unknown format", "write it as '2024-01-31 10:00:00'"),
        "22P02": CONVERT,
        "2201B": _REGEX,
        "22025": Reason("a LIKE pattern ends with its escape character", "write the escape character twice"),
        "2203": Reason("a JSON value does not have the type that the path expects", "check the value's type first"),
        "22": Reason("a value is not valid for the operation", "filter such values out first, or cast"),
        "21000": _ONE_ROW,
        "23": BROKEN_RULE,
        "25006": _READ_ONLY,
        "25": _READ_ONLY,
        "0A000": Reason("the database cannot do this", "write it another way"),
        "42601": _SYNTAX,
        "42501": _DENIED,
        "42703": _COLUMN,
        "42P01": CHANGED,
        "3F000": CHANGED,
        "42883": FUNCTION,
        "42725": FUNCTION,
        "42846": Reason("a value cannot be converted to that type", "convert to text first"),
        "42804": _TYPES,
        "42P18": Reason("the type of a parameter is unknown", "cast it, for example CAST($1 AS integer)"),
        "42P08": Reason("a parameter is used as two different types", "cast it, for example CAST($1 AS integer)"),
        "42803": GROUPING,
        "42P20": Reason("a window function is not allowed in its place", "use a subquery"),
        "42702": _AMBIGUOUS,
        "42P10": Reason("an ORDER BY or a column number does not match a column of the result", "name the column"),
        "42P19": Reason("a recursive query refers to itself in a way that is not allowed", "write it more simply"),
        "42": Reason("the database does not accept the statement", "write it more simply"),
        "40": BUSY,
        "55P03": BUSY,
        "54": Reason(
            "the statement is too large or too deeply nested for the database", "split it into smaller statements"
        ),
        "53": _TOO_MUCH,
        "58": _BROKEN,
        "XX": _BROKEN,
    }
)
# https://mariadb.com/kb/en/mariadb-error-codes/ and MySQL's reference of server errors.
_NUMBERS: Final[Mapping[int, Reason]] = MappingProxyType(
    {
        1044: _DENIED, 1045: _DENIED, 1142: _DENIED, 1143: _DENIED, 1227: _DENIED, 1290: _DENIED, 1370: _DENIED,
        1054: _COLUMN, 1146: CHANGED, 1049: CHANGED, 1356: CHANGED, 1305: FUNCTION,
        1022: BROKEN_RULE, 1048: BROKEN_RULE, 1062: BROKEN_RULE, 1364: BROKEN_RULE, 1451: BROKEN_RULE, 1452: BROKEN_RULE, 3819: BROKEN_RULE,
        4025: BROKEN_RULE, 1644: BROKEN_RULE, 1406: BROKEN_RULE,
        1792: _READ_ONLY, 1223: _READ_ONLY,
        1052: _AMBIGUOUS,
        1055: GROUPING, 1056: GROUPING, 1111: GROUPING, 1140: GROUPING,
        1064: _SYNTAX,
        1205: BUSY, 1213: BUSY, 3572: BUSY,
        1222: Reason("the sides of a set operation have different numbers of columns", "make them the same"),
        1241: Reason("a subquery returns the wrong number of columns", "select the number of columns that it is compared with"),
        1242: _ONE_ROW,
        1247: Reason("an alias is used before it is defined", "repeat the expression, or use a subquery"),
        1267: Reason("two texts are compared by different collations", "add COLLATE utf8mb4_general_ci to one of them"),
        1271: Reason("two texts are compared by different collations", "add COLLATE utf8mb4_general_ci to one of them"),
        1292: CONVERT, 1366: CONVERT, 1411: CONVERT, 1525: CONVERT,
        1264: _ARITHMETIC, 1365: _ZERO, 1690: _ARITHMETIC,
        1139: _REGEX,
        3685: _REGEX,
        1301: _TOO_MUCH, 1038: _TOO_MUCH, 1041: _TOO_MUCH, 1104: _TOO_MUCH, 1114: _TOO_MUCH, 1436: _TOO_MUCH,
        1582: _COUNT,
        1583: _ARGUMENTS,
        1630: FUNCTION, 1128: FUNCTION,
        1210: _ARGUMENTS,
        1235: Reason("the database cannot do this", "write it another way"),
        3141: _NO_JSON, 4037: _NO_JSON,
        3143: _JSON_PATH, 4042: _JSON_PATH,
        3636: _TOO_MUCH, 4028: Reason("the rows of a VALUES have different lengths", "make them the same"),
    }
)  # fmt: skip
_TIMED_OUT: Final = frozenset({1317, 1969, 3024})  # killed, max_statement_time, max_execution_time


def explain_sqlstate(state: str, statement: Statement) -> Failed:
    """Return the failure for a PostgreSQL error code."""
    if state in {"57014", "25P03"}:
        return timed_out(statement)
    if state == "54000":
        return failure_with_advice(_TOO_MUCH, statement)
    found = (_STATES.get(state[:length]) for length in (5, 4, 2))
    return failure_with_advice(next((reason for reason in found if reason is not None), UNKNOWN), statement)


_OPTION: Final = 1290  # an option of the server prevents the statement
_MEMORY_OPTION: Final = "mem-used"  # part of the name of the option max_session_mem_used


def explain_errno(number: int, statement: Statement, message: str = "") -> Failed:
    """Return the failure for a MySQL or MariaDB error number. Only the name of an option is read from its message."""
    if number == _OPTION and _MEMORY_OPTION in message:
        return failure_with_advice(_TOO_MUCH, statement)
    return (
        timed_out(statement) if number in _TIMED_OUT else failure_with_advice(_NUMBERS.get(number, UNKNOWN), statement)
    )


def failure_with_advice(reason: Reason, statement: Statement) -> Failed:
    """Return a failure with the statement's own advice on what to change."""
    topic = next((topic for topic in reason.about if topic in statement.advice), "")
    suggestion = statement.advice.get(topic, reason.suggestion)
    if topic == "types":
        suggestion = f"{suggestion}; {reason.suggestion}"
    return failed(reason.code, reason.message, suggestion, Delivery(sql=statement.sql))
