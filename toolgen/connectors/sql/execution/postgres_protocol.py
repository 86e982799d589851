"""PostgreSQL protocol details of a session.

Cascades: what a change of a table triggers, and how many rows of all tables it changed, asked inside its transaction.

Size limit: libpq keeps a whole result before it returns any of it, so the bytes that the server sends are metered as they arrive.

Session start: the session's role and database, and the settings that a statement depends on.

Values: the text format of the protocol, converted to exact Python types where there is one; other values stay as the server wrote them.
"""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Generator, Iterator
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
import psycopg
from msgspec import Struct
from psycopg import sql
from psycopg.abc import Buffer, PQGen
from psycopg.adapt import AdaptersMap, Dumper, Loader, Transformer
from psycopg.pq import Format
from psycopg.pq.abc import PGresult
from psycopg.waiting import wait_async

from toolgen.connectors.sql.execution.connections import AnswerTooLargeError
from toolgen.connectors.sql.execution.result_rows import exact_number, iso_interval, iso_timestamp
from toolgen.core.json_codec import MAX_DEPTH, deeper_than
from toolgen.core.system_modules import system_module
from toolgen.model.call import Statement
from toolgen.model.database import POSTGRES_CASCADES, Cascade

__all__ = [
    "MeteredConnection",
    "RowReader",
    "SessionRole",
    "adapters",
    "begin",
    "cascades",
    "role_of",
    "touched",
    "values_of",
]

_Connection: TypeAlias = psycopg.AsyncConnection[tuple[object, ...]]

# https://www.postgresql.org/docs/current/monitoring-stats.html: a TOAST table holds parts of rows that were counted.
_TOUCHED: Final = """
SELECT CASE WHEN pg_catalog.current_setting('track_counts')::bool THEN coalesce(sum(n_tup_ins + n_tup_upd + n_tup_del), 0) ELSE -1 END::int8
FROM pg_catalog.pg_stat_xact_all_tables WHERE schemaname <> 'pg_toast'
"""


_THERE: Final = (
    "SELECT pg_catalog.array_agg(n) FROM pg_catalog.unnest(%s::text[]) n WHERE pg_catalog.to_regclass(n) IS NOT NULL"
)


async def cascades(connection: _Connection, statement: Statement) -> list[Cascade]:
    """Return the cascades of a change, read from the current catalog. Raises psycopg's errors, also for a table that no longer exists."""
    names = [
        sql.Identifier(schema or "public", table).as_string(connection)
        for name in statement.tables
        for schema, table in _meant(name)
    ]
    there = await (await connection.execute(_THERE, (names,))).fetchone()
    found = await connection.execute(POSTGRES_CASCADES, ((there[0] if there else None) or names,))
    return [
        Cascade(on=str(kind), by=str(what), columns=tuple(map(str, columns)) if isinstance(columns, list) else ())
        for _, kind, what, columns in await found.fetchall()
    ]


def _meant(name: str) -> Iterator[tuple[str, str]]:
    """Every schema and table that `schema.table` may mean: a dot may be part of a name as well."""
    parts = name.split(".")
    for index in range(len(parts)):
        yield ".".join(parts[:index]), ".".join(parts[index:])


async def touched(connection: _Connection) -> int:
    """Rows of every table changed by this session so far, to be subtracted; less than 0 where the server does not count."""
    found = await (await connection.execute(_TOUCHED)).fetchone()
    return int(str(found[0])) if found is not None else -1


_fcntl, _termios = system_module("fcntl"), system_module("termios")
_TCP_INFO: Final = getattr(socket, "TCP_INFO", None)
_RECEIVED: Final = struct.Struct("<Q")
_RECEIVED_AT: Final = (
    128  # tcpi_bytes_received of linux/tcp.h: 8 bytes, 24 numbers of four and three of eight come before it
)
_WAITING: Final = struct.Struct("i")

_LOOK_S: Final = 0.1

T = TypeVar("T")


class MeteredConnection(psycopg.AsyncConnection[tuple[object, ...]]):
    """A connection over which no more than `most` bytes come for one message sent; without a `most`, any number."""

    most: int = 0

    async def wait(self, gen: PQGen[T], *arguments: Any, **named: Any) -> T:
        """Wait for an exchange with the server. Raises `AnswerTooLargeError`; the connection is unusable afterwards.

        psycopg's own method, when cancelled, asks the server to stop and waits for that. This one leaves both to the pool.
        """
        metered = self._metered(gen) if self.most else gen
        if not arguments:
            named.setdefault("interval", _LOOK_S)
        return await wait_async(metered, self.pgconn.socket, *arguments, **named)

    def _metered(self, gen: PQGen[T]) -> Generator[Any, Any, T]:
        file = self.pgconn.socket
        began = _received(file)
        read = 0
        ready: Any = None  # what begins a generator
        while True:
            waiting = _waiting(file)
            try:
                state = gen.send(ready)
                ended = None
            except StopIteration as stopped:
                ended = stopped
            # What the kernel counts; where it does not (a Unix socket), what was seen to go out of its buffer, which is less.
            read = _received(file) - began if began >= 0 else read + max(waiting - _waiting(file), 0)
            if read > self.most:
                raise AnswerTooLargeError
            if ended is not None:
                value: T = ended.value
                return value
            ready = yield state


