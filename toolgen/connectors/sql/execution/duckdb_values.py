"""Values of DuckDB without an exact Python type. They are read as texts, also inside of lists.

Python has no months of an interval, no nanoseconds, and no zones without an optional package. Its dates end with 9999-12-31, which DuckDB's
client also returns for infinity.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Final

from duckdb import sqltypes

from toolgen.connectors.sql.execution.result_rows import iso_interval, iso_timestamp, shortest_float

__all__ = ["cast_type", "is_ambiguous", "read_value"]

_TEXT: Final = "VARCHAR"
_TEXTS: Final = frozenset({"INTERVAL", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE", "TIME WITH TIME ZONE", "BIT"})
_DATES: Final = frozenset({"DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS"})
_NESTED: Final = frozenset({"list", "array", "struct", "map", "union"})
_EXTREMES: Final = frozenset({date.max, date.min, datetime.max, datetime.min})


def cast_type(kind: sqltypes.DuckDBPyType, *, dates: bool = False) -> str:
    """Return the type that a column is converted to before it is read; "" if no conversion is needed.

    Dates in lists are always converted, others only if `dates`: they are read again if one may be infinity.
    """
    written = _written(kind, dates=dates or kind.id in _NESTED)
    return written if written != str(kind) else ""


def _written(kind: sqltypes.DuckDBPyType, *, dates: bool) -> str:
    match kind.id:
        case "list" | "array":
            inner = _inner(kind)[0][1]
            return f"{_written(inner, dates=dates)}[]" if _changes(inner, dates=dates) else str(kind)
        case "struct":
            if not any(_changes(inner, dates=dates) for _, inner in _inner(kind)):
                return str(kind)
            fields = (f"{_quoted(name)} {_written(inner, dates=dates)}" for name, inner in _inner(kind))
            return f"STRUCT({', '.join(fields)})"
        case "map":
            (_, key), (_, value) = _inner(kind)
            if not (_changes(key, dates=dates) or _changes(value, dates=dates)):
                return str(kind)
            return f"MAP({_written(key, dates=dates)}, {_written(value, dates=dates)})"
        case "union":
            return _TEXT if any(_changes(inner, dates=dates) for _, inner in _inner(kind)) else str(kind)
        case _:
            name = str(kind)
            return _TEXT if name in _TEXTS or (dates and name in _DATES) else name


def _changes(kind: sqltypes.DuckDBPyType, *, dates: bool) -> bool:
    return _written(kind, dates=dates) != str(kind)


def _inner(kind: sqltypes.DuckDBPyType) -> list[tuple[str, sqltypes.DuckDBPyType]]:
    """Return the types inside a nested type, by their names."""
    return [(name, inner) for name, inner in kind.children if isinstance(inner, sqltypes.DuckDBPyType)]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def is_ambiguous(value: object) -> bool:
    """Return True for a date that Python also gets for infinity."""
    return isinstance(value, date) and value in _EXTREMES


def read_value(value: object, kind: sqltypes.DuckDBPyType) -> object:
    """Return the value of a column of this type, of which some parts were read as texts."""
    match value:
        case None:
            return None
        case str():
            name = str(kind)
            if name == "INTERVAL":
                return iso_interval(value)
            return iso_timestamp(value) if name.startswith("TIMESTAMP") else value
        case float():
            return shortest_float(value) if str(kind) == "FLOAT" else value
        case list() | tuple() if kind.id in {"list", "array"}:
            inner = _inner(kind)[0][1]
            return [read_value(item, inner) for item in value]
        case dict() if kind.id == "struct":
            types = dict(_inner(kind))
            return {name: read_value(item, types[name]) if name in types else item for name, item in value.items()}
        case dict() if kind.id == "map":
            _, (_, inner) = _inner(kind)
            return {key: read_value(item, inner) for key, item in value.items()}
        case _:
            return value
