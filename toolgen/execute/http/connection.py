"""One connection to an upstream, and one exchange at a time on it: HTTP/1.1, parsed by llhttp at its strictest."""

from __future__ import annotations

import asyncio
import math
import re
from dataclasses import dataclass

import httptools

from toolgen.execute.http.coding import Body, UndecodableError
from toolgen.execute.http.places import ORDINARY, Places

__all__ = ["BrokenError", "Connection", "Reply", "TimedOutError", "Times"]

_LARGEST_HEAD = 131_072
_FRAMING = 8  # bytes of chunked coding for one of the body: more than the smallest chunks need
_BODILESS = frozenset({204, 304})
_KEEP_ALIVE = re.compile(r"(?:^|[,\s])timeout=(\d{1,6})(?![^\s,])", re.IGNORECASE)
_ON_THE_WAY_S = 1.0  # how much sooner than its server a resting connection is let go of


class BrokenError(Exception):
    """The connection ended, or what came is no answer, before there was a whole one. The request may have been carried out."""


class TimedOutError(Exception):
    """Nothing came for too long, or not the whole of it in time. The request may have been carried out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds: to connect, between two pieces of an answer (the first included), for all of it, and of rest before the end."""

    connect_s: float
    read_s: float
    total_s: float
    rest_s: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Reply:
    """An answer. Of a header that came more than once the first counts; names are in lower case. `truncated`: the body goes on."""

    status: int
    headers: dict[str, str]
    body: bytes
    truncated: bool

    def __repr__(self) -> str:
        return f"Reply({self.status}, ***)"  # it may repeat what was sent in confidence


