"""Conversion of PostgreSQL's text format to exact Python types if there is one. Other values stay as the server sent them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import AdaptersMap, Dumper, Loader, Transformer
from psycopg.pq import Format
from psycopg.pq.abc import PGresult

from toolgen.connectors.sql.execution.result_rows import exact_number, iso_interval, iso_timestamp
from toolgen.core.json_codec import MAX_DEPTH, deeper_than
from toolgen.model.call import Statement

__all__ = ["RowReader", "adapters", "values_of"]

_BYTEA: Final = 17  # its oid
_HEX: Final = len(rb"\x")

# Types whose Python type would lose or refuse values: infinity and the years before 1 and after 9999 of dates, months of intervals, the
# width of a mask. Types that are unknown here and in psycopg are text too.
_AS_TEXT: Final = (
    *("date", "time", "timetz", "inet", "cidr", "uuid", "record", "name", "xml", "money", "bit", "varbit", "bpchar", "text"),
    *("varchar", "refcursor", "macaddr", "macaddr8", "tsvector", "tsquery", "jsonpath", "point", "box", "circle", "line"),
    *("int4range", "int8range", "numrange", "daterange", "tsrange", "tstzrange"),
    *("int4multirange", "int8multirange", "nummultirange", "datemultirange", "tsmultirange", "tstzmultirange"),
)  # fmt: skip


class _TextCell(Loader):
    def load(self, data: Buffer) -> str:
        return _text(data)


class _Timestamp(Loader):
    """Loader of `2024-01-31 10:00:00.500000+00:00`: six digits if there are any, and minutes in every offset."""

    def load(self, data: Buffer) -> str:
        return iso_timestamp(_text(data))


class _Interval(Loader):
    """Loader of ISO 8601 durations (section 4.4.3) from `intervalstyle` postgres, which is not changed, because casts to text depend on
    it.
    """

    def load(self, data: Buffer) -> str:
        return iso_interval(_text(data))


_DOCUMENTS: Final = msgspec.json.Decoder(float_hook=exact_number)


class _Json(Loader):
    """Loader of JSON documents. Numbers without an exact double become texts; a document with too many levels is text."""

    def load(self, data: Buffer) -> object:
        document = bytes(data)
        try:
            return _text(data) if deeper_than(document, MAX_DEPTH) else _DOCUMENTS.decode(document)
        except ValueError:
            return _text(data)


class _NullInteger:
    """Null of a parameter declared as an integer."""


class _NullNumber:
    """Null of a parameter declared as a number."""


class _NullBoolean:
    """Null of a parameter declared as a boolean."""


# psycopg's type of a small value of this kind: PostgreSQL casts int2 to every other number implicitly.
_NULLS: Final = (
    ("integer", _NullInteger, 21),
    ("number", _NullNumber, 701),
    ("boolean", _NullBoolean, 16),
)
_TYPED_NULLS: Final = {kind: null() for kind, null, _ in _NULLS}


def values_of(statement: Statement) -> tuple[object, ...]:
    """Return the parameters as they are sent: null has the type of its declaration, if it has one."""
    if not statement.parameter_types:
        return statement.parameters
    return tuple(
        _TYPED_NULLS.get(kind) if value is None else value
        for value, kind in zip(statement.parameters, statement.parameter_types, strict=True)
    )


def _null_dumper(oid: int) -> type[Dumper]:
    number = oid

    class NullDumper(Dumper):
        oid = number

        def dump(self, obj: object) -> None:
            return None

    return NullDumper


def adapters() -> AdaptersMap:
    """Return psycopg's adapters with our loaders."""
    ours = AdaptersMap(psycopg.adapters)
    for _, null, oid in _NULLS:
        ours.register_dumper(null, _null_dumper(oid))
    for name in _AS_TEXT:
        ours.register_loader(name, _TextCell)
    for name in ("timestamp", "timestamptz"):
        ours.register_loader(name, _Timestamp)
    for name in ("json", "jsonb"):
        ours.register_loader(name, _Json)
    ours.register_loader("interval", _Interval)
    ours.register_loader(0, _TextCell)  # loader of unregistered types
    return ours


class RowReader:
    """Reader of the rows of one result, cell by cell. A cell far over its limit is not parsed."""

    def __init__(
        self, connection: psycopg.AsyncConnection[tuple[object, ...]], result: PGresult, most_cell_bytes: int
    ) -> None:
        values = Transformer(connection)
        self._result = result
        self._longest = (
            2 * most_cell_bytes + 16
        )  # `[1, 2]` is a third longer than `[1,2]`, and hexadecimal digits twice as many
        self._oids = [result.ftype(index) for index in range(result.nfields)]
        self._loads = [
            values.get_loader(oid, Format(result.fformat(index))).load for index, oid in enumerate(self._oids)
        ]
        self._raw = [[result.get_value(row, index) for index in range(result.nfields)] for row in range(result.ntuples)]
        self.size = sum(
            len(cell) for row in self._raw for cell in row if cell is not None
        )  # bytes as the server sent them

    def rows(self) -> Iterator[list[object]]:
        """Yield the rows. A value has psycopg's type, or is text if it must be cut."""
        for row in self._raw:
            yield [None if raw is None else self._value(index, raw) for index, raw in enumerate(row)]

    def _value(self, index: int, raw: bytes) -> object:
        if len(raw) <= self._longest:
            return self._loads[index](raw)
        if self._oids[index] == _BYTEA:
            return self._loads[index](raw[: _HEX + self._longest // 2 * 2])
        return _text(raw[: self._longest])


def _text(data: Buffer) -> str:
    """Return the text of bytes. A database in SQL_ASCII may contain any bytes: invalid UTF-8 is replaced."""
    return bytes(data).decode("utf-8", "replace")
