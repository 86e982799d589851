"""HTTP/2 frames and header blocks (RFC 9113, RFC 7541) as a client writes them, and the parsing of what a server writes.

Requests use no dynamic table: each field is a literal that no intermediary may index, because a header may hold a credential.
"""

from __future__ import annotations

import logging
import re
import struct
from collections.abc import Iterable, Iterator

import msgspec
from hpack import Decoder
from hpack.exceptions import HPACKError

from toolgen.connectors.http.reply import BrokenError

__all__ = [
    "MAX_FRAME_SIZE",
    "MAX_HEADERS_SIZE",
    "PREFACE",
    "STREAM_WINDOW",
    "ErrorCode",
    "Flag",
    "Frame",
    "FrameReader",
    "HeaderReader",
    "Http2Setting",
    "Kind",
    "ProtocolViolation",
    "ReplyHead",
    "field",
    "frame",
    "headers_frames",
    "number",
    "request_fields",
    "unpadded",
]

# At DEBUG hpack logs the headers of answers, in which a server may repeat secrets that were sent to it.
logging.getLogger("hpack").setLevel(logging.INFO)

MAX_FRAME_SIZE = 16_384
"""Length of the longest payload that either side sends (RFC 9113, section 4.2)."""

MAX_HEADERS_SIZE = 131_072
"""Longest header block, encoded, and longest list of fields, decoded."""

STREAM_WINDOW = 262_144
"""Bytes of a body that a server may send before they are read."""

_CONNECTION_WINDOW = 1 << 24
_REMEMBERED = 256
_REMEMBERED_SIZE = 4096
_STATUS = re.compile(rb"[1-9][0-9][0-9]\Z")
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+\Z")
_VALUE = re.compile(rb"[^\x00\r\n]*\Z")
_LENGTH = re.compile(r"[0-9]{1,18}\Z")
# RFC 9113, section 8.2.2: headers about a connection of HTTP/1.1.
_FORBIDDEN = frozenset({b"connection", b"proxy-connection", b"keep-alive", b"transfer-encoding", b"upgrade"})
_FRAMES = frozenset({"content-encoding", "content-length"})
_INDEXED_METHODS = {"GET": b"\x82", "POST": b"\x83"}
_INDEXED_SCHEMES = {"http": b"\x86", "https": b"\x87"}


class Kind:
    """Types of frames (RFC 9113, section 6)."""

    DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)


class Flag:
    """Flags of frames. ACK and END_STREAM have the same value in different types."""

    ACK = END_STREAM = 0x1
    END_HEADERS = 0x4
    PADDED = 0x8
    PRIORITY = 0x20


class Http2Setting:
    """Settings of a connection (RFC 9113, section 6.5.2)."""

    HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, _MAX_FRAME, MAX_HEADER_LIST_SIZE = (
        range(1, 7)
    )


class ErrorCode:
    """Reasons for the end of a stream or a connection (RFC 9113, section 7)."""

    NO_ERROR, PROTOCOL_ERROR = 0, 1
    FLOW_CONTROL_ERROR = 3
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM, CANCEL, COMPRESSION_ERROR = 7, 8, 9
    ENHANCE_YOUR_CALM = 11


class ProtocolViolation(Exception):  # noqa: N818 - a violation by the server
    """Violation of the protocol that ends the connection, with its error code."""

    def __init__(self, code: int = ErrorCode.PROTOCOL_ERROR) -> None:
        super().__init__(code)
        self.code = code


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """Return a frame."""
    return struct.pack(">HBBBI", len(payload) >> 8, len(payload) & 0xFF, kind, flags, stream) + payload


def number(value: int) -> bytes:
    """Return four bytes, as of a window's increment or an error code."""
    return value.to_bytes(4, "big")


PREFACE = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    + frame(
        Kind.SETTINGS,
        0,
        0,
        b"".join(
            struct.pack(">HI", setting, value)
            for setting, value in (
                (Http2Setting.HEADER_TABLE_SIZE, 0),  # without a table, a header block does not depend on earlier ones
                (Http2Setting.ENABLE_PUSH, 0),
                (Http2Setting.INITIAL_WINDOW_SIZE, STREAM_WINDOW),
                (Http2Setting.MAX_HEADER_LIST_SIZE, MAX_HEADERS_SIZE),
            )
        ),
    )
    + frame(Kind.WINDOW_UPDATE, 0, 0, number(_CONNECTION_WINDOW - 65_535))
)
"""What a client sends first (RFC 9113, section 3.4)."""


class Frame(msgspec.Struct, frozen=True):
    """Received frame."""

    kind: int
    flags: int
    stream: int
    payload: bytes


class FrameReader:
    """Reader that splits the bytes of a connection into frames."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that are complete. Raises `ProtocolViolation` for a frame that is too long."""
        if self._rest:
            data = self._rest + data
        at, end = 0, len(data)
        while end - at >= 9:
            size = int.from_bytes(data[at : at + 3], "big")
            if size > MAX_FRAME_SIZE:
                raise ProtocolViolation(ErrorCode.FRAME_SIZE_ERROR)
            begins = at + 9
            if end - begins < size:
                break
            stream = int.from_bytes(data[at + 5 : begins], "big") & 0x7FFFFFFF
            yield Frame(data[at + 3], data[at + 4], stream, data[begins : begins + size])
            at = begins + size
        self._rest = data[at:]


