"""Response head and body. The head is checked against the grammar (RFC 9112), because a message that two parsers could frame differently is
refused. The body's content coding (RFC 9110, section 8.4.1) is decoded within a size limit while it streams."""

from __future__ import annotations

import re
import zlib

import msgspec

from toolgen.connectors.http.reply import BrokenError, Sink

__all__ = [
    "ACCEPTED",
    "BEGINNING",
    "PORTION",
    "BodyReader",
    "ResponseHead",
    "UndecodableError",
    "could_begin",
    "pass_on",
    "read_head",
]

ACCEPTED = "gzip, deflate"
"""Requested content codings: those that the standard library decodes in parts without exceeding the limit."""

BEGINNING = 65_536
"""Number of bytes that are kept of a body that exceeds its limit."""

PORTION = 262_144
"""Maximum number of buffered bytes of a body that is read in parts."""

_GZIP, _ZLIB, _RAW = 31, 15, -15
_MAX_MEMBERS = 1000
_OVERHEAD = 65_536
_BEGINS = b"HTTP/1."
_HEAD = re.compile(
    rb"HTTP/1\.[01] [1-9][0-9][0-9](?: [\t\x20-\x7e\x80-\xff]*)?\r\n"
    rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*\r\n)*\r\n"
)
_FIELD = re.compile(rb"\r\n([^:\r\n]+):[\t ]*([^\r\n]*?)[\t ]*(?=\r\n)")
_BARE_LF = re.compile(rb"(?<!\r)\n")
_LENGTH = re.compile(r"[0-9]{1,18}\Z")
_CLOSE = re.compile(r"(?:^|,)[\t ]*close[\t ]*(?:,|$)", re.IGNORECASE)
_FRAMES = frozenset({"content-encoding", "content-length", "transfer-encoding"})
_BODILESS = frozenset({204, 304})


