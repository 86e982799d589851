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
    "not_a_change",
    "not_a_query",
    "timed_out",
    "told",
    "unavailable",
]


def failed(code: ErrorCode, message: str, suggestion: str, delivery: Delivery = UNTRIED) -> Failed:
    """A failure in our own words; nothing an engine said goes into it."""
    return Failed(error=Error(code=code, message=message, suggestion=suggestion), delivery=delivery)


def timed_out(statement: Statement) -> Failed:
    """The statement's time is up."""
    return failed(
        "upstream_timeout",
        f"the statement took longer than {statement.timeout_s:g} s",
        "ask for less: filter on indexed columns, or aggregate",
        Delivery(sql=statement.sql),
    )


def unavailable(message: str, suggestion: str = "", *, retry_after_s: float) -> Failed:
    """The database takes no statement now; nothing of this one was run."""
    return Failed(
        error=Error(code="upstream_unavailable", message=message, suggestion=suggestion, retry_after_s=retry_after_s)
    )


def not_a_query(statement: Statement) -> Failed:
    """The engine says that what it was given has no rows to give."""
    return failed("sql_failed", "the statement is not a query", "send a SELECT", Delivery(sql=statement.sql))


def not_a_change(statement: Statement) -> Failed:
    """The engine says that what it was given has rows to give, or needs other values."""
    return failed(
        "sql_failed",
        "the statement does not change a table",
        "send an INSERT, UPDATE or DELETE",
        Delivery(sql=statement.sql),
    )


class Reason(NamedTuple):
    """Why a statement failed, and what to do where the statement itself does not tell. `about`: its advice that is better, best first.

    `sql_failed` is the statement's own fault, and comes back however often it is sent; anything else is the database's.
    """

    message: str
    suggestion: str
    about: tuple[str, ...] = ()
    code: ErrorCode = "sql_failed"


BROKEN_RULE: Final = Reason(
    "the change breaks a rule of the table", "check keys, required columns and what refers to the rows"
)
CHANGED: Final = Reason(
    "something the statement names is not in the database as it was built from",
    "the operator runs `toolgen build` again; otherwise check the names",
)
_DENIED: Final = Reason(
    "the gateway's database role may not do this",
    "the operator should grant the role what the policy opens; otherwise leave it out",
)
_COLUMN: Final = Reason(
    "a column, or its number in ORDER BY or GROUP BY, is not there",
    "check the names; if a table was changed, the operator runs `toolgen build` again",
)
_READ_ONLY: Final = Reason("the statement would write, and this session only reads", "send a SELECT")
_TOO_MUCH: Final = Reason(
    "the statement needs more memory or space than it may use",
    "ask for less: filter, or aggregate",
    code="response_too_large",
)
GATHERED: Final = Reason(
    "the statement gathers more than 9.5 MB of values of rows",
    "gather fewer rows or parts of values, for example with LIMIT in a subquery, or count them",
    code="response_too_large",
)
CONVERT: Final = Reason(
    "a value cannot be read as the type it is used as",
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
    "rows are locked by somebody else, or two statements wait for each other", "call again", code="upstream_error"
)
GROUPING: Final = Reason(
    "an aggregate or a column beside one stands where it may not",
    "add the column to GROUP BY, or use HAVING",
    ("grouping",),
)
_SYNTAX: Final = Reason(
    "the database reads the statement's syntax in another way", "write it more simply", ("function",)
)
_BROKEN: Final = Reason("the database server has a fault of its own", "tell the operator", code="upstream_error")
_ZERO: Final = Reason("something is divided by zero", "use NULLIF(divisor, 0)")
_ONE_ROW: Final = Reason("a subquery gives more than one row where one belongs", "add LIMIT 1, or use IN")
_REGEX: Final = Reason("a regular expression is malformed", "check brackets and repetitions")
_AMBIGUOUS: Final = Reason("a column name is ambiguous", "write table.column")
_NO_JSON: Final = Reason("a value is not JSON", "filter with JSON_VALID first")
_JSON_PATH: Final = Reason("a JSON path is malformed", "write paths like '$.name'")
UNKNOWN: Final = Reason(
    "the database could not run the statement", "write it more simply", ("grouping", "function"), code="upstream_error"
)
# https://www.postgresql.org/docs/current/errcodes-appendix.html: the whole code first, then its class.
_STATES: Final[Mapping[str, Reason]] = MappingProxyType(
    {
        "22012": _ZERO,
        "22003": _ARITHMETIC,
        "22008": Reason("a date or time is out of range", "use dates that exist"),
        "22007": Reason(
            "a date or time is written in a way that is not understood", "write it as '2024-01-31 10:00:00'"
        ),
        "22P02": CONVERT,
        "2201B": _REGEX,
        "22025": Reason("a LIKE pattern ends with its escape character", "write the escape character twice"),
        "2203": Reason("a JSON value is not what the path expects", "check the value's type first"),
        "22": Reason("a value does not fit what is done with it", "filter such values out first, or cast"),
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
        "42P18": Reason("the type of a parameter cannot be told", "cast it, for example CAST($1 AS integer)"),
        "42P08": Reason("a parameter is used as two different types", "cast it, for example CAST($1 AS integer)"),
        "42803": GROUPING,
        "42P20": Reason("a window function stands where it may not", "use a subquery"),
        "42702": _AMBIGUOUS,
        "42P10": Reason("an ORDER BY or a column number does not match a column of the result", "name the column"),
        "42P19": Reason("a recursive query refers to itself in a way that is not allowed", "write it more simply"),
        "42": Reason("the database does not accept the statement", "write it more simply"),
        "40": BUSY,
        "55P03": BUSY,
        "54": Reason("the statement is too large or too deeply nested for the database", "ask for less at once"),
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
        1241: Reason("a subquery returns the wrong number of columns", "select as many columns as it is compared with"),
        1242: _ONE_ROW,
        1247: Reason("an alias is used where it is not known yet", "repeat the expression, or use a subquery"),
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
    """The failure a PostgreSQL error code stands for."""
    if state in {"57014", "25P03"}:
        return timed_out(statement)
    if state == "54000":
        return told(_TOO_MUCH, statement)
    found = (_STATES.get(state[:length]) for length in (5, 4, 2))
    return told(next((reason for reason in found if reason is not None), UNKNOWN), statement)


_OPTION: Final = 1290  # the server runs with an option that does not let it execute the statement
_MEMORY_OPTION: Final = "mem-used"  # of the options that limit memory: max_session_mem_used


def explain_errno(number: int, statement: Statement, message: str = "") -> Failed:
    """The failure a MySQL or MariaDB error number stands for. Of its message, only the name of an option counts."""
    if number == _OPTION and _MEMORY_OPTION in message:
        return told(_TOO_MUCH, statement)
    return timed_out(statement) if number in _TIMED_OUT else told(_NUMBERS.get(number, UNKNOWN), statement)


def told(reason: Reason, statement: Statement) -> Failed:
    """A failure, with what the statement itself tells about what to change."""
    topic = next((topic for topic in reason.about if topic in statement.advice), "")
    suggestion = statement.advice.get(topic, reason.suggestion)
    if topic == "types":
        suggestion = f"{suggestion}; {reason.suggestion}"
    return failed(reason.code, reason.message, suggestion, Delivery(sql=statement.sql))
