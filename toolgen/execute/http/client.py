"""One request and its answer over pyreqwest: nothing is added or followed, and how it ended is told exactly.

A client (`dial`) connects to one checked address. There is no proxy, no redirect and no cookie: nothing but what the caller gives is sent.

Content codings of an answer (RFC 9110, section 8.4.1), undone within a cap while the body still streams.

pyreqwest would undo them too, but of a gzip body in several members (RFC 1952, section 2.2) it gives the first, silent about the rest.
"""

from __future__ import annotations

import asyncio
import math
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from pyreqwest.client import Client
from pyreqwest.exceptions import PyreqwestError, RequestTimeoutError
from pyreqwest.request import StreamRequest
from pyreqwest.response import Response

from toolgen.execute.http.request_builder import Request

__all__ = [
    "ACCEPTED",
    "BEGINNING",
    "ORDINARY",
    "PLACES",
    "Body",
    "BrokenError",
    "Listener",
    "Reply",
    "TimedOutError",
    "UndecodableError",
    "UnsentError",
    "exchange",
]

ACCEPTED = "gzip, deflate"
"""What is asked for: the codings that the standard library undoes piece by piece without ever holding more than the cap."""

BEGINNING = 65_536
"""How many bytes are kept of a body that went on beyond its cap."""

_GZIP, _ZLIB, _RAW = 31, 15, -15
_MAX_MEMBERS = 1000
_OVERHEAD = 65_536