class UndecodableError(Exception):
    """Raised if the body is not valid in its declared coding. `reason` follows "the body" and never repeats data of the server."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class BodyReader:
    """Reader that collects a body of at most `limit` bytes, of which `size` were received; `full` is True if there are more.

    With a `portion`, the body can be taken in parts: with more than so many bytes in the buffer, it is `paused` and decodes nothing until
    they are taken or `collect` is called to read the whole body.
    """

    __slots__ = (
        "_coding",
        "_held",
        "_inflate",
        "_left",
        "_limit",
        "_members",
        "_pieces",
        "_portion",
        "_read",
        "_told",
        "full",
        "size",
    )

    def __init__(self, coding: str, limit: int, portion: int | None = None) -> None:
        coding = coding.strip().lower()
        if coding not in {"", "identity", "gzip", "x-gzip", "deflate"}:
            raise UndecodableError("has a content coding that was not requested")
        self._coding = "" if coding == "identity" else coding.removeprefix("x-")
        self._limit = limit
        self._inflate = None if not self._coding else zlib.decompressobj(_GZIP)
        self._members = 0
        self._pieces: list[bytes] = []
        self._portion = portion
        self._left: bytes | None = None  # encoded, and not decoded yet
        self.size = self._read = self._told = self._held = 0
        self.full = False

    def feed(self, data: bytes) -> None:
        """Add the next part. Data beyond the limit is neither stored nor decoded. Raises `UndecodableError`."""
        if not self._coding:
            self._keep(data)
            return
        if not self._read and self._coding == "deflate":
            # The zlib format; some servers send raw deflate (RFC 9110, section 8.4.1.2): the first byte shows which.
            self._inflate = zlib.decompressobj(_ZLIB if data[:1] and data[0] & 0x0F == 8 else _RAW)
        self._read += len(data)
        if self._read > 2 * self._limit + _OVERHEAD:
            raise UndecodableError(
                "is larger encoded than it could be"
            )  # an endless sequence of empty blocks is refused
        self._decode(data if self._left is None else self._left + data)

    @property
    def paused(self) -> bool:
        """Return True if more data than one portion is buffered or still encoded."""
        return self._portion is not None and (self._held > self._portion or self._left is not None)

    def stream(self, limit: int) -> None:
        """Take the body in parts from now on, up to `limit` bytes."""
        self._limit = limit
        self._portion = PORTION

    def collect(self) -> None:
        """Read the body as a whole from now on, like without a portion. Raises `UndecodableError`."""
        self._portion = None
        if self.size > self._limit:
            self.full = True
            self.size = self._limit
            self._pieces = [b"".join(self._pieces)[: self._limit]]
        elif self._left is not None:
            self._decode(self._left)

    def take(self) -> bytes:
        """Return and release the buffered bytes, then decode more. Raises `UndecodableError`."""
        part = b"".join(self._pieces)
        self._pieces.clear()
        self._held = self._told = 0
        if self._left is not None:
            self._decode(self._left)
        return part

    def news(self) -> bytes:
        """Return the data that was read since the last call."""
        fresh = b"".join(self._pieces[self._told :])
        self._told = len(self._pieces)
        return fresh

    def so_far(self) -> bytes:
        """Return everything that was stored of a body that is not read further."""
        return b"".join(self._pieces)

    def end(self) -> bytes:
        """Return the whole body; of a body longer than `limit` bytes only the first `BEGINNING`, because the result stays in memory.

        Raises `UndecodableError` if the body ends within its coding.
        """
        # An empty body cannot end within a content coding, even if a header names one.
        if self._inflate is not None and self._read and not self._inflate.eof and not self.full:
            raise UndecodableError("ends in the middle of its content coding")
        body = b"".join(self._pieces)
        return body[:BEGINNING] if self.full else body

    def _keep(self, data: bytes) -> None:
        if self._portion is None:
            room = self._limit - self.size
            if len(data) > room:
                self.full = True
                data = data[:room]
        else:
            self._held += len(data)
        self.size += len(data)
        self._pieces.append(data)

    def _decode(self, data: bytes) -> None:
        self._left = None
        try:
            self._inflated(data)
        except zlib.error:
            raise UndecodableError("is not valid in its declared content coding") from None

    def _inflated(self, data: bytes) -> None:
        inflate, more = self._inflate, False
        while (data or more) and not self.full and inflate is not None:
            if self._portion is not None and self._held > self._portion:
                self._left = data
                return
            if inflate.eof:
                inflate = self._inflate = self._next_member()
            # One byte more than the limit shows that there is more.
            room = (self._limit - self.size if self._portion is None else self._portion - self._held) + 1
            piece = inflate.decompress(data, room)
            self._keep(piece)
            data = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
            more = len(piece) == room and not inflate.eof  # it may return more than requested

    def _next_member(self) -> zlib._Decompress:
        """Continue with the next gzip member: there may be several (RFC 1952, section 2.2)."""
        self._members += 1
        if self._coding != "gzip" or self._members > _MAX_MEMBERS:
            raise UndecodableError("continues after the end of its content coding")
        return zlib.decompressobj(_GZIP)


async def pass_on(body: BodyReader, sink: Sink) -> bool:
    """Pass the buffered body to a sink. Return True if it wants more. Raises `UndecodableError`."""
    while body.paused:
        if not await sink.write(body.take()):
            return False
    return True


class ResponseHead(msgspec.Struct, frozen=True, kw_only=True):
    """Response head. Header names are in lower case, and the first value of a repeated header counts.

    `length` is the length of the body if the head gives it, `until_closed` is True if only the end of the connection ends the body,
    `bodiless` if there is no body, and `close` if the server closes the connection.
    """

    status: int
    headers: dict[str, str]
    length: int | None
    until_closed: bool
    bodiless: bool
    close: bool


def read_head(head: bytes) -> ResponseHead | None:
    """Parse a head; None for an interim response (RFC 9110, section 15.2). Raises `BrokenError` for an invalid head, or an ambiguous
    framing of the body."""
    if _HEAD.fullmatch(head) is None:
        raise BrokenError
    status = int(head[9:12])
    if status < 200:
        if status == 101:  # an upgrade that was not requested
            raise BrokenError
        return None
    close = old = head[7:8] == b"0"
    headers: dict[str, str] = {}
    for raw, value in _FIELD.findall(head):
        name = raw.decode("ascii").lower()
        if value.isascii():
            text = value.decode("ascii")
            if name in headers:
                if name in _FRAMES:
                    raise BrokenError
            else:
                headers[name] = text
            if name == "connection" and _CLOSE.search(text):
                close = True
        elif name in _FRAMES:
            raise BrokenError
    length, coding = headers.get("content-length"), headers.get("transfer-encoding")
    # RFC 9112, sections 6.1 and 6.3: implementations differ about chunks with a length, or in HTTP/1.0, and about any other coding.
    if coding is not None and (old or length is not None or coding.lower() != "chunked"):
        raise BrokenError
    if length is not None and not _LENGTH.match(length):
        raise BrokenError
    bodiless = status in _BODILESS
    return ResponseHead(
        status=status,
        headers=headers,
        length=None if length is None else int(length),
        until_closed=not bodiless and length is None and coding is None,
        bodiless=bodiless,
        close=close,
    )


def could_begin(data: bytes | bytearray, seen: int) -> bool:
    """Return True if the data can be the beginning of a head. The first `seen` bytes were checked before."""
    return data[: len(_BEGINS)] == _BEGINS[: len(data)] and not _BARE_LF.search(data, max(0, seen - 1))
