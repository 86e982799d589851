"""MySQL's prepared statements over aiomysql, which supports login but only the text protocol: values are sent beside the statement, never
in it.

https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_command_phase_ps.html
"""

from __future__ import annotations

import ssl
import struct
import sys
from collections.abc import AsyncIterator, Sequence
from decimal import Decimal
from typing import Final

import aiomysql
import msgspec
from msgspec import Struct
from pymysql.constants import CLIENT, COMMAND, FIELD_TYPE, FLAG
from pymysql.err import OperationalError
from pymysql.protocol import MysqlPacket

from toolgen.connectors.sql.execution.result_rows import shortest_float
from toolgen.connectors.sql.execution.session_pool import AnswerTooLargeError
from toolgen.core.json_codec import MAX_DEPTH, deeper_than
from toolgen.model.schema import Json

__all__ = ["NamedContext", "PreparedStatement", "ResultField", "WireConnection", "decoded_row"]

_RESET: Final = 0x1F  # COM_RESET_CONNECTION
_BINARY: Final = 63  # the character set of bytes
_NO_CURSOR: Final = 0
_LOST: Final = 2013  # CR_SERVER_LOST
_INTEGERS: Final = {
    FIELD_TYPE.TINY: ("b", "B"),
    FIELD_TYPE.SHORT: ("h", "H"),
    FIELD_TYPE.YEAR: ("H", "H"),
    FIELD_TYPE.INT24: ("i", "I"),
    FIELD_TYPE.LONG: ("i", "I"),
    FIELD_TYPE.LONGLONG: ("q", "Q"),
}
_NAMES: Final = {
    FIELD_TYPE.TINY: "tinyint", FIELD_TYPE.SHORT: "smallint", FIELD_TYPE.YEAR: "year", FIELD_TYPE.INT24: "mediumint",
    FIELD_TYPE.LONG: "int", FIELD_TYPE.LONGLONG: "bigint", FIELD_TYPE.FLOAT: "float", FIELD_TYPE.DOUBLE: "double",
    FIELD_TYPE.DECIMAL: "decimal", FIELD_TYPE.NEWDECIMAL: "decimal", FIELD_TYPE.NULL: "null", FIELD_TYPE.DATE: "date",
    FIELD_TYPE.NEWDATE: "date", FIELD_TYPE.TIME: "time", FIELD_TYPE.DATETIME: "datetime", FIELD_TYPE.TIMESTAMP: "timestamp",
    FIELD_TYPE.BIT: "bit", FIELD_TYPE.JSON: "json", FIELD_TYPE.ENUM: "enum", FIELD_TYPE.SET: "set",
    FIELD_TYPE.GEOMETRY: "geometry",
}  # fmt: skip
_TEXTS: Final = {
    FIELD_TYPE.STRING: ("char", "binary"), FIELD_TYPE.VAR_STRING: ("varchar", "varbinary"), FIELD_TYPE.VARCHAR: ("varchar", "varbinary"),
    FIELD_TYPE.TINY_BLOB: ("text", "blob"), FIELD_TYPE.MEDIUM_BLOB: ("text", "blob"), FIELD_TYPE.LONG_BLOB: ("text", "blob"),
    FIELD_TYPE.BLOB: ("text", "blob"),
}  # fmt: skip


class ResultField(Struct, frozen=True, kw_only=True):
    """Column of a result. `table` is its table, or "" for a computed column."""

    name: str
    table: str
    kind: int
    charset: int
    flags: int

    @property
    def type(self) -> str:
        """The type's SQL name."""
        if self.flags & FLAG.ENUM:
            return "enum"
        if self.flags & FLAG.SET:
            return "set"
        if names := _TEXTS.get(self.kind):
            return names[self.charset == _BINARY]
        unsigned = (
            " unsigned"
            if self.flags & FLAG.UNSIGNED and self.kind in _INTEGERS and self.kind != FIELD_TYPE.YEAR
            else ""
        )
        return _NAMES.get(self.kind, "unknown") + unsigned


class PreparedStatement(Struct, frozen=True, kw_only=True):
    """Statement parsed by the server. `columns` 0: it has no result, so it is not a query (INTO OUTFILE included)."""

    id: int
    columns: int
    parameters: int


class NamedContext(ssl.SSLContext):
    """TLS context that verifies the certificate for the server's name, while the connection uses a checked address."""

    name: str = ""

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        return super().wrap_bio(incoming, outgoing, server_side, self.name or server_hostname, session)


