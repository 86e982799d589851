"""What a server's error codes mean, in our own words: the texts of engines quote the data, so their codes are all that is read."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from toolgen.execute.sql.result_rows import failed, timed_out
from toolgen.model.call import Statement
from toolgen.model.result import Delivery, Failed

__all__ = ["BROKEN_RULE", "explain_errno", "explain_sqlstate"]

BROKEN_RULE: Final = (
    "the change breaks a rule of the table",
    "check keys, required columns and what refers to the rows",
)

_CHANGED: Final = (
    "something the statement names is not in the database as it was built from",
    "the operator runs `toolgen build` again; otherwise check the names",
)
_DENIED: Final = (
    "the gateway's database role may not do this",
    "the operator should grant the role what the policy opens; otherwise leave it out",
)
_READ_ONLY: Final = ("the statement would write, and this session only reads", "send a SELECT")
_TOO_MUCH: Final = ("the statement needs more memory or space than it may use", "ask for less: filter, or aggregate")
_CONVERT: Final = (
    "a value cannot be read as the type it is used as",
    "filter out such values first, or compare as text",
)
_ARITHMETIC: Final = ("a number is out of range", "use a wider type, or filter such values out first")
_FUNCTION: Final = (
    "a function or operator does not exist for these argument types",
    "cast the arguments, for example CAST(x AS text)",
)
_BUSY: Final = ("rows are locked by somebody else, or two statements wait for each other", "call again")
_GROUPING: Final = (
    "an aggregate or a column beside one stands where it may not",
    "add the column to GROUP BY, or use HAVING",
)

# https://www.postgresql.org/docs/current/errcodes-appendix.html: the whole code first, then its class.
_STATES: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "22012": ("something is divided by zero", "use NULLIF(divisor, 0)"),
        "22003": _ARITHMETIC,
        "22008": ("a date or time is out of range", "use dates that exist"),
        "22007": ("a date or time is written in a way that is not understood", "write it as '2024-01-31 10:00:00'"),
        "22P02": _CONVERT,
        "2201B": ("a regular expression is malformed", "check brackets and repetitions"),
        "22025": ("a LIKE pattern ends with its escape character", "write the escape character twice"),
        "2203": ("a JSON value is not what the path expects", "check the value's type first"),
        "22": ("a value does not fit what is done with it", "filter such values out first, or cast"),
        "21000": ("a subquery gives more than one row where one belongs", "add LIMIT 1, or use IN"),
        "23": BROKEN_RULE,
        "25006": _READ_ONLY,
        "25": _READ_ONLY,
        "0A000": ("the database cannot do this", "write it another way"),
        "42601": ("the database reads the statement's syntax in another way", "write it more simply"),
        "42501": _DENIED,
        "42703": _CHANGED,
        "42P01": _CHANGED,
        "3F000": _CHANGED,
        "42883": _FUNCTION,
        "42725": _FUNCTION,
        "42846": ("a value cannot be converted to that type", "convert to text first"),
        "42804": ("two values that are compared or combined have different types", "cast one of them"),
        "42P18": ("the type of a parameter cannot be told", "cast it, for example CAST($1 AS integer)"),
        "42P08": ("a parameter is used as two different types", "cast it, for example CAST($1 AS integer)"),
        "42803": _GROUPING,
        "42P20": ("a window function stands where it may not", "use a subquery"),
        "42702": ("a column name is ambiguous", "write table.column"),
        "42P10": ("an ORDER BY or a column number does not match a column of the result", "name the column"),
        "42P19": ("a recursive query refers to itself in a way that is not allowed", "write it more simply"),
        "42": ("the database does not accept the statement", "write it more simply"),
        "40": _BUSY,
        "55P03": _BUSY,
        "54": ("the statement is too large or too deeply nested for the database", "ask for less at once"),
        "53": _TOO_MUCH,
        "58": ("the database server has a fault of its own", "tell the operator"),
        "XX": ("the database server has a fault of its own", "tell the operator"),
    }
)

# https://mariadb.com/kb/en/mariadb-error-codes/ and MySQL's reference of server errors.
_NUMBERS: Final[Mapping[int, tuple[str, str]]] = MappingProxyType(
    {
        1044: _DENIED, 1045: _DENIED, 1142: _DENIED, 1143: _DENIED, 1227: _DENIED, 1290: _DENIED, 1370: _DENIED,
        1054: _CHANGED, 1146: _CHANGED, 1049: _CHANGED, 1356: _CHANGED, 1305: _CHANGED,
        1022: BROKEN_RULE, 1048: BROKEN_RULE, 1062: BROKEN_RULE, 1364: BROKEN_RULE, 1451: BROKEN_RULE, 1452: BROKEN_RULE, 3819: BROKEN_RULE,
        4025: BROKEN_RULE, 1644: BROKEN_RULE, 1406: BROKEN_RULE,
        1792: _READ_ONLY, 1223: _READ_ONLY,
        1052: ("a column name is ambiguous", "write table.column"),
        1055: _GROUPING, 1056: _GROUPING, 1111: _GROUPING, 1140: _GROUPING,
        1064: ("the database reads the statement's syntax in another way", "write it more simply"),
        1205: _BUSY, 1213: _BUSY, 3572: _BUSY,
        1222: ("the sides of a set operation have different numbers of columns", "make them the same"),
        1241: ("a subquery returns the wrong number of columns", "select as many columns as it is compared with"),
        1242: ("a subquery gives more than one row where one belongs", "add LIMIT 1, or use IN"),
        1247: ("an alias is used where it is not known yet", "repeat the expression, or use a subquery"),
        1267: ("two texts are compared by different collations", "add COLLATE utf8mb4_general_ci to one of them"),
        1271: ("two texts are compared by different collations", "add COLLATE utf8mb4_general_ci to one of them"),
        1292: _CONVERT, 1366: _CONVERT, 1411: _CONVERT, 1525: _CONVERT,
        1264: _ARITHMETIC, 1365: ("something is divided by zero", "use NULLIF(divisor, 0)"), 1690: _ARITHMETIC,
        1139: ("a regular expression is malformed", "check brackets and repetitions"),
        3685: ("a regular expression is malformed", "check brackets and repetitions"),
        1301: _TOO_MUCH, 1038: _TOO_MUCH, 1041: _TOO_MUCH, 1104: _TOO_MUCH, 1114: _TOO_MUCH, 1436: _TOO_MUCH,
        1582: ("a function was called with the wrong number of arguments", "check the function's arguments"),
        1583: ("a function was called with arguments it does not take", "check the function's arguments"),
        1630: _FUNCTION, 1128: _FUNCTION,
        1210: ("a function was called with arguments it does not take", "check the function's arguments"),
        1235: ("the database cannot do this", "write it another way"),
        3141: ("a value is not JSON", "filter with JSON_VALID first"), 4037: ("a value is not JSON", "filter with JSON_VALID first"),
        3143: ("a JSON path is malformed", "write paths like '$.name'"), 4042: ("a JSON path is malformed", "write paths like '$.name'"),
        3636: _TOO_MUCH, 4028: ("the rows of a VALUES have different lengths", "make them the same"),
    }
)  # fmt: skip
_TIMED_OUT: Final = frozenset({1317, 1969, 3024})  # killed, max_statement_time, max_execution_time


def explain_sqlstate(state: str, statement: Statement) -> Failed:
    """The failure a PostgreSQL error code stands for."""
    if state in {"57014", "25P03"}:
        return timed_out(statement)
    if state == "54000" or state.startswith("53"):
        return failed("response_too_large", *_TOO_MUCH, Delivery(sql=statement.sql))
    for length in (5, 4, 2):
        if told := _STATES.get(state[:length]):
            return failed("upstream_error", *told, Delivery(sql=statement.sql))
    return _unknown(statement)


def explain_errno(number: int, statement: Statement) -> Failed:
    """The failure a MySQL or MariaDB error number stands for."""
    if number in _TIMED_OUT:
        return timed_out(statement)
    if told := _NUMBERS.get(number):
        code = "response_too_large" if told is _TOO_MUCH else "upstream_error"
        return failed(code, *told, Delivery(sql=statement.sql))
    return _unknown(statement)


def _unknown(statement: Statement) -> Failed:
    return failed(
        "upstream_error",
        "the database could not run the statement",
        "write it more simply",
        Delivery(sql=statement.sql),
    )
