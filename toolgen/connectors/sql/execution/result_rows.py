"""Rows of a statement's result, fetched one by one up to a limit. Every cell becomes JSON, and any loss is stated."""

from __future__ import annotations

import base64
import math
import re
import struct
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Final
from uuid import UUID

import msgspec
from msgspec import Struct

from toolgen.model.call import Statement
from toolgen.model.result import Delivery, Success
from toolgen.model.schema import Json, JsonObject

__all__ = ["AnswerColumn", "RowCollector", "exact_number", "iso_interval", "iso_timestamp", "shortest_float"]

# RFC 8259, section 6: range that every JSON reader handles exactly; larger numbers are text
_MAX_INTEGER: Final = 2**53 - 1
_MAX_EXACT: Final = 2**53
_LONG_FRACTION: Final = 16  # digits of PostgreSQL's quotient of an endless division
_MAX_DEPTH: Final = 32
_INTERVAL: Final = re.compile(
    r"(?:(-?\d+) years? ?|(-?\d+) mon(?:th)?s? ?|(-?\d+) days? ?|([+-]?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?)", re.ASCII
)
_FRACTION: Final = re.compile(r"(?<=:\d\d)\.(\d{1,6})")
_SHORT_ZONE: Final = re.compile(r"([+-]\d\d)( BC)?\Z")
_FIXED: Final = len("false")
_QUOTES: Final = '""'


class AnswerColumn(Struct, kw_only=True):
    """Column of the answer. `computed`: it is not a column of a table, so its digits come from arithmetic; `rounded` marks removed
    digits.
    """

    name: str
    type: str
    declared: str = ""  # declared type, used without a value
    computed: bool = False
    rounded: bool = False

    def to_json(self) -> JsonObject:
        told: dict[str, Json] = {"name": self.name, "type": self.type or self.declared or "null"}
        if self.rounded:
            told["rounded"] = True
        return told


class RowCollector(Struct):
    """Collector of rows up to a limit. A column with the type "" gets the type of its first value (SQLite types values)."""

    statement: Statement
    columns: Sequence[AnswerColumn]
    rows: list[list[Json]] = []
    size: int = 0
    cut: bool = False
    full: bool = False  # there were more rows than returned

    def take(self, row: Iterable[object]) -> bool:
        """Add a row. Return False when it does not fit and no more should be read."""
        if len(self.rows) >= self.statement.max_rows:
            self.cut = self.full = True
            return False
        cells: list[Json] = []
        size = 0
        for column, value in zip(self.columns, row, strict=True):
            cell, weight = self._cell(value, column)
            size += weight + 1
            if self.size + size > self.statement.max_bytes:
                self.cut = self.full = True
                return False
            cells.append(cell)
            if value is not None and not column.type:
                column.type = _storage_class(value)
        self.size += size
        self.rows.append(cells)
        return True

    def success(self) -> Success:
        """Return the rows as `data` of a query tool."""
        columns: list[Json] = [column.to_json() for column in self.columns]
        rows: list[Json] = list(self.rows)
        count = len(rows)
        note = self.statement.advice.get("labels")
        return Success(
            data={"columns": columns, "rows": rows, "row_count": count, **({"note": note} if note else {})},
            next_cursor=self._next_page(count),
            truncated=self.cut or (self.statement.limited and count >= self.statement.max_rows),
            delivery=Delivery(sql=self.statement.sql, rows=count, bytes=self.size),
        )

    def _next_page(self, count: int) -> str:
        """Return the cursor of the next page, if the query has an order and may have more rows."""
        more = self.full or (self.statement.limited and count >= self.statement.max_rows)
        return f"{self.statement.skip + count}-{self.statement.page}" if self.statement.page and more and count else ""

    def _cell(self, value: object, column: AnswerColumn) -> tuple[Json, int]:
        """Return a cell as JSON, and its bytes in JSON. A cell over its limit is cut; a list or object over it becomes cut text."""
        most = self.statement.max_cell_bytes
        match value:
            case None | bool():
                return value, _FIXED
            case str():
                return self._text(value)
            case bytes() | bytearray() | memoryview():
                return self._blob(bytes(value))
            case list() | tuple() | dict():
                cell = self._nested(value, column, 0)
                weight = _weight(cell)
                return (cell, weight) if weight <= most else self._text(msgspec.json.encode(cell).decode())
            case _:
                cell = _plain(value, column)
                return self._text(cell) if isinstance(cell, str) else (cell, _weight(cell))

    def _text(self, value: str) -> tuple[str, int]:
        """Return the start of a text that has at most so many bytes in JSON, where a control character takes six."""
        most = self.statement.max_cell_bytes
        text = value[:most].encode("utf-8", "replace").decode()
        weight = _weight(text) - len(_QUOTES)
        if weight > most:
            fits = bisect_right(range(len(text)), most, key=lambda end: _weight(text[: end + 1]) - len(_QUOTES))
            text = text[:fits]
            weight = _weight(text) - len(_QUOTES)
        if len(text) < len(value):
            self.cut = True
        return text, weight + len(_QUOTES)

    def _blob(self, value: bytes) -> tuple[Json, int]:
        most = self.statement.max_cell_bytes * 3 // 4
        if len(value) > most:
            self.cut = True
        cell: Json = {"base64": base64.b64encode(value[:most]).decode("ascii")}
        return cell, _weight(cell)

    def _nested(self, value: object, column: AnswerColumn, depth: int) -> Json:
        if depth > _MAX_DEPTH:
            self.cut = True
            return "…"
        match value:
            case list() | tuple():
                return [self._nested(item, column, depth + 1) for item in value]
            case dict():
                return {
                    key if isinstance(key, str) else str(key): self._nested(item, column, depth + 1)
                    for key, item in value.items()
                }
            case bytes() | bytearray() | memoryview():
                return {"base64": base64.b64encode(bytes(value)).decode("ascii")}
            case None | bool():
                return value
            case str():
                return value.encode("utf-8", "replace").decode("utf-8")
            case _:
                return _plain(value, column)


