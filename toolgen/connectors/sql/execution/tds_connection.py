"""Connection to SQL Server by python-tds, on a transport of ours: one login, batches of settings, and statements by `sp_executesql`.

The driver's own dialling, TLS, retries, redirections to other servers and formatting of parameters into texts are not used.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import ssl
from collections.abc import Iterator, Sequence
from datetime import UTC
from decimal import Decimal
from typing import Any, Final

from msgspec import Struct

from toolgen.connectors.sql.execution.session_pool import AnswerTooLargeError
from toolgen.connectors.sql.execution.tds_transport import TdsTransport
from toolgen.core.errors import ConfigError
from toolgen.model.database_url import ServerLocation
from toolgen.model.schema import Json

try:
    from pytds import tds_base, tds_types
    from pytds.tds_reader import _TdsReader
    from pytds.tds_socket import _TdsSocket
    from pytds.tds_writer import _TdsWriter
except ImportError as error:
    raise ConfigError(
        "the driver of SQL Server is not installed", suggestion='install it with: pip install "toolgen[mssql]"'
    ) from error

__all__ = ["BrokenConnectionError", "TdsColumn", "TdsConnection", "TdsServerError", "declared", "dial", "tls_context"]

# The driver logs statements and settings.
logging.getLogger("pytds").setLevel(logging.CRITICAL + 1)

_PACKET: Final = 4_096
_LARGEST_PACKET: Final = 32_767
_SHORT_ANSWER: Final = 1_000_000  # bytes that the server may send for a login, or a batch of settings
_SHORT_TEXT: Final = 4_000  # UTF-16 units of an nvarchar
_CANCELLED: Final = 0x20  # MS-TDS 2.2.7.6: DONE_ATTN
# MS-TDS 2.2.5.4: names of types by their numbers, and by the bytes of a value where a number has several.
_TYPES: Final = {
    0x1F: "null", 0x22: "image", 0x23: "text", 0x24: "uniqueidentifier", 0x28: "date", 0x29: "time", 0x2A: "datetime2",
    0x2B: "datetimeoffset", 0x30: "tinyint", 0x32: "bit", 0x34: "smallint", 0x38: "int", 0x3A: "smalldatetime", 0x3B: "real",
    0x3C: "money", 0x3D: "datetime", 0x3E: "float", 0x62: "sql_variant", 0x63: "ntext", 0x68: "bit", 0x6A: "decimal",
    0x6C: "decimal", 0x7A: "smallmoney", 0x7F: "bigint", 0xA5: "varbinary", 0xA7: "varchar", 0xAD: "binary", 0xAF: "char",
    0xE7: "nvarchar", 0xEF: "nchar", 0xF0: "udt", 0xF1: "xml",
}  # fmt: skip
_SIZED: Final = {
    (0x26, 1): "tinyint", (0x26, 2): "smallint", (0x26, 4): "int", (0x26, 8): "bigint", (0x6D, 4): "real", (0x6D, 8): "float",
    (0x6E, 4): "smallmoney", (0x6E, 8): "money", (0x6F, 4): "smalldatetime", (0x6F, 8): "datetime",
}  # fmt: skip


class TdsServerError(Exception):
    """Error that the server reported with a number. Its text is dropped, because it may quote the data."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class BrokenConnectionError(Exception):
    """Lost connection, or an answer that is not TDS."""


class TdsColumn(Struct, frozen=True):
    """Column of a result. `type` is the server's name of its type."""

    name: str
    type: str


class _StrictTdsReader(_TdsReader):  # type: ignore[misc]  # the driver has no types
    """Reader that ends with an error where a message ends within a value; the driver would wait for more of it for ever."""

    def recv(self, size: int) -> bytes:
        part: bytes = super().recv(size)
        if size and not part:
            raise tds_base.ClosedConnectionError
        return part


class _StrictTdsWriter(_TdsWriter):  # type: ignore[misc]  # as above
    """Writer whose packets have the sizes of TDS, whatever the server asks for."""

    @property
    def bufsize(self) -> int:
        return len(self._buf)

    @bufsize.setter
    def bufsize(self, size: int) -> None:
        if not 512 <= size <= _LARGEST_PACKET:
            raise tds_base.InterfaceError("invalid packet size")
        _TdsWriter.bufsize.fset(self, size)


