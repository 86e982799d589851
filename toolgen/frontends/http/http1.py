"""Parser of HTTP/1.1 requests in the bytes of one connection (RFC 9112), without I/O. An ambiguous request is refused.

A proxy in front of the gateway has parsed the same bytes before. If two parsers could differ about the end of a request or its headers, one
of them could see a request that the other never saw. So nothing is corrected or guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from types import MappingProxyType
from typing import TypeAlias

import msgspec

__all__ = ["MAX_HEAD_SIZE", "BadRequest", "Event", "Header", "Marker", "RequestHead", "RequestReader", "read_head"]

MAX_HEAD_SIZE = 65_536
MAX_KEPT_HEAD_SIZE = 4_096
"""Maximum head that a connection stores to compare the next one with it."""
MAX_FIELDS = 128
MAX_TRAILER_SIZE = 8_192

Header: TypeAlias = tuple[bytes, bytes]

_CRLF = b"\r\n"
_NO_CONTROLS = bytes((*b"\t\r\n", *range(0x20, 0x7F), *range(0x80, 0x100)))
_TOKEN = b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_METHOD = rb"(?!CONNECT )[A-Z]{1,32}"  # any letters: the application answers 405 for methods that it does not support
_REQUEST_LINE = re.compile(rb"(" + _METHOD + rb") ([\x21\x22\x24-\x7e]+) HTTP/(1\.[01])")
_ABSOLUTE = re.compile(rb"(https?)://([^/?]+)(/[^?]*)?(\?.*)?", re.IGNORECASE)
_LENGTH = re.compile(rb"0|[1-9][0-9]{0,14}")
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,8})\r\n")
_PART_OF_SIZE = re.compile(rb"(?:[0-9A-Fa-f]{1,8}\r?)?")
_PORTS = {b"http": b"80", b"https": b"443"}
_KNOWN_NAMES = MappingProxyType(
    {
        spelt: name
        for name in (
            b"accept", b"accept-encoding", b"accept-language", b"authorization", b"cache-control", b"connection", b"content-length",
            b"content-type", b"cookie", b"expect", b"forwarded", b"host", b"idempotency-key", b"mcp-method", b"mcp-name",
            b"mcp-protocol-version", b"mcp-session-id", b"origin", b"traceparent", b"tracestate", b"transfer-encoding", b"user-agent",
            b"x-conversation-id", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-on-behalf-of", b"x-real-ip",
            b"x-toolset",
        )
        for spelt in (name, name.title())
    }
)  # fmt: skip
"""Common spellings of names, with their lower case: a look-up costs a third of parsing one."""


class BadRequest(Exception):  # noqa: N818 - an error of the request
    """Bytes that are not a request, or ambiguous. The text is a fixed sentence for the client."""


class Marker(Enum):
    """Parser event without bytes."""

    END = auto()  # end of a request
    MORE = auto()  # more data is needed


class RequestHead(msgspec.Struct, frozen=True, kw_only=True):
    """Request line and headers, names in lower case.

    `path` is unchanged from the request. `lines` are all headers in order, `headers` the first of each name, and `repeated` the names that
    occur more than once. `length` is the length of the body; None for a chunked body.
    """

    method: str
    path: str
    query: bytes
    version: str
    lines: Sequence[Header]
    headers: Mapping[bytes, bytes]
    repeated: frozenset[bytes]
    length: int | None
    keep_alive: bool
    expects_continue: bool


Event: TypeAlias = RequestHead | bytes | Marker
"""Event of the parser: a head, a part of its body, or a marker."""


class RequestReader:
    """Parses one request after another, until one is the last (RFC 9112, section 9.6); later data is ignored. After a `BadRequest` parsing
    stops, because the start of the next request is unknown. `unread` is received data that is not parsed yet."""

    __slots__ = ("_blank", "_chunks", "_earlier", "_in_body", "_last", "_left", "unread")

    def __init__(self) -> None:
        self.unread = b""
        self._in_body = False
        self._left = 0  # remaining bytes of a body with a content length
        self._chunks: _Chunked | None = None
        self._blank = False
        self._last = False
        self._earlier: tuple[bytes, RequestHead] | None = None  # a client usually repeats its head

    def feed(self, data: bytes) -> None:
        """Add received data."""
        if self._last and not self._in_body:
            return
        self.unread = self.unread + data if self.unread else data

    def next(self) -> Event:
        """Return the next parser event. Raises `BadRequest`."""
        if not self._in_body:
            return Marker.MORE if self._last else self._head()
        if self._chunks is not None:
            piece, self.unread = self._chunks.take(self.unread)
            done = self._chunks.done
        else:
            piece, self.unread = self.unread[: self._left], self.unread[self._left :]
            self._left -= len(piece)
            done = self._left == 0
        if piece:
            return piece
        if not done:
            return Marker.MORE
        self._in_body, self._chunks = False, None
        if self._last:
            self.unread = b""
        return Marker.END

    def whole(self) -> bytes | None:
        """Return the whole body after a head, if its length is known and all of it was received; then the request is complete."""
        left = self._left
        if self._chunks is not None or len(self.unread) < left:
            return None
        body, self.unread = self.unread[:left], b"" if self._last else self.unread[left:]
        self._in_body, self._left = False, 0
        return body

    def _head(self) -> RequestHead | Marker:
        # One empty line before a request is the rest of the previous one (RFC 9112, section 2.2).
        if not self._blank and self.unread.startswith(_CRLF):
            self.unread, self._blank = self.unread[2:], True
        end = self.unread.find(b"\r\n\r\n")
        if max(end, 0) > MAX_HEAD_SIZE or (end < 0 and len(self.unread) > MAX_HEAD_SIZE):
            raise BadRequest(f"the request's headers have more than {MAX_HEAD_SIZE} bytes")
        if end < 0:
            _check_beginning(self.unread)
            return Marker.MORE
        written = self.unread[:end]
        if (earlier := self._earlier) is not None and earlier[0] == written:
            head = earlier[1]
        else:
            head = read_head(written)
            self._earlier = (written, head) if end <= MAX_KEPT_HEAD_SIZE else None
        self.unread, self._blank = self.unread[end + 4 :], False
        self._last = not head.keep_alive
        self._in_body = True
        if head.length is None:
            self._chunks = _Chunked()
        else:
            self._left = head.length
        return head


class _Chunked:
    """Chunked body (RFC 9112, section 7.1), without extensions: they are not used, and parsers differ about where they end. Trailer fields
    are parsed and dropped, because a proxy that checked the headers did not check them."""

    __slots__ = ("_at_trailer", "_behind_data", "_fields", "_left", "_trailer", "done")

    def __init__(self) -> None:
        self._left = 0  # remaining bytes of the current chunk
        self._behind_data = False
        self._at_trailer = False
        self._trailer = 0
        self._fields = 0
        self.done = False

    def take(self, data: bytes) -> tuple[bytes, bytes]:
        pieces, at = list[bytes](), 0
        while not self._at_trailer:
            if self._left:
                pieces.append(data[at : at + self._left])
                at += len(pieces[-1])
                self._left -= len(pieces[-1])
                if self._left:
                    return b"".join(pieces), b""
                self._behind_data = True
            if self._behind_data:
                behind = data[at : at + 2]
                if behind != _CRLF:
                    if not _CRLF.startswith(behind):
                        raise BadRequest("a chunk of the body is longer than its stated size")
                    break
                at += 2
                self._behind_data = False
            size = _SIZE.match(data, at)
            if size is None:
                if not _PART_OF_SIZE.fullmatch(data, at):
                    raise BadRequest("a chunk of the body has no plain size")
                break
            at = size.end()
            self._left = int(size[1], 16)
            self._at_trailer = self._left == 0
        if self._at_trailer:
            at = self._drop_trailer(data, at)
        return b"".join(pieces), data[at:]

    def _drop_trailer(self, data: bytes, at: int) -> int:
        while not self.done:
            end = data.find(_CRLF, at)
            line = data[at:] if end < 0 else data[at:end]
            if self._trailer + len(line) > MAX_TRAILER_SIZE or self._fields > MAX_FIELDS:
                raise BadRequest(f"the trailer has more than {MAX_TRAILER_SIZE} bytes or {MAX_FIELDS} fields")
            if end < 0:
                _check_text(line.removesuffix(b"\r"))
                break
            at = end + 2
            self._trailer += len(line) + 2
            self._fields += 1
            _check_text(line)
            if line:
                _read_fields([line])
            self.done = not line
        return at


def read_head(data: bytes) -> RequestHead:
    """Parse a request line and headers, without the empty line after them. Raises `BadRequest`."""
    lines = data.split(_CRLF)
    _check_text(data, len(lines) - 1)
    method, target, version = _read_request_line(lines[0])
    if len(lines) > MAX_FIELDS + 1:
        raise BadRequest(f"the request has more than {MAX_FIELDS} headers")
    fields = _read_fields(lines[1:])
    headers = dict(reversed(fields))
    repeated = _repeated(fields) if len(headers) != len(fields) else frozenset[bytes]()
    if b"host" in repeated or (b"host" not in headers and version == "1.1"):
        raise BadRequest("a request has exactly one Host header")
    path, query = _read_target(method, target, headers.get(b"host"))
    return RequestHead(
        method=method,
        path=path.decode("ascii"),
        query=query,
        version=version,
        lines=fields,
        headers=headers,
        repeated=repeated,
        length=_read_length(headers, repeated, version),
        keep_alive=version == "1.1" and (b"connection" not in headers or b"close" not in _options(fields)),
        expects_continue=version == "1.1"
        and b"expect" not in repeated
        and headers.get(b"expect", b"").lower() == b"100-continue",
    )


def _read_request_line(line: bytes) -> tuple[str, bytes, str]:
    found = _REQUEST_LINE.fullmatch(line)
    if found is None:
        raise BadRequest("the request line is not one of HTTP/1.1 or HTTP/1.0")
    return found[1].decode("ascii"), found[2], found[3].decode("ascii")


def _read_fields(lines: list[bytes]) -> list[Header]:
    fields: list[Header] = []
    for line in lines:
        spelt, colon, value = line.partition(b":")
        name = _KNOWN_NAMES.get(spelt)
        if name is None:
            if not spelt or spelt.translate(None, _TOKEN):  # a folded line begins with a space, and is refused
                colon = b""
            name = spelt.lower()
        if not colon:
            raise BadRequest("a header is not a name, a colon and a value on one line")
        fields.append((name, value.strip(b" \t")))
    return fields


def _repeated(fields: list[Header]) -> frozenset[bytes]:
    seen, twice = set[bytes](), set[bytes]()
    for name, _ in fields:
        (twice if name in seen else seen).add(name)
    return frozenset(twice)


def _options(fields: list[Header]) -> list[bytes]:
    """Return the options of the Connection headers in lower case (RFC 9110, section 7.6.1)."""
    said = b",".join(value for name, value in fields if name == b"connection")
    return [option.strip() for option in said.lower().split(b",")]


def _read_target(method: str, target: bytes, host: bytes | None) -> tuple[bytes, bytes]:
    """Return path and query. A target with its own host (RFC 9112, section 3.2.2) must have the host of the Host header."""
    if target.startswith(b"/") or (target == b"*" and method == "OPTIONS"):
        path, _, query = target.partition(b"?")
        return path, query
    found = _ABSOLUTE.fullmatch(target)
    if found is None:
        raise BadRequest("the request line names no path of this gateway")
    scheme = found[1].lower()
    if host is None or _authority(found[2], scheme) != _authority(host, scheme):
        raise BadRequest("the request line and the Host header name different hosts")
    return found[3] or b"/", (found[4] or b"?")[1:]


def _authority(text: bytes, scheme: bytes) -> bytes:
    port = b":" + _PORTS[scheme]
    return text.lower().removesuffix(port)


def _read_length(headers: dict[bytes, bytes], repeated: frozenset[bytes], version: str) -> int | None:
    """Return the length of the body; None for a chunked body (RFC 9112, section 6.3)."""
    length, coding = headers.get(b"content-length"), headers.get(b"transfer-encoding")
    if coding is not None:
        if b"transfer-encoding" in repeated or coding.lower() != b"chunked":
            raise BadRequest("Transfer-Encoding is taken as `chunked`, once, and as nothing else")
        if length is not None:
            raise BadRequest("Content-Length and Transfer-Encoding both say how long the body is")
        if version == "1.0":
            raise BadRequest("HTTP/1.0 has no Transfer-Encoding")
        return None
    if length is None:
        return 0
    if b"content-length" in repeated or not _LENGTH.fullmatch(length):
        raise BadRequest("Content-Length is taken as one plain number")
    return int(length)


def _check_text(data: bytes, lines: int = 0) -> None:
    """Refuse control characters, and line ends other than the expected number of CR LF."""
    if data.translate(None, _NO_CONTROLS) or not data.count(b"\r") == data.count(b"\n") == lines:
        raise BadRequest("the request contains a control character, or a line that does not end with CR LF")


def _check_beginning(data: bytes) -> None:
    """Refuse data that cannot become a request, so that no client waits for the rest."""
    whole = data.removesuffix(b"\r")
    _check_text(whole, whole.count(_CRLF))
    line, ended, _ = whole.partition(_CRLF)
    if ended:
        _read_request_line(line)