def _plain(value: object, column: AnswerColumn) -> Json:
    """Return a scalar that is neither text nor bytes. A value without a JSON form becomes text in the format of the engine or of ISO
    8601.
    """
    match value:
        case int():
            return value if -_MAX_INTEGER <= value <= _MAX_INTEGER else str(value)
        case float():
            return value if math.isfinite(value) else _not_finite(value)
        case Decimal():
            return _decimal(value, column)
        case datetime():
            return value.isoformat(" ")  # RFC 3339, section 5.6, allows a space for T, and every engine accepts it
        case date() | time():
            return value.isoformat()
        case timedelta():
            return iso_duration(0, value.days, value.seconds * 1_000_000 + value.microseconds)
        case UUID():
            return str(value)
        case _:
            return str(value)


def _not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _decimal(value: Decimal, column: AnswerColumn) -> Json:
    """Return a number if a double has exactly its value, else text with all digits.

    A computed number with a fraction of 16 digits or more, the result of an endless division, is a number too, and its column is `rounded`;
    a cast to text returns all digits.
    """
    if not value.is_finite():
        return "NaN" if value.is_nan() else "Infinity" if value > 0 else "-Infinity"
    if value == value.to_integral_value():
        whole = int(value) if value.adjusted() < 20 else None
        return whole if whole is not None and abs(whole) <= _MAX_INTEGER else format(value, "f")
    double = float(value)
    if Decimal(repr(double)) == value:
        return double
    parts = value.as_tuple()
    fraction = -parts.exponent if isinstance(parts.exponent, int) else 0
    if column.computed and abs(double) < _MAX_EXACT and fraction >= _LONG_FRACTION and len(parts.digits) > 15:
        column.rounded = True
        return double
    return format(value, "f")


def exact_number(text: str) -> float | str:
    """Return a number of a JSON document: a double with exactly its value, else its text with all digits."""
    double = float(text)
    written = repr(double)
    if written == text or (math.isfinite(double) and Decimal(written) == Decimal(text)):
        return double
    return text


def iso_duration(months: int, days: int, microseconds: int) -> str:
    """Return an ISO 8601 duration (section 4.4.3), each part with its own sign as in PostgreSQL: `P1Y2M3DT4H5M6.5S`."""
    years = int(months / 12)
    sign = "-" if microseconds < 0 else ""
    minutes, rest = divmod(abs(microseconds), 60_000_000)
    hours, minutes = divmod(minutes, 60)
    seconds = f"{rest // 1_000_000}.{rest % 1_000_000:06d}".rstrip("0").rstrip(".")
    day = "".join(
        f"{number}{unit}" for number, unit in ((years, "Y"), (months - 12 * years, "M"), (days, "D")) if number
    )
    parts = ((str(hours), "H"), (str(minutes), "M"), (seconds, "S"))
    clock = "".join(f"{sign}{number}{unit}" for number, unit in parts if number != "0")
    return f"P{day}T{clock}" if clock else f"P{day}" if day else "PT0S"


def iso_interval(text: str) -> str:
    """Convert an interval to an ISO 8601 duration, from the format of PostgreSQL (`intervalstyle` postgres) and DuckDB: `1 year 2 mons 3
    days 04:05:06.5`. Any other text is returned unchanged."""
    months = days = microseconds = end = 0
    for found in _INTERVAL.finditer(text):
        if found.start() != end:
            return text
        end = found.end()
        year, month, day, sign, hour, minute, second, fraction = found.groups()
        months += int(year or 0) * 12 + int(month or 0)
        days += int(day or 0)
        if hour is not None:
            size = ((int(hour) * 60 + int(minute)) * 60 + int(second)) * 1_000_000 + int(f"{fraction or 0:0<6}")
            microseconds += -size if sign == "-" else size
    return iso_duration(months, days, microseconds) if text and end == len(text) else text


def iso_timestamp(text: str) -> str:
    """Normalize an engine's timestamp: six digits for a fraction if there is one, and minutes in every offset."""
    written = _FRACTION.sub(lambda found: f".{found[1]:0<6}", text)
    return _SHORT_ZONE.sub(r"\1:00\2", written) if ":" in written else written


def shortest_float(value: float) -> float:
    """Return a float of four bytes in its shortest form: 1.1, not the nearest double 1.100000023841858."""
    if not math.isfinite(value):
        return value
    for digits in range(6, 9):
        written = float(f"{value:.{digits}g}")
        if struct.pack("<f", written) == struct.pack("<f", value):
            return written
    return value


def _storage_class(value: object) -> str:
    """Return the storage class of a value: https://www.sqlite.org/datatype3.html, section 2."""
    match value:
        case int():
            return "integer"
        case float():
            return "real"
        case str():
            return "text"
        case _:
            return "blob"


def _weight(cell: Json) -> int:
    """Size of the cell in JSON."""
    return len(msgspec.json.encode(cell))