def _received(file: int) -> int:
    """All bytes that ever came over a TCP socket; -1 where nothing says so."""
    if _TCP_INFO is None:
        return -1
    borrowed = socket.socket(fileno=file)
    try:
        told = borrowed.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, _RECEIVED_AT + _RECEIVED.size)
    except OSError:
        return -1
    finally:
        borrowed.detach()
    count: int = _RECEIVED.unpack_from(told, _RECEIVED_AT)[0] if len(told) >= _RECEIVED_AT + _RECEIVED.size else -1
    return count


def _waiting(file: int) -> int:
    if _fcntl is None or _termios is None:
        return 0
    data = bytearray(_WAITING.size)
    _fcntl.ioctl(file, _termios.FIONREAD, data, True)
    count: int = _WAITING.unpack(data)[0]
    return count


_CATALOG: Final = "pg_catalog"

# What a function or an operator of somebody's own would do in place of the built-in one: an overload that fits its arguments better wins
# over the whole search path (https://www.postgresql.org/docs/current/typeconv-func.html). Where there is one, the path ends before it.
_FACTS: Final = """
SELECT current_setting('is_superuser') = 'on',
  EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = 'pg_read_all_data'),
  EXISTS (SELECT FROM pg_catalog.pg_proc f WHERE f.pronamespace = 'public'::regnamespace
    AND EXISTS (SELECT FROM pg_catalog.pg_proc b WHERE b.proname = f.proname AND b.pronamespace = 'pg_catalog'::regnamespace)
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
      WHERE d.classid = 'pg_catalog.pg_proc'::regclass AND d.objid = f.oid AND d.deptype = 'e'))
  OR EXISTS (SELECT FROM pg_catalog.pg_operator f WHERE f.oprnamespace = 'public'::regnamespace
    AND EXISTS (SELECT FROM pg_catalog.pg_operator b WHERE b.oprname = f.oprname AND b.oprnamespace = 'pg_catalog'::regnamespace)
    AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
      WHERE d.classid = 'pg_catalog.pg_operator'::regclass AND d.objid = f.oid AND d.deptype = 'e')),
  ARRAY(SELECT CASE nspname WHEN 'public' THEN relname::text ELSE nspname || '.' || relname END
    FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace n ON n.oid = relnamespace WHERE relrowsecurity),
  EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = 'public')
"""


class SessionRole(Struct, frozen=True, kw_only=True):
    """Role and database of a session, as found when it was opened."""

    superuser: bool
    lowers: bool  # a superuser can become pg_read_all_data
    path: str
    row_security: frozenset[str] = frozenset()


async def role_of(connection: psycopg.AsyncConnection[tuple[object, ...]]) -> SessionRole:
    cursor = await connection.execute(_FACTS)
    found = await cursor.fetchone()
    assert found is not None  # noqa: S101 - a SELECT without FROM has one row
    superuser, has_role, shadowed, secured, has_public = found
    assert isinstance(secured, list)  # noqa: S101 - an array is a list
    return SessionRole(
        superuser=bool(superuser),
        lowers=bool(superuser) and bool(has_role),
        path=_CATALOG if shadowed or not has_public else f"{_CATALOG}, public",
        row_security=frozenset(map(str, secured)),
    )


WORK_MEMORY_KB: Final = 16_384
"""Memory of one sort; a hash may take twice as much."""
_ALL_WORK_MEMORY_KB: Final = 163_840  # of all sorts and hashes of a statement
_LEAST_WORK_MEMORY_KB: Final = 256
_SORTS: Final = re.compile(r"\b(?:ORDER BY|OVER|WITHIN GROUP|PARTITION BY)\b")
_HASHES: Final = re.compile(
    r"\b(?:DISTINCT|GROUP BY|JOIN|UNION|INTERSECT|EXCEPT|ROLLUP|CUBE|SETS|IN \(SELECT)\b|FROM|\"\.\""
)