def dial(address: str, location: ServerLocation) -> socket.socket:
    """Connect to an address. Raises `OSError`."""
    dialled = socket.create_connection((address, location.port), location.connect_timeout_s)
    dialled.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    dialled.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return dialled


def tls_context(location: ServerLocation) -> ssl.SSLContext | None:
    """Return the TLS settings of a location, or None for `sslmode=disable`. Raises `OSError` for a certificate that cannot be read.

    `prefer` encrypts always, as every server can. TLS 1.3 needs TDS 8, in which the handshake is not wrapped.
    """
    if location.sslmode == "disable":
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = location.sslmode == "verify-full"
    context.verify_mode = ssl.CERT_REQUIRED if location.sslmode.startswith("verify") else ssl.CERT_NONE
    files = location.certificates
    if context.verify_mode is ssl.CERT_REQUIRED:
        if "sslrootcert" in files:
            context.load_verify_locations(files["sslrootcert"])
        else:
            context.load_default_certs()
    if "sslcert" in files:
        context.load_cert_chain(files["sslcert"], files.get("sslkey"))
    return context


class TdsConnection:
    """Connection for one thread at a time. `cancel` may be called from another one."""

    def __init__(self, dialled: socket.socket, location: ServerLocation, context: ssl.SSLContext | None) -> None:
        self._transport = TdsTransport(dialled, context, location.host)
        self._location = location
        self._driver: Any = None
        self._cancelled = False
        self.acknowledged = False
        """True after the server reported that it stopped a cancelled statement."""

    def login(self, password: str) -> None:
        """Log in. Raises `TdsServerError` and `BrokenConnectionError`, as the other methods do."""
        self._transport.allow(_SHORT_ANSWER)
        with _exchange():
            driver = _TdsSocket(
                sock=self._transport,
                login=_login(self._location, password),
                row_strategy=lambda _names: list,
                autocommit=True,
            )
            session = driver.main_session
            session._reader = _StrictTdsReader(transport=self._transport, bufsize=_PACKET, tds_session=session)
            session._writer = _StrictTdsWriter(transport=self._transport, bufsize=_PACKET, tds_session=session)
            self._transport.settimeout(self._location.connect_timeout_s)
            routed = driver.login() is not None
            # A redirection would lead to an address that nobody checked.
            if routed or not tds_base.IS_TDS73_PLUS(session):
                raise BrokenConnectionError
            self._transport.settimeout(None)
        self._driver = driver

    def batch(self, sql: str) -> None:
        """Run statements of our own without rows."""
        self._transport.allow(_SHORT_ANSWER)
        with _exchange():
            session = self._driver.main_session
            session.submit_plain_query(sql)
            session.process_simple_request()

    def execute(self, sql: str, values: Sequence[Json], most: int) -> list[TdsColumn]:
        """Run one statement with parameters `@P1`, `@P2` and so on, and return its columns; none if it has no rows.

        The server may send `most` bytes until the next statement.
        """
        self._transport.allow(most)
        with _exchange():
            sent = [_parameter(value)[1] for value in values]
            given = [_text(sql), *([_text(declared(values)), *sent] if sent else [])]
            self._driver.main_session.callproc(tds_base.SP_EXECUTESQL, given)
            return self._columns()

    def call(self, procedure: str, texts: Sequence[str]) -> list[TdsColumn]:
        """Run a procedure of the server with texts as its parameters, and return its columns."""
        self._transport.allow(_SHORT_ANSWER)
        with _exchange():
            self._driver.main_session.callproc(procedure, [_text(text) for text in texts])
            return self._columns()

    def rows(self) -> Iterator[list[object]]:
        """Yield the rows of the result. A cancelled statement ends early."""
        session = self._driver.main_session
        while not self._cancelled:
            with _exchange():
                row = session.fetchone()
            if row is None:
                return
            yield row

    def end(self) -> bool:
        """Read the rest of the answer. Return True if it has another result, which no single query has."""
        with _exchange():
            if self._cancelled:
                self._drain()
                return False
            another = False
            while self._driver.main_session.next_set():
                another = True
            return another

    def stop(self) -> None:
        """Stop a statement whose rows are not needed any more, and wait for that."""
        with _exchange():
            self._driver.main_session.cancel_if_pending()

    def cancel(self) -> None:
        """Ask the server to stop the running statement, from another thread. Waits while the statement itself is being sent."""
        self._cancelled = True
        self._transport.attention()

    def close(self) -> None:
        self._transport.close()

    def _drain(self) -> None:
        """Read until the server reports that it stopped the statement, which it does also for one that had ended."""
        session = self._driver.main_session
        if not session.done_flags & _CANCELLED:
            session.in_cancel = True
            session.state = tds_base.TDS_PENDING
            session.process_cancel()
        self.acknowledged = bool(session.done_flags & _CANCELLED)

    def _columns(self) -> list[TdsColumn]:
        found = self._driver.main_session.res_info
        return [TdsColumn(column.column_name, _type_of(column)) for column in found.columns] if found else []