class WireConnection(aiomysql.Connection):  # type: ignore[misc]  # aiomysql has no types
    """Connection that refuses to continue without required TLS, and never runs two statements in one message."""

    def __init__(self, *, requires_tls: str, **arguments: object) -> None:
        """Create a connection. `requires_tls` is "" if TLS is optional. The other arguments are aiomysql's."""
        super().__init__(**arguments)
        self._allowed = sys.maxsize
        self._requires_tls = requires_tls
        self.client_flag &= ~(CLIENT.MULTI_STATEMENTS | CLIENT.LOCAL_FILES)

    async def connect(self) -> None:
        """Connects and logs in."""
        await self._connect()

    async def _request_authentication(self) -> None:
        if self._requires_tls and not self.server_capabilities & CLIENT.SSL:
            raise OperationalError(2026, "the server has no TLS")
        await super()._request_authentication()

    async def _process_auth(self, plugin_name: bytes, auth_packet: MysqlPacket) -> MysqlPacket:
        """Process the server's login messages. A server that asks for the plain password does not get it over an unencrypted connection."""
        if plugin_name == b"mysql_clear_password" and not self._secure:
            raise OperationalError(2061, "the server asks for the password over an unencrypted connection")
        answer: MysqlPacket = await super()._process_auth(plugin_name, auth_packet)
        return answer

    async def command(self, sql: str) -> None:
        """Run a statement of our own without rows."""
        await self._execute_command(COMMAND.COM_QUERY, sql)
        await self._read_packet()

    async def reset(self) -> None:
        """Reset the session: roll back, drop temporary tables, prepared statements and user variables, unlock, and reset all settings."""
        await self._execute_command(_RESET, b"")
        await self._read_packet()

    async def prepare(self, sql: str) -> PreparedStatement:
        """Prepare one statement at the server. Raises aiomysql's errors."""
        await self._execute_command(COMMAND.COM_STMT_PREPARE, sql)
        data: bytes = (await self._read_packet()).get_all_data()
        _, number, columns, parameters = struct.unpack_from("<BIHH", data)
        await self._skip(parameters)
        await self._skip(columns)
        return PreparedStatement(id=number, columns=columns, parameters=parameters)

    async def execute(self, prepared: PreparedStatement, values: Sequence[Json]) -> tuple[ResultField, ...]:
        """Start the statement with these values; `rows` then returns the rows. Returns no fields if there are no rows."""
        await self._execute_command(COMMAND.COM_STMT_EXECUTE, _execute_message(prepared, values))
        packet = await self._read_packet()
        data: bytes = packet.get_all_data()
        if data[:1] in {b"\x00", b"\xfb"}:
            # An OK without rows, or a request for a local file (LOAD DATA LOCAL): neither is the answer to a query.
            if data[:1] == b"\xfb":
                self.close()
                raise OperationalError(_LOST, "the server asks for a local file")
            return ()
        count = packet.read_length_encoded_integer()
        fields = [_field((await self._read_packet()).get_all_data()) for _ in range(count)]
        await self._read_packet()  # EOF
        return tuple(fields)

    async def change(self, prepared: PreparedStatement, values: Sequence[Json]) -> int:
        """Run the statement with these values and return the number of changed rows."""
        await self._execute_command(COMMAND.COM_STMT_EXECUTE, _execute_message(prepared, values))
        data: bytes = (await self._read_packet()).get_all_data()
        if data[:1] != b"\x00":
            self.close()
            raise OperationalError(_LOST, "the server answers something other than a count")
        return _PacketReader(data, 1).length()

    async def rows(self, fields: Sequence[ResultField], most: int, most_cell: int) -> AsyncIterator[list[object]]:
        """Yield the rows as they arrive. A document of more than `most_cell` bytes is left as text.

        Raises `AnswerTooLargeError` for a row of more than `most` bytes, most of which is then unread.
        """
        while True:
            self._allowed = most
            packet = await self._read_packet()
            if packet.is_eof_packet():
                self._allowed = sys.maxsize
                return
            yield decoded_row(packet.get_all_data(), fields, most_cell)

    async def _read_bytes(self, num_bytes: int) -> bytes:
        """Read bytes (overrides aiomysql): an announced packet is read only if its length is allowed."""
        self._allowed -= num_bytes
        if self._allowed < 0:
            raise AnswerTooLargeError
        data: bytes = await super()._read_bytes(num_bytes)
        return data

    async def _skip(self, definitions: int) -> None:
        if definitions:
            for _ in range(definitions + 1):
                await self._read_packet()