def work_memory(text: str) -> int:
    """Kilobytes for each sort of a statement, so that all that its text could make together take no more than 160 MB.

    https://www.postgresql.org/docs/current/runtime-config-resource.html#GUC-WORK-MEM: each sort and hash of a plan has its own, and so has
    each aggregate that sorts. Words in texts count too, which gives less memory than there could be.
    """
    count = len(_SORTS.findall(text)) + 2 * len(_HASHES.findall(text))
    return max(_LEAST_WORK_MEMORY_KB, min(WORK_MEMORY_KB, _ALL_WORK_MEMORY_KB // max(count, 1)))


def begin(role: SessionRole, timeout_s: float, mode: str = "REPEATABLE READ READ ONLY") -> bytes:
    """Return one message that begins the transaction with every setting that the SQL guard's parsing or a statement's limits depend on."""
    milliseconds = max(1, int(timeout_s * 1000))
    settings = [
        f"statement_timeout = {milliseconds}",
        f"lock_timeout = {max(1, min(milliseconds, 2_000))}",
        f"idle_in_transaction_session_timeout = {milliseconds + 5_000}",
        f"search_path = {role.path}",
        "standard_conforming_strings = on",
        "backslash_quote = off",
        "transform_null_equals = off",
        "array_nulls = on",
        "datestyle = ISO",
        "intervalstyle = postgres",
        "bytea_output = hex",
        "extra_float_digits = 1",
        "row_security = on",
        "cursor_tuple_fraction = 1.0",
        f"work_mem = {WORK_MEMORY_KB}",
        "jit = off",
    ]
    if role.superuser:
        settings.append("temp_file_limit = '256MB'")
    statements = [
        f"BEGIN TRANSACTION ISOLATION LEVEL {mode}",
        *(f"SET LOCAL {item}" for item in settings),
    ]
    return "; ".join(statements).encode()


_BYTEA: Final = 17  # its oid
_HEX: Final = len(rb"\x")

# Everything whose Python type would lose or refuse something: infinity and the years before 1 and after 9999 of dates, months of
# intervals, the width of a mask. What is not registered here and not known to psycopg comes as text too.
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
    """`2024-01-31 10:00:00.500000+00:00`: with six digits when there are any, and minutes in every offset."""

    def load(self, data: Buffer) -> str:
        return iso_timestamp(_text(data))


class _Interval(Loader):
    """ISO 8601, section 4.4.3, out of `intervalstyle` postgres, which stays so that a cast to text gives what PostgreSQL gives."""

    def load(self, data: Buffer) -> str:
        return iso_interval(_text(data))


_DOCUMENTS: Final = msgspec.json.Decoder(float_hook=exact_number)


class _Json(Loader):
    """JSON document with numbers that a double does not say exactly as texts; one that is not read (too many levels) is text."""

    def load(self, data: Buffer) -> object:
        document = bytes(data)
        try:
            return _text(data) if deeper_than(document, MAX_DEPTH) else _DOCUMENTS.decode(document)
        except ValueError:
            return _text(data)


class _NullInteger:
    """Null for a parameter that is declared as an integer."""


class _NullNumber:
    """Null for a parameter that is declared as a number."""


class _NullBoolean:
    """Null for a parameter that is declared as a boolean."""


# The type that psycopg gives a small value of this kind: PostgreSQL casts int2 to every other number by itself.
_NULLS: Final = (
    ("integer", _NullInteger, 21),
    ("number", _NullNumber, 701),
    ("boolean", _NullBoolean, 16),
)
_TYPED_NULLS: Final = {kind: null() for kind, null, _ in _NULLS}


def values_of(statement: Statement) -> tuple[object, ...]:
    """The parameters as they are sent: null has the type of its declaration, where there is one."""
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
    """psycopg's own, with our readings in front."""
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
    ours.register_loader(0, _TextCell)  # what no oid is registered for
    return ours


class RowReader:
    """The rows of one result, cell by cell: nothing is parsed that is far over what is given of a cell."""

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
        )  # bytes, as the server wrote them

    def rows(self) -> Iterator[list[object]]:
        """A value is psycopg's, or text where it is too long to be more than the beginning of a text."""
        for row in self._raw:
            yield [None if raw is None else self._value(index, raw) for index, raw in enumerate(row)]

    def _value(self, index: int, raw: bytes) -> object:
        if len(raw) <= self._longest:
            return self._loads[index](raw)
        if self._oids[index] == _BYTEA:
            return self._loads[index](raw[: _HEX + self._longest // 2 * 2])
        return _text(raw[: self._longest])


def _text(data: Buffer) -> str:
    """A database in SQL_ASCII holds any bytes: what is not UTF-8 is replaced."""
    return bytes(data).decode("utf-8", "replace")
