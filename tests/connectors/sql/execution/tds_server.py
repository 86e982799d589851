"""Server of TDS that plays answers back: its messages are made of the bytes that MS-TDS describes. It knows no SQL, and is no SQL Server.

https://learn.microsoft.com/en-us/openspecs/windows_protocols/ms-tds; numbers are its sections.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from toolgen.connectors.sql.execution.tsql import RIGHTS

__all__ = [
    "Asked",
    "Handler",
    "TdsServer",
    "column",
    "columns",
    "done",
    "error",
    "message",
    "nvarchar",
    "result",
    "row",
    "served",
]

_HEADER: Final = struct.Struct(">BBHHBB")
_COLLATION: Final = bytes.fromhex("0904D00034")  # of the examples
BATCH, RPC, ATTENTION, LOGIN, PRELOGIN, ANSWER = 0x01, 0x03, 0x06, 0x10, 0x12, 0x04
OFF, ON, NOT_SUPPORTED, REQUIRED = range(4)
_SP_EXECUTESQL: Final = 10  # 2.2.6.6


@dataclass
class Asked:
    """Request of a client: the text of a batch or of `sp_executesql`, or the name of another procedure, and the values beside it."""

    sql: str
    values: list[object] = field(default_factory=list)
    declared: str = ""
    batch: bool = False


Handler = Callable[[Asked], bytes | None]
"""Returns the tokens of an answer; None for no answer until an attention; raises `ConnectionError` to cut the connection."""


def text(value: str) -> bytes:
    return value.encode("utf-16-le")


def short_text(value: str) -> bytes:
    return bytes([len(value)]) + text(value)


def message(tokens: bytes, size: int = 4096, *, last: bool = True) -> bytes:
    """Packets of an answer: 2.2.3.1."""
    parts = [tokens[start : start + size - 8] for start in range(0, len(tokens), size - 8)] or [b""]
    return b"".join(
        _HEADER.pack(ANSWER, int(last and part is parts[-1] and place == len(parts) - 1), len(part) + 8, 52, 1, 0)
        + part
        for place, part in enumerate(parts)
    )


def done(token: int = 0xFD, status: int = 0, count: int = 0) -> bytes:
    """DONE, DONEPROC (FE) and DONEINPROC (FF): 2.2.7.6. Status 1 more, 2 error, 10 count, 20 attention."""
    return struct.pack("<BHHQ", token, status, 0xC1, count)


def error(number: int, words: str, level: int = 16) -> bytes:
    """ERROR: 2.2.7.10."""
    body = struct.pack("<iBB", number, 1, level) + struct.pack("<H", len(words)) + text(words)
    body += short_text("SERVER") + short_text("") + struct.pack("<i", 1)
    return b"\xaa" + struct.pack("<H", len(body)) + body


def environment(kind: int, new: bytes, old: bytes) -> bytes:
    """ENVCHANGE: 2.2.7.9."""
    body = bytes([kind]) + new + old
    return b"\xe3" + struct.pack("<H", len(body)) + body


def column(name: str, kind: bytes, flags: int = 9) -> bytes:
    """Column of COLMETADATA: 2.2.7.4, with its TYPE_INFO."""
    return struct.pack("<IH", 0, flags) + kind + short_text(name)


def columns(*described: bytes) -> bytes:
    return b"\x81" + struct.pack("<H", len(described)) + b"".join(described)


def row(*values: bytes) -> bytes:
    return b"\xd1" + b"".join(values)


NVARCHAR: Final = b"\xe7" + struct.pack("<H", 8000) + _COLLATION
NVARCHAR_MAX: Final = b"\xe7" + struct.pack("<H", 0xFFFF) + _COLLATION
BIGINT: Final = b"\x26\x08"
FLOAT: Final = b"\x6d\x08"
BIT: Final = b"\x68\x01"
DECIMAL: Final = b"\x6a\x11\x26\x04"  # decimal(38, 4)


def nvarchar(value: str | None) -> bytes:
    return b"\xff\xff" if value is None else struct.pack("<H", len(text(value))) + text(value)


def result(names: Sequence[str], rows: Sequence[Sequence[object]]) -> bytes:
    """Answer of `sp_executesql` with rows, each column of the type of its first value: COLMETADATA, rows, DONEINPROC, status, DONEPROC."""
    kinds = [next((one[place] for one in rows if one[place] is not None), "") for place in range(len(names))]
    described = columns(*(column(name, _kind(kind)) for name, kind in zip(names, kinds, strict=True)))
    body = b"".join(row(*(_cell(value, kind) for value, kind in zip(one, kinds, strict=True))) for one in rows)
    return described + body + ended(len(rows))


def ended(count: int) -> bytes:
    return done(0xFF, 0x11, count) + b"\x79" + bytes(4) + done(0xFE)


def _kind(value: object) -> bytes:
    match value:
        case bool():
            return BIT
        case int():
            return BIGINT
        case float():
            return FLOAT
        case Decimal():
            return DECIMAL
    return NVARCHAR


def _cell(value: object, kind: object) -> bytes:
    if value is None:
        return b"\xff\xff" if _kind(kind) == NVARCHAR else b"\0"
    match kind:
        case bool():
            return b"\x01" + bytes([bool(value)])
        case int():
            return b"\x08" + struct.pack("<q", value)
        case float():
            return b"\x08" + struct.pack("<d", value)
        case Decimal():
            scaled = int(Decimal(str(value)).scaleb(4))
            return b"\x11" + bytes([scaled >= 0]) + abs(scaled).to_bytes(16, "little")
    return nvarchar(str(value))


# Example 4.4 of MS-TDS, but the version of TDS, and its packet size.
LOGIN_ANSWER: Final = (
    environment(1, short_text("lab"), short_text("master"))
    + environment(7, b"\x05" + _COLLATION, b"\0")
    + environment(2, short_text("us_english"), b"\0")
    + environment(4, short_text("4096"), short_text("4096"))
    + b"\xad\x36\x00\x01"
    + bytes.fromhex("74000004")
    + short_text("Microsoft SQL Server\0\0")
    + bytes(4)
    + done()
)


class TdsServer:
    """Server on a port of loopback. `handler` answers what `answer_own` does not: settings, transactions and the question for rights."""

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.encryption = NOT_SUPPORTED
        self.context: ssl.SSLContext | None = None
        self.password = "secret"
        self.login_answer = LOGIN_ANSWER
        self.login_message = b""
        self.rights: list[list[object]] = []
        self.acknowledges = True
        self.deaf = False
        self.closing = threading.Event()
        self.batches: list[str] = []
        self.asked: list[Asked] = []
        self.logins: list[dict[str, str]] = []
        self.attentions = 0
        self.open = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._threads: list[threading.Thread] = []
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self.closing.set()
        for one in (self._listener, *self._sockets):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join(5)

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return
            self._sockets.append(accepted)
            thread = threading.Thread(target=self._serve, args=(accepted,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def _serve(self, accepted: socket.socket) -> None:
        self.open += 1
        with suppress(OSError, ssl.SSLError, ConnectionError):
            _Session(self, accepted).serve()
        accepted.close()
        self.open -= 1


class _Session:
    def __init__(self, server: TdsServer, accepted: socket.socket) -> None:
        self._server = server
        self._socket = accepted
        self._tls: ssl.SSLObject | None = None
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._transaction = 0

    def serve(self) -> None:
        kind, data = self._message()
        assert kind == PRELOGIN
        self._send(message(_prelogin(data, self._server.encryption)))
        if self._server.context is not None:
            self._handshake(self._server.context)
        kind, data = self._message()
        assert kind == LOGIN
        login = _login(data)
        self._server.logins.append(login)
        right = login["password"] == self._server.password
        refusal = error(18456, f"Login failed for user '{login['user']}'.", 14) + done(status=2)
        self._send(self._server.login_message or message(self._server.login_answer if right else refusal))
        while True:
            self._answer(*self._message())

    def _answer(self, kind: int, data: bytes) -> None:
        if kind == ATTENTION:
            self._server.attentions += 1
            if self._server.acknowledges:
                self._send(message(done(status=0x20)))
            return
        asked = _asked(kind, data)
        if asked.batch:
            self._server.batches.append(asked.sql)
            self._send(message(self._batch(asked.sql)))
            if self._server.deaf:  # reads nothing of the statement after the settings
                self._server.closing.wait()
            return
        if asked.sql == RIGHTS:
            self._send(message(result(["place", "permission"], self._server.rights)))
            return
        self._server.asked.append(asked)
        answer = self._server.handler(asked)
        if answer is not None:
            self._send(answer if answer[:1] == bytes([ANSWER]) else message(answer))

    def _batch(self, sql: str) -> bytes:
        """Begin or roll back a transaction, with the descriptor that later requests carry: 2.2.7.9, types 8 and 10."""
        if "BEGIN TRANSACTION" in sql:
            self._transaction += 1
            return environment(8, b"\x08" + struct.pack("<Q", self._transaction), b"\0") + done()
        if "ROLLBACK" in sql:
            return environment(10, b"\0", b"\x08" + struct.pack("<Q", self._transaction)) + done()
        return done()

    def _handshake(self, context: ssl.SSLContext) -> None:
        tls = context.wrap_bio(self._in, self._out, server_side=True)
        while True:
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                self._send_records()
                kind, data = self._message()
                assert kind == PRELOGIN
                self._in.write(data)
            else:
                self._send_records()
                self._tls = tls
                return

    def _send_records(self) -> None:
        if records := self._out.read():
            self._socket.sendall(_HEADER.pack(PRELOGIN, 1, len(records) + 8, 0, 1, 0) + records)

    def _send(self, data: bytes) -> None:
        if self._tls is not None:
            self._tls.write(data)
            data = self._out.read()
        self._socket.sendall(data)

    def _message(self) -> tuple[int, bytes]:
        data = b""
        while True:
            kind, status, length, *_ = _HEADER.unpack(self._exactly(8))
            data += self._exactly(length - 8)
            if status & 1:
                return kind, data

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            if self._tls is not None:
                try:
                    data += self._tls.read(size - len(data))
                    continue
                except ssl.SSLWantReadError:
                    pass
            part = self._socket.recv(65_536 if self._tls is not None else size - len(data))
            if not part:
                raise ConnectionError
            if self._tls is not None:
                self._in.write(part)
            else:
                data += part
        return data


def _prelogin(asked: bytes, encryption: int) -> bytes:
    """Version and encryption: 2.2.6.5. A server that encrypts answers a client that cannot with `required`."""
    place = asked.index(b"\x01") if asked[0] else 5
    _, offset, _ = struct.unpack_from(">BHH", asked, place)
    offered = asked[offset]
    answer = REQUIRED if encryption == ON and offered == NOT_SUPPORTED else encryption
    return struct.pack(">BHHBHHB", 0, 11, 6, 1, 17, 1, 0xFF) + bytes.fromhex("0C0007D00000") + bytes([answer])


def _login(data: bytes) -> dict[str, str]:
    """Names and password of LOGIN7: 2.2.6.4. Each byte of the password is XORed with A5 after its halves are exchanged."""
    found: dict[str, str] = {}
    for name, place in {"machine": 36, "user": 40, "password": 44, "program": 48, "server": 52, "database": 68}.items():
        offset, length = struct.unpack_from("<HH", data, place)
        part = data[offset : offset + 2 * length]
        if name == "password":
            part = bytes(((one ^ 0xA5) << 4 & 0xF0) | ((one ^ 0xA5) >> 4) for one in part)
        found[name] = part.decode("utf-16-le")
    found["hardware"] = data[72:78].hex()
    return found


def _asked(kind: int, data: bytes) -> Asked:
    start = struct.unpack_from("<I", data)[0]  # ALL_HEADERS: 2.2.5.3
    data = data[start:]
    if kind == BATCH:
        return Asked(sql=data.decode("utf-16-le"), batch=True)
    assert kind == RPC
    (length,) = struct.unpack_from("<H", data)
    if length == 0xFFFF:
        assert struct.unpack_from("<H", data, 2)[0] == _SP_EXECUTESQL
        name, place = "", 6
    else:
        name, place = data[2 : 2 + 2 * length].decode("utf-16-le"), 4 + 2 * length
    values = list(_parameters(data, place))
    if name:
        return Asked(sql=name, values=values)
    return Asked(sql=str(values[0]), declared=str(values[1]) if len(values) > 1 else "", values=values[2:])


def _parameters(data: bytes, place: int) -> Iterator[object]:
    """Values of an RPC request: 2.2.6.6."""
    while place < len(data):
        place += 2 + 2 * data[place]
        kind = data[place]
        place += 1
        match kind:
            case 0xE7:
                (most,) = struct.unpack_from("<H", data, place)
                place += 7
                value, place = _long(data, place) if most == 0xFFFF else _short(data, place)
            case 0x26 | 0x68 | 0x6D:
                length = data[place + 1]
                part = data[place + 2 : place + 2 + length]
                place += 2 + length
                value = _number(kind, part)
            case 0x6A | 0x6C:
                scale, length = data[place + 2], data[place + 3]
                part = data[place + 4 : place + 4 + length]
                place += 4 + length
                value = (1 if part[0] else -1) * int.from_bytes(part[1:], "little") * Decimal(10) ** -scale
            case _:
                raise AssertionError(f"type {kind:02X}")
        yield value


def _number(kind: int, part: bytes) -> object:
    if not part:
        return None
    if kind == 0x6D:
        return struct.unpack("<d", part)[0]
    return bool(part[0]) if kind == 0x68 else int.from_bytes(part, "little", signed=True)


def _short(data: bytes, place: int) -> tuple[str | None, int]:
    (length,) = struct.unpack_from("<H", data, place)
    if length == 0xFFFF:
        return None, place + 2
    return data[place + 2 : place + 2 + length].decode("utf-16-le"), place + 2 + length


def _long(data: bytes, place: int) -> tuple[str | None, int]:
    """Chunks of a value of unlimited length: 2.2.5.2.3."""
    place += 8
    found = b""
    while True:
        (length,) = struct.unpack_from("<I", data, place)
        place += 4
        if not length:
            return found.decode("utf-16-le"), place
        found += data[place : place + length]
        place += length


@contextmanager
def served(handler: Handler, **settings: Any) -> Iterator[TdsServer]:
    server = TdsServer(handler)
    for name, value in settings.items():
        setattr(server, name, value)
    try:
        yield server
    finally:
        server.close()