def unpadded(received: Frame) -> bytes:
    """Return the payload of DATA or HEADERS without its padding and priority. Raises `ProtocolViolation`."""
    payload, flags = received.payload, received.flags
    if flags & Flag.PADDED:
        if not payload or payload[0] >= len(payload):
            raise ProtocolViolation
        payload = payload[1 : len(payload) - payload[0]]
    if received.kind == Kind.HEADERS and flags & Flag.PRIORITY:
        if len(payload) < 5:
            raise ProtocolViolation(ErrorCode.FRAME_SIZE_ERROR)
        payload = payload[5:]
    return payload


def _text(data: bytes) -> bytes:
    """Return a string of a header block (RFC 7541, section 5.2), not compressed."""
    size = len(data)
    if size < 127:
        return bytes((size,)) + data
    prefix, size = bytearray((127,)), size - 127
    while size >= 128:
        prefix.append(size & 0x7F | 0x80)
        size >>= 7
    prefix.append(size)
    return bytes(prefix) + data


def field(name: str, value: str) -> bytes:
    """Return a field of a header block as a literal that is never indexed (RFC 7541, section 6.2.3)."""
    return b"\x10" + _text(name.lower().encode("ascii")) + _text(value.strip(" \t").encode())


def request_fields(method: str, scheme: str, authority: str, target: str) -> bytes:
    """Return the pseudo-header fields of a request (RFC 9113, section 8.3.1). Their names are in the static table."""
    return b"".join(
        (
            _INDEXED_METHODS.get(method) or b"\x12" + _text(method.encode("ascii")),
            _INDEXED_SCHEMES[scheme],
            b"\x11",
            _text(authority.encode("ascii")),
            b"\x14",
            _text(target.encode("ascii")),
        )
    )


def headers_frames(stream: int, block: bytes, *, ends: bool) -> bytes:
    """Return the frames of a header block; `ends` says that no body follows."""
    flags = Flag.END_STREAM if ends else 0
    if len(block) <= MAX_FRAME_SIZE:
        return frame(Kind.HEADERS, flags | Flag.END_HEADERS, stream, block)
    parts = [block[at : at + MAX_FRAME_SIZE] for at in range(0, len(block), MAX_FRAME_SIZE)]
    return b"".join(
        (
            frame(Kind.HEADERS, flags, stream, parts[0]),
            *(frame(Kind.CONTINUATION, 0, stream, part) for part in parts[1:-1]),
            frame(Kind.CONTINUATION, Flag.END_HEADERS, stream, parts[-1]),
        )
    )


class ReplyHead(msgspec.Struct, frozen=True):
    """Head of a response: status (0 for trailers), and the headers as in `RawResponse`."""

    status: int
    headers: dict[str, str]
    length: int | None


class HeaderReader:
    """Decoder of the header blocks of a connection.

    A block without a dynamic table always has the same meaning, so such blocks are cached.
    """

    __slots__ = ("_decoder", "_known")

    def __init__(self) -> None:
        self._decoder = Decoder(max_header_list_size=MAX_HEADERS_SIZE)
        self._known: dict[bytes, ReplyHead] = {}

    def read(self, block: bytes) -> ReplyHead:
        """Return the head. Raises `ProtocolViolation` for a block that cannot be decoded, and `BrokenError` for one that is not a head."""
        table = self._decoder.header_table.dynamic_entries
        stateless = not table
        if stateless and (known := self._known.get(block)) is not None:
            return known
        try:
            fields = self._decoder.decode(block, raw=True)
        except (HPACKError, IndexError):
            raise ProtocolViolation(ErrorCode.COMPRESSION_ERROR) from None
        head = _head(fields)
        resizes = block[:1] and block[0] & 0xE0 == 0x20
        if stateless and not self._decoder.header_table.dynamic_entries and not resizes:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            if len(block) <= _REMEMBERED_SIZE:
                self._known[block] = head
        return head


def _head(fields: Iterable[tuple[bytes, bytes]]) -> ReplyHead:
    status: int | None = None
    headers: dict[str, str] = {}
    for name, value in fields:
        if name == b":status" and status is None and not headers and _STATUS.match(value):
            status = int(value)
            continue
        if _NAME.match(name) is None or _VALUE.match(value) is None or name in _FORBIDDEN:
            raise BrokenError
        key = name.decode("ascii")
        if value.isascii():
            if key not in headers:
                headers[key] = value.decode("ascii").strip(" \t")
            elif key in _FRAMES:
                raise BrokenError
        elif key in _FRAMES:
            raise BrokenError
    length = headers.get("content-length")
    if length is not None and not _LENGTH.match(length):
        raise BrokenError
    return ReplyHead(status or 0, headers, None if length is None else int(length))