class UndecodableError(Exception):
    """The body is not in the coding that the answer says. `reason` follows "the body" and never repeats what the server sent."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Body:
    """Collects a body of at most `limit` bytes, of which it holds `size`; `full` says that it goes on beyond them."""

    __slots__ = ("_coding", "_inflate", "_limit", "_members", "_pieces", "_read", "_told", "full", "size")

    def __init__(self, coding: str, limit: int) -> None:
        coding = coding.strip().lower()
        if coding not in {"", "identity", "gzip", "x-gzip", "deflate"}:
            raise UndecodableError("is in a content coding that was not asked for")
        self._coding = "" if coding == "identity" else coding.removeprefix("x-")
        self._limit = limit
        self._inflate = None if not self._coding else zlib.decompressobj(_GZIP)
        self._members = 0
        self._pieces: list[bytes] = []
        self.size = self._read = self._told = 0
        self.full = False

    def feed(self, data: bytes) -> None:
        """Takes the next piece. What is beyond the cap is neither kept nor inflated. Raises `UndecodableError`."""
        if not self._coding:
            self._keep(data)
            return
        if not self._read and self._coding == "deflate":
            # It is the zlib format, and some servers send the bare one (RFC 9110, section 8.4.1.2): the first byte tells.
            self._inflate = zlib.decompressobj(_ZLIB if data[:1] and data[0] & 0x0F == 8 else _RAW)
        self._read += len(data)
        if self._read > 2 * self._limit + _OVERHEAD:
            raise UndecodableError("is larger encoded than it could be")  # empty blocks without end are no body
        try:
            self._inflated(data)
        except zlib.error:
            raise UndecodableError("is not in the content coding that it says") from None

    def news(self) -> bytes:
        """What was kept since this was last asked."""
        fresh = b"".join(self._pieces[self._told :])
        self._told = len(self._pieces)
        return fresh

    def so_far(self) -> bytes:
        """All that was kept of a body of which nothing more is read."""
        return b"".join(self._pieces)

    def end(self) -> bytes:
        """The whole body, or a beginning of one that goes on beyond `limit` bytes, because it is held for longer than it is read.

        Raises `UndecodableError` when it stops in the middle of its coding.
        """
        # An empty body has no coding to be in the middle of, whatever its header says.
        if self._inflate is not None and self._read and not self._inflate.eof and not self.full:
            raise UndecodableError("ends in the middle of its content coding")
        body = self.so_far()
        return body[:BEGINNING] if self.full else body

    def _keep(self, data: bytes) -> None:
        room = self._limit - self.size
        if len(data) > room:
            self.full = True
            data = data[:room]
        self.size += len(data)
        self._pieces.append(data)

    def _inflated(self, data: bytes) -> None:
        inflate = self._inflate
        while data and not self.full and inflate is not None:
            if inflate.eof:
                inflate = self._inflate = self._next_member()
            # One byte more than there is room for tells whether there is more.
            self._keep(inflate.decompress(data, self._limit - self.size + 1))
            data = inflate.unused_data if inflate.eof else inflate.unconsumed_tail

    def _next_member(self) -> zlib._Decompress:
        """gzip may be several files behind each other (RFC 1952, section 2.2)."""
        self._members += 1
        if self._coding != "gzip" or self._members > _MAX_MEMBERS:
            raise UndecodableError("goes on behind the end of its content coding")
        return zlib.decompressobj(_GZIP)


ORDINARY = 131_072
"""Bytes of a body, after decompression, from which on it takes a place."""

PLACES = 4
"""How many long answers of one source are read at once: the others wait, unread, at their servers, so that memory stays what it is."""

# What frames and routes a message is said here, by hyper and nowhere else.
_OWN = frozenset(
    {
        "host",
        "accept-encoding",
        "connection",
        "content-length",
        "transfer-encoding",
        "te",
        "trailer",
        "upgrade",
        "expect",
        "keep-alive",
        "proxy-connection",
    }
)
_FRAMING = frozenset({"content-encoding", "content-length", "transfer-encoding"})
_EXPECTS_BODY = frozenset({"POST", "PUT", "PATCH"})
# The first line of a body that nothing put behind it can make the first line of a request (RFC 9112, section 3): before its first
# space it has a character that is in no method.
_NO_METHOD = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]*[^!#$%&'*+.^_`|~0-9A-Za-z\s-]")
_MAX_KEPT_SIZE = 16_384
_MAX_DIGITS = 20
# pyreqwest calls every failure before the answer's head a ConnectError, also when the request was already on its way; what happened stands
# in the causes that hyper reports, so only this one of them counts as "nothing was sent".
_CONNECTING = "client error (Connect)"


class UnsentError(Exception):
    """No connection was made, so nothing was sent. `reason` is the system's word for it; `late` says that it was not refused but slow."""

    def __init__(self, reason: str, *, late: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.late = late


class BrokenError(Exception):
    """The connection ended, or what came is no answer, before there was a whole one. The request may have been carried out."""


class TimedOutError(Exception):
    """Nothing came for too long, or not the whole of it in time. The request may have been carried out."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Reply:
    """An answer. Of a header that came more than once the first counts; names are in lower case. `truncated`: the body goes on."""

    status: int
    headers: dict[str, str]
    body: bytes
    truncated: bool

    def __repr__(self) -> str:
        return f"Reply({self.status}, ***)"  # it may repeat what was sent in confidence


class Listener(Protocol):
    """Hears a body while it is read, for answers that may be whole before their body ends."""

    def wants(self, headers: Mapping[str, str]) -> bool:
        """Whether the body of an answer with these headers is to be heard."""

    def enough(self, data: bytes) -> bool:
        """Is given the next bytes; whether nothing further is wanted."""


async def exchange(
    client: Client,
    request: Request,
    limit: int,
    places: asyncio.Semaphore,
    until: float = math.inf,
    listener: Listener | None = None,
) -> Reply:
    """Sends a request once and reads its answer, at most `limit` bytes of body, before `until` (the loop's time).

    Raises `ValueError` for what HTTP cannot send, `UnsentError`, `BrokenError`, `TimedOutError` and `UndecodableError`. None of them holds
    the library's text about the request: that has the URL, and a URL may hold a credential. When it is cancelled, the library goes on
    waiting for the answer by itself, within the times of the client, and throws it away.
    """
    sending = _prepared(client, request, until, heard=listener is not None)
    try:
        async with sending as response:
            return await _read(response, request.method, limit, places, listener)
    except PyreqwestError as error:
        raise _ending(error) from None


def _prepared(client: Client, request: Request, until: float, *, heard: bool) -> StreamRequest:
    """Raises `ValueError` for a method, URL or header that would be read as something else."""
    builder = client.request(request.method, request.url).header("Accept-Encoding", ACCEPTED)
    if heard:
        builder = builder.streamed_read_buffer_limit(
            0
        )  # the library would wait for the beginning of the body to fill up
    for name, value in request.headers:
        if name.lower() in _OWN:
            raise ValueError("a header says what the connection says itself")
        builder = builder.header(name, value, is_sensitive=True)
    if request.body:
        builder = builder.body_bytes(request.body)
        if not _keeps(request.body):
            builder = builder.header("Connection", "close")
    elif request.body is not None or request.method in _EXPECTS_BODY:  # RFC 9110, section 8.6
        builder = builder.header("Content-Length", "0")
    if until < math.inf:
        left = max(0.0, until - asyncio.get_running_loop().time())
        builder = builder.timeout(timedelta(seconds=left))
    return builder.build_streamed()


def _keeps(body: bytes) -> bool:
    """Whether its connection may be used again.

    A server that answers before it has read a body may take what is left of it for the next request, or for its beginning, and answer
    somebody else's call with it. Nobody can tell from outside which server does. So what could be one is the last thing on a connection,
    as is what is too long to have left in one piece.
    """
    return (
        len(body) <= _MAX_KEPT_SIZE and b"\n" not in body and b"\r" not in body and _NO_METHOD.match(body) is not None
    )


async def _read(
    response: Response, method: str, limit: int, places: asyncio.Semaphore, listener: Listener | None
) -> Reply:
    headers = _headers(response)
    status = response.status
    coding = headers.get("transfer-encoding")
    # An upgrade nobody asked for, and what is framed twice or not as asked for (RFC 9112, sections 6.1 and 6.3), is no answer.
    if status < 200 or (coding is not None and (coding.strip().lower() != "chunked" or "content-length" in headers)):
        raise BrokenError
    if method == "HEAD":
        return Reply(status=status, headers=headers, body=b"", truncated=False)
    body = Body(headers.get("content-encoding", ""), limit)
    read_chunk = response.body_reader.read_chunk
    left = _length(headers)
    placed = False
    listener = listener if listener is not None and listener.wants(headers) else None
    try:
        # hyper holds an answer to its Content-Length, so the end of one that came whole need not be asked for.
        while left and not body.full and (chunk := await read_chunk()) is not None:
            data = chunk.to_bytes()
            left -= len(data)
            body.feed(data)
            if listener is not None and listener.enough(body.news()):
                return Reply(status=status, headers=headers, body=body.so_far(), truncated=False)
            if body.size > ORDINARY and not placed:
                placed = await places.acquire()
    finally:
        if placed:
            places.release()
    return Reply(status=status, headers=headers, body=body.end(), truncated=body.full)


def _length(headers: dict[str, str]) -> int:
    """How many bytes a body has on the wire; below zero, which counting down from leads to no end, where the answer does not say."""
    said = headers.get("content-length", "")
    return int(said) if len(said) < _MAX_DIGITS and said.isascii() and said.isdigit() else -1


def _headers(response: Response) -> dict[str, str]:
    """Those that can be read: hyper takes bytes beyond ASCII for a value, and the library has no text for them."""
    found = response.headers
    try:
        pairs: list[tuple[str, str | None]] = list(found.items())
    except ValueError:
        pairs = [(name, _text(response, name)) for name in found]
    headers: dict[str, str] = {}
    for name, text in pairs:
        if name in _FRAMING and (name in headers or text is None):
            raise BrokenError
        if text is not None:
            headers.setdefault(name, text)
    return headers


def _text(response: Response, name: str) -> str | None:
    try:
        return response.get_header(name)
    except ValueError:
        return None


def _ending(error: PyreqwestError) -> Exception:
    details = getattr(error, "details", None)
    causes = details.get("causes") if isinstance(details, dict) else None
    said = [str(cause.get("message", "")) for cause in causes or ()]
    late = isinstance(error, RequestTimeoutError)
    if _CONNECTING in said:
        # The innermost cause ("Connection refused") is the system's or the TLS library's, and never holds the URL.
        reason = said[-1] if "://" not in said[-1] else ""
        return UnsentError("" if late else reason, late=late)
    if isinstance(error, ValueError):
        return ValueError("the request cannot be built")
    return TimedOutError() if late else BrokenError()