@contextlib.contextmanager
def _exchange() -> Iterator[None]:
    """Replace errors of the driver by ours, without their texts. A hostile answer can make it raise anything."""
    try:
        yield
    except (AnswerTooLargeError, BrokenConnectionError):
        raise
    except tds_base.DatabaseError as error:
        raise TdsServerError(error.number) from None
    except Exception:  # noqa: BLE001 - the boundary of the driver
        raise BrokenConnectionError from None


def _login(location: ServerLocation, password: str) -> Any:
    """Return the login of the driver. It tells the server neither the name of this machine nor its hardware address."""
    login = tds_base._TdsLogin()
    login.client_host_name = login.app_name = "toolgen"
    login.library = "python-tds"
    login.server_name = location.host
    login.user_name = location.user
    login.password = password
    login.database = location.database
    login.tds_version = tds_base.TDS74
    login.client_lcid = 1033
    login.client_tz = UTC
    login.pid = os.getpid()
    login.option_flag2 = tds_base.TDS_ODBC_ON
    login.enc_flag = tds_base.PreLoginEnc.ENCRYPT_NOT_SUP  # the transport encrypts
    login.bytes_to_unicode = True
    login.blocksize = _PACKET
    return login


def declared(values: Sequence[Json]) -> str:
    """Return the declaration of parameters for values: `@P1 bigint, @P2 nvarchar(4000)`."""
    return ", ".join(f"@P{place} {_parameter(value)[0]}" for place, value in enumerate(values, 1))


def _text(text: str) -> Any:
    short = len(text.encode("utf-16-le")) // 2 <= _SHORT_TEXT
    kind = tds_types.NVarCharType(size=_SHORT_TEXT) if short else tds_types.NVarCharMaxType()
    return tds_base.Param(type=kind, value=text)


def _parameter(value: Json) -> tuple[str, Any]:
    """Return the type of a value as it is declared, and the value for the driver. Raises `DataError` for a number without a type."""
    match value:
        case None | str():
            short = value is None or len(value.encode("utf-16-le")) // 2 <= _SHORT_TEXT
            kind = tds_types.NVarCharType(size=_SHORT_TEXT) if short else tds_types.NVarCharMaxType()
            return "nvarchar(4000)" if short else "nvarchar(max)", tds_base.Param(type=kind, value=value)
        case bool():
            return "bit", tds_base.Param(type=tds_types.BitType(), value=value)
        case int() if -(2**63) <= value < 2**63:
            return "bigint", tds_base.Param(type=tds_types.BigIntType(), value=value)
        case int() if abs(value) < 10**38:
            kind = tds_types.DecimalType(precision=38, scale=0)
            return "decimal(38, 0)", tds_base.Param(type=kind, value=Decimal(value))
        case float():
            return "float", tds_base.Param(type=tds_types.FloatType(), value=value)
    raise tds_base.DataError("a parameter has no type of SQL Server")


def _type_of(column: Any) -> str:
    kind, size = column.serializer.type, column.serializer.size
    return _SIZED.get((kind, size)) or _TYPES.get(kind, "")