def _execute_message(prepared: PreparedStatement, values: Sequence[Json]) -> bytes:
    head = struct.pack("<IBI", prepared.id, _NO_CURSOR, 1)
    if not values:
        return head
    nulls = bytearray((len(values) + 7) // 8)
    types, data = bytearray(), bytearray()
    for index, value in enumerate(values):
        match value:
            case None:
                nulls[index // 8] |= 1 << index % 8
                types += bytes((FIELD_TYPE.NULL, 0))
            case bool():
                types += bytes((FIELD_TYPE.TINY, 0))
                data += bytes((int(value),))
            case int():
                types += bytes((FIELD_TYPE.LONGLONG, 0))
                data += struct.pack("<q", value)
            case float():
                types += bytes((FIELD_TYPE.DOUBLE, 0))
                data += struct.pack("<d", value)
            case str():
                types += bytes((FIELD_TYPE.VAR_STRING, 0))
                encoded = value.encode()
                data += _length(len(encoded)) + encoded
            case _:
                raise TypeError("the guard allows only scalar values")
    return head + bytes(nulls) + b"\x01" + bytes(types) + bytes(data)


def _length(number: int) -> bytes:
    if number < 251:
        return bytes((number,))
    if number < 2**16:
        return b"\xfc" + struct.pack("<H", number)
    if number < 2**24:
        return b"\xfd" + struct.pack("<I", number)[:3]
    return b"\xfe" + struct.pack("<Q", number)


class _PacketReader:
    """Reader of one packet from start to end."""

    __slots__ = ("_data", "_place")

    def __init__(self, data: bytes, place: int = 0) -> None:
        self._data = data
        self._place = place

    def take(self, count: int) -> bytes:
        end = self._place + count
        if end > len(self._data):
            raise OperationalError(_LOST, "a packet ends too early")
        taken = self._data[self._place : end]
        self._place = end
        return taken

    def number(self, form: str) -> int | float:
        value: int | float = struct.unpack(f"<{form}", self.take(struct.calcsize(form)))[0]
        return value

    def length(self) -> int:
        """Read an integer of one to nine bytes, the format of lengths and counts."""
        first = self.take(1)[0]
        match first:
            case 0xFC:
                return int(self.number("H"))
            case 0xFD:
                return int.from_bytes(self.take(3), "little")
            case 0xFE:
                return int(self.number("Q"))
            case _:
                return first

    def counted(self) -> bytes:
        return self.take(self.length())


def _field(data: bytes) -> ResultField:
    reader = _PacketReader(data)
    _catalog, _schema, _table, origin, name, _origin_name = (reader.counted() for _ in range(6))
    reader.take(1)
    charset, _width, kind, flags, _decimals = struct.unpack("<HIBHB", reader.take(10))
    return ResultField(
        name=name.decode("utf-8", "replace"),
        table=origin.decode("utf-8", "replace"),
        kind=kind,
        charset=charset,
        flags=flags,
    )


def decoded_row(data: bytes, fields: Sequence[ResultField], most_cell: int) -> list[object]:
    """Return the values of one row of a prepared statement. A JSON document of more than `most_cell` bytes is left as text."""
    size = (len(fields) + 9) // 8
    nulls = data[1 : 1 + size]
    reader = _PacketReader(data, 1 + size)
    return [
        None if nulls[(index + 2) // 8] >> (index + 2) % 8 & 1 else _value(reader, field, most_cell)
        for index, field in enumerate(fields)
    ]


def _value(reader: _PacketReader, field: ResultField, most_cell: int) -> object:
    kind = field.kind
    if forms := _INTEGERS.get(kind):
        return reader.number(forms[bool(field.flags & FLAG.UNSIGNED)])
    match kind:
        case FIELD_TYPE.DOUBLE:
            return reader.number("d")
        case FIELD_TYPE.FLOAT:
            return shortest_float(float(reader.number("f")))
        case FIELD_TYPE.DATE | FIELD_TYPE.NEWDATE:
            return _date_time(reader.counted(), date_only=True)
        case FIELD_TYPE.DATETIME | FIELD_TYPE.TIMESTAMP:
            return _date_time(reader.counted(), date_only=False)
        case FIELD_TYPE.TIME:
            return _time(reader.counted())
        case FIELD_TYPE.NEWDECIMAL | FIELD_TYPE.DECIMAL:
            return Decimal(reader.counted().decode("ascii"))
        case FIELD_TYPE.BIT:
            return format(int.from_bytes(reader.counted(), "big"), "b")
        case FIELD_TYPE.JSON:
            return _json(reader.counted(), most_cell)
    data = reader.counted()
    if field.charset == _BINARY or kind == FIELD_TYPE.GEOMETRY:
        return data
    return data.decode("utf-8", "replace")


def _date_time(data: bytes, *, date_only: bool) -> str:
    """Return a date as text: MySQL has 0000-00-00 and days like 2024-02-00, which are not Python dates."""
    year, month, day, hour, minute, second, fraction = struct.unpack("<HBBBBBI", data.ljust(11, b"\0"))
    date = f"{year:04d}-{month:02d}-{day:02d}"
    if date_only:
        return date
    return f"{date} {hour:02d}:{minute:02d}:{second:02d}" + (f".{fraction:06d}" if fraction else "")


def _time(data: bytes) -> str:
    negative, days, hours, minutes, seconds, fraction = struct.unpack("<BIBBBI", data.ljust(12, b"\0"))
    text = f"{days * 24 + hours:02d}:{minutes:02d}:{seconds:02d}" + (f".{fraction:06d}" if fraction else "")
    return f"-{text}" if negative else text


def _json(data: bytes, most: int) -> object:
    """Return a JSON document; as text if it is far over the cell limit or cannot be parsed."""
    try:
        if len(data) <= 2 * most and not deeper_than(data, MAX_DEPTH):
            return msgspec.json.decode(data)
    except ValueError:
        pass
    return data.decode("utf-8", "replace")
