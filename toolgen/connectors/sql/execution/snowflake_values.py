"""Values of Snowflake's SQL API: bindings of parameters, and cells, which are all texts.

https://docs.snowflake.com/en/developer-guide/sql-api/handling-responses#getting-the-data-from-the-results
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal, InvalidOperation
from typing import Final

import msgspec

from toolgen.connectors.sql.execution.snowflake_api import ApiColumn
from toolgen.model.schema import Json

__all__ = ["bindings", "cell", "type_name"]

_EPOCH: Final = date(1970, 1, 1)
_START: Final = datetime(1970, 1, 1, tzinfo=UTC)
_WHOLE: Final = re.compile(r"-?[0-9]{1,7}")
_SECONDS: Final = re.compile(r"(-?)([0-9]{1,12})(?:\.([0-9]{1,9}))?(?: ([0-9]{1,4}))?")
_UTC_OFFSET: Final = 1440  # minutes that are added to an offset, so that none is negative
_PLAIN_TYPES: Final = {"TEXT": "VARCHAR", "REAL": "FLOAT"}


def bindings(values: Iterable[Json]) -> dict[str, Mapping[str, str | None]]:
    """Return the values of the placeholders of a statement by their numbers."""
    return {str(place): _binding(value) for place, value in enumerate(values, 1)}


def _binding(value: Json) -> Mapping[str, str | None]:
    match value:
        case None:
            return {"type": "TEXT", "value": None}
        case bool():
            return {"type": "BOOLEAN", "value": "true" if value else "false"}
        case int():
            return {"type": "FIXED", "value": str(value)}
        case float():
            return {"type": "REAL", "value": repr(value)}
        case str():
            return {"type": "TEXT", "value": value}
        case _:
            return {"type": "TEXT", "value": msgspec.json.encode(value).decode()}


def type_name(column: ApiColumn) -> str:
    """Return the name of a column's type as in CREATE TABLE."""
    if column.type == "FIXED":
        return f"NUMBER({column.precision or 38},{column.scale})"
    return _PLAIN_TYPES.get(column.type, column.type)


def cell(text: str | None, column: ApiColumn) -> object:
    """Return the value of a cell. A text that does not have the form of its type stays a text."""
    if text is None:
        return None
    try:
        match column.type:
            case "FIXED" | "NUMBER" | "DECFLOAT":
                return int(text) if "." not in text and "e" not in text.lower() else Decimal(text)
            case "REAL" | "FLOAT" | "DOUBLE":
                return float(text)
            case "BOOLEAN":
                return {"true": True, "false": False, "1": True, "0": False}.get(text.lower(), text)
            case "DATE":
                return _EPOCH + timedelta(days=int(text)) if _WHOLE.fullmatch(text) else text
            case "TIME" | "TIMESTAMP_NTZ" | "TIMESTAMP_LTZ" | "TIMESTAMP_TZ":
                return _moment(text, column.type)
            case "BINARY":
                return bytes.fromhex(text)
            case "VARIANT" | "OBJECT" | "ARRAY":
                return msgspec.json.decode(text)
            case _:
                return text
    except (ValueError, OverflowError, InvalidOperation, msgspec.DecodeError):
        return text


def _moment(text: str, kind: str) -> object:
    """Return a time or a timestamp from its seconds since midnight or 1970. Nanoseconds are not rounded: such a value is a text."""
    found = _SECONDS.fullmatch(text)
    if found is None or (kind == "TIMESTAMP_TZ") is not (found[4] is not None):
        return text
    nanoseconds = int(f"{found[2]}{(found[3] or '').ljust(9, '0')}")
    microseconds, rest = divmod(-nanoseconds if found[1] else nanoseconds, 1_000)
    digits = f"{rest:03d}" if rest else ""
    moment = _START + timedelta(microseconds=microseconds)
    match kind:
        case "TIME":
            value: time | datetime = moment.time()
        case "TIMESTAMP_NTZ":
            value = moment.replace(tzinfo=None)
        case "TIMESTAMP_LTZ":
            value = moment
        case _:
            value = moment.astimezone(timezone(timedelta(minutes=int(found[4]) - _UTC_OFFSET)))
    return _with_nanoseconds(value, digits) if digits else value


def _with_nanoseconds(value: time | datetime, digits: str) -> str:
    written = value.isoformat(" ", "microseconds") if isinstance(value, datetime) else value.isoformat("microseconds")
    end = written.index(".") + 7
    return f"{written[:end]}{digits}{written[end:]}"