class Connection(asyncio.Protocol):
    """Sends requests one after the other and reads their answers. `usable` says whether it can take another one.

    Whatever does not belong to the answer that is awaited (bytes behind it, or while nothing was asked) ends the connection, so that no
    answer can ever be taken for that of another request. A long answer takes one of the `places` of its origin, or waits for one.
    """

    def __init__(self, times: Times, places: Places) -> None:
        self._places = places
        self._placed: bool | None = None  # False while it waits for a place
        self._loop = asyncio.get_running_loop()
        self._times = times
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._waiter: asyncio.Future[Reply] | None = None
        self._heard = 0.0
        self._until = self._due = 0.0
        self._rest_s = times.rest_s
        self._begin(b"", b"", 0)

    def _begin(self, method: bytes, data: bytes, limit: int) -> None:
        """Forgets everything about the exchange before."""
        self._method = method
        self._with_body = data.find(b"\r\n\r\n") != len(data) - 4
        self._limit = limit
        self._parser = httptools.HttpResponseParser(self)
        self._received = 0
        self._carried = 0
        self._headed = False
        self._to_the_end = False
        self._headers: dict[str, str] = {}
        self._body: Body | None = None
        self._fault: Exception | None = None
        self._reply: Reply | None = None
        self._kept = False

    @property
    def usable(self) -> bool:
        """Whether the connection is open, idle, and has not rested for too long."""
        transport = self._transport
        if transport is None or transport.is_closing() or self._waiter is not None:
            return False
        return self._loop.time() - self._heard < self._rest_s

    async def exchange(self, method: bytes, data: bytes, limit: int, until: float = math.inf) -> Reply:
        """Sends the bytes of one request and returns its answer, with at most `limit` bytes of body, before `until` (the loop's time).

        Raises `BrokenError`, `TimedOutError` and `UndecodableError`; after any of them, or when it is cancelled, the connection is closed.
        """
        transport = self._transport
        if transport is None or self._waiter is not None:
            raise BrokenError
        self._begin(method, data, limit)
        now = self._loop.time()
        self._heard, self._until = now, min(until, now + self._times.total_s)
        waiter: asyncio.Future[Reply] = self._loop.create_future()
        self._waiter = waiter
        if self._timer is None:
            self._watch()
        elif self._until < self._due:  # whose limit only ever moved on, until now
            self._timer.cancel()
            self._watch()
        transport.write(data)
        try:
            return await waiter
        except BaseException:
            self.close()
            raise
        finally:
            self._waiter = None
            self._body = self._reply = (
                None  # the parser and this hold each other: what they have would stay until the collector comes
            )
            self._leave()

    def close(self) -> None:
        """Ends the connection at once."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        self._heard = self._loop.time()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._fail(BrokenError())
        self.close()

    def eof_received(self) -> None:
        """The end of an answer that has no length; of any other it is a break. Either way the transport closes itself."""
        if self._to_the_end and self._reply is None and self._fault is None:
            self._end(keep=False)
            self._settle()

    def data_received(self, data: bytes) -> None:
        if self._waiter is None or self._waiter.done():
            self.close()
            return
        self._heard = self._loop.time()
        self._received += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._kept = False
            if self._reply is None:
                self._fault = self._fault or BrokenError()
        # Heads, interim answers, extensions of chunks, trailers: nothing of it goes on for ever.
        if self._received - self._carried > _LARGEST_HEAD + _FRAMING * self._carried and self._reply is None:
            self._fault = BrokenError()
        body = self._body
        if (
            self._placed is None
            and body is not None
            and body.size > ORDINARY
            and self._reply is None
            and self._fault is None
        ):
            self._placed = self._places.take(self._go_on)
            if not self._placed and self._transport is not None:
                self._transport.pause_reading()
        self._settle()

    def _go_on(self) -> None:
        """There is a place now."""
        self._placed = True
        self._heard = self._loop.time()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def _leave(self) -> None:
        placed, self._placed = self._placed, None
        if placed:
            self._places.leave()
        elif placed is False:
            self._places.forget(self._go_on)

    # What llhttp says. An exception here would come out wrapped, so faults are kept until the piece has been read.

    def on_message_begin(self) -> None:
        if self._reply is not None:
            self._kept = False  # an answer to nothing stands behind it

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._headed:  # those behind a body are trailers, which nobody asked for
            self._headers.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            return  # on its way (RFC 9110, section 15.2); the answer itself follows
        self._headed = True
        if self._method == b"HEAD":
            # Its length is that of a body nobody sends, which the parser would wait for.
            self._end(keep=False)
            return
        headers = self._headers
        if "transfer-encoding" not in headers:
            self._to_the_end = "content-length" not in headers and status not in _BODILESS
        elif headers["transfer-encoding"].strip().lower() != "chunked":
            self._fault = BrokenError()
            return
        try:
            self._body = Body(headers.get("content-encoding", ""), self._limit)
        except UndecodableError as error:
            self._fault = error

    def on_body(self, data: bytes) -> None:
        self._carried += len(data)
        if self._reply is not None or self._fault is not None:
            return
        body = self._body
        if body is None:
            self._fault = BrokenError()
            return
        try:
            body.feed(data)
        except UndecodableError as error:
            self._fault = error
        else:
            if body.full:
                self._end(keep=False)

    def on_message_complete(self) -> None:
        if not self._headed:
            self._headers = {}  # of an interim answer
        elif self._reply is None and self._fault is None:
            self._end(keep=self._parser.should_keep_alive() and self._all_read())
            if (hint := self._headers.get("keep-alive")) is not None and (said := _KEEP_ALIVE.search(hint)) is not None:
                self._rest_s = min(self._times.rest_s, max(0.0, int(said[1]) - _ON_THE_WAY_S))

    def _all_read(self) -> bool:
        """Whether the server can be taken to have read the whole request. One that answers before it has may take what is left of
        the body for another request, whose answer the next call would be given (RFC 9112, section 9.3)."""
        if self._with_body and self._parser.get_status_code() >= 400:
            return False
        return self._transport is not None and self._transport.get_write_buffer_size() == 0

    def _end(self, *, keep: bool) -> None:
        """The answer is whole, or as much of it as is read. `keep` says whether the connection can be used again."""
        body = self._body
        try:
            content = b"" if body is None else body.end()
        except UndecodableError as error:
            self._fault = error
            return
        self._reply = Reply(
            status=self._parser.get_status_code(),
            headers=self._headers,
            body=content,
            truncated=body is not None and body.full,
        )
        self._kept = keep

    def _settle(self) -> None:
        """Tells whoever waits, once there is something to tell."""
        if self._fault is not None:
            self._fail(self._fault)
        elif self._reply is not None:
            if not self._kept:
                self.close()
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_result(self._reply)

    def _fail(self, error: Exception) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)
        self.close()

    def _watch(self) -> None:
        """Looks when the next limit could be reached. One timer serves many exchanges: what happens meanwhile only moves the limit on."""
        self._timer = None
        if self._transport is None:
            return
        now = self._loop.time()
        if self._waiter is None:
            due = self._heard + self._rest_s
            if now >= due:
                self.close()
                return
        else:
            if self._placed is False:
                self._heard = now  # it is we who keep the server waiting
            due = min(self._heard + self._times.read_s, self._until)
            if now >= due:
                self._fail(TimedOutError())
                return
        self._due = due
        self._timer = self._loop.call_at(due, self._watch)
