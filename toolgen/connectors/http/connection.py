"""HTTP/1.1 connection to an upstream (RFC 9112), with one exchange at a time. Parsed by llhttp; ambiguous messages are refused.

A message that two parsers could frame differently is how the response to one call becomes the response to another. So a head is checked
against the grammar before llhttp parses it, and any data that does not belong to the expected response ends the connection.
"""

from __future__ import annotations

import asyncio
import math
import re
import ssl
from collections.abc import AsyncIterator
from typing import cast

import httptools

from toolgen.connectors.http.connection_watch import ConnectionWatch
from toolgen.connectors.http.message import BodyReader, ResponseHead, UndecodableError, could_begin, pass_on, read_head
from toolgen.connectors.http.reply import BodyListener, BrokenError, RawResponse, Sink, TimedOutError, UnsentError
from toolgen.core.errors import StateError

__all__ = ["MAX_IDLE_S", "ORDINARY", "ClientConnection"]

ORDINARY = 131_072
"""Size of a body, after decompression, from which reading it needs one of its source's places."""

MAX_IDLE_S = 30.0
"""Maximum time that a connection may be idle between two requests."""

_MAX_HEADS_SIZE = 131_072
_FRAMING = 8  # maximum bytes of chunked coding per byte of body: more than the smallest chunks need
_ON_THE_WAY_S = 1.0  # seconds by which an idle connection is closed before the server does
_KEEP_ALIVE = re.compile(r"(?:^|[,\s])timeout=(\d{1,6})(?![^\s,])", re.IGNORECASE)

_PARSED = frozenset({"content-encoding", "keep-alive", "proxy-connection", "trailer", "transfer-encoding", "upgrade"})
"""Headers with which a parser reads the response, although its length is known."""


class ClientConnection(asyncio.Protocol):
    """HTTP/1.1 connection that sends requests one after another and reads their answers.

    `read_s` is the longest pause, in seconds, before and within an answer. `watch` is shared by the connections of a client.
    """

    __slots__ = (
        "_active",
        "_body",
        "_carried",
        "_complete",
        "_drained",
        "_due",
        "_head",
        "_heads_size",
        "_heard",
        "_idle_s",
        "_keep",
        "_limit",
        "_listener",
        "_loop",
        "_method",
        "_outcome",
        "_parser",
        "_pending",
        "_read_s",
        "_received",
        "_sink",
        "_step",
        "_streams",
        "_transport",
        "_turn",
        "_until",
        "_waiter",
        "_waits",
        "_watch",
    )

    def __init__(self, read_s: float, watch: ConnectionWatch) -> None:
        self._read_s = read_s
        self._watch = watch
        self._idle_s = MAX_IDLE_S
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._step: int | None = None  # key of the next check in the shared watch
        self._due = self._until = self._heard = 0.0
        self._waiter: asyncio.Future[None] | None = None
        self._active = False
        self._drained: asyncio.Future[None] | None = None  # set while the server does not read
        self._begin("", 0, None, None)

    def _begin(self, method: str, limit: int, listener: BodyListener | None, sink: Sink | None) -> None:
        """Reset the state of the former exchange."""
        self._method = method
        self._limit = limit
        self._listener = listener
        self._sink = sink
        self._streams = self._complete = self._waits = False
        self._parser: httptools.HttpResponseParser | None = None
        self._pending: bytearray | None = None  # received part of a head
        self._heads_size = self._received = self._carried = 0
        self._head: ResponseHead | None = None
        self._body: BodyReader | None = None
        self._outcome: RawResponse | Exception | None = None
        self._keep = False
        self._turn: bool | None = None  # for a long body: False while it waits for its place, True once it has it

    @property
    def is_open(self) -> bool:
        """Return True if neither side has closed the connection."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def usable(self) -> bool:
        """Return True if the connection is open and idle, its idle timeout has not passed, and no unexpected data has arrived on it."""
        transport = self._transport
        if self._active or transport is None or transport.is_closing():
            return False
        # Received data that the event loop has not delivered yet: the end of the connection, or an unexpected answer.
        if self._loop.time() - self._heard >= self._idle_s:
            return False
        return not self._watch.poll.readable(transport.get_extra_info("socket").fileno())

    async def exchange(  # noqa: PLR0913 - one request, and how long it may take
        self,
        data: bytes,
        *,
        method: str,
        limit: int,
        places: asyncio.Semaphore,
        until: float = math.inf,
        listener: BodyListener | None = None,
        sink: Sink | None = None,
        last: bool = False,
        more: AsyncIterator[bytes] | None = None,
    ) -> RawResponse:
        """Send the bytes of one request and return its answer, with at most `limit` bytes of body, before `until` (the loop's time).

        A long file is passed to `sink` in parts, at its speed; then the answer has the rest. `more` is the rest of the request's body,
        which is sent as the server reads it. With `last` the connection is not used again. Raises `UnsentError` if the connection had
        ended before, `BrokenError`, `TimedOutError` and `UndecodableError`; after each of them, and after a cancellation, the connection
        is closed.
        """
        transport = self._transport
        if transport is None or transport.is_closing() or self._active:
            raise UnsentError("the connection was closed at once")
        self._begin(method, limit, listener, sink)
        self._active = True
        self._heard, self._until = self._loop.time(), until
        if self._step is None or until < self._due:  # whose deadline was only ever moved later
            self.look()
        rest: asyncio.Task[None] | None = None
        try:
            transport.write(data)
            del data  # the request is not sent twice, so its data can be freed
            if more is not None:
                rest = self._loop.create_task(self._send(transport, more))
            while (outcome := self._outcome) is None:
                self._waiter = self._loop.create_future()
                await self._waiter
                if self._turn is False and self._outcome is None:
                    await self._take_turn(places)
                while (
                    self._outcome is None and self._body is not None and self._body.paused and self._turn is not False
                ):
                    await self._pass_on(self._body, self._head)
            if isinstance(outcome, Exception):
                raise outcome  # noqa: TRY301 - one frame less for each call under way
            return outcome  # noqa: TRY300 - the code below applies to every outcome
        except BaseException:
            self.close()
            raise
        finally:
            if rest is not None:
                rest.cancel()
            # A server that answers before it has read a request may take the rest of it for the next one.
            if last or not self._keep or transport.get_write_buffer_size():
                self.close()
            if self._turn:
                places.release()
            self._active = False
            self._heard = self._loop.time()
            # The parser and this object refer to each other: without this, they would stay in memory until a garbage collection.
            self._parser = self._body = self._outcome = self._waiter = self._listener = self._sink = self._pending = (
                None
            )

    async def _send(self, transport: asyncio.Transport, more: AsyncIterator[bytes]) -> None:
        """Send the rest of a body, the next part after the last was accepted, until the server answers or an error occurs."""
        try:
            async for part in more:
                if self._outcome is not None or transport.is_closing():
                    return
                transport.write(part)
                self._heard = self._loop.time()
                if self._drained is not None:
                    await self._drained
        except StateError:  # a part of the body cannot be read: the request stays incomplete for the server
            self._settle(BrokenError())

    def pause_writing(self) -> None:
        self._drained = self._loop.create_future()

    def resume_writing(self) -> None:
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    async def _take_turn(self, places: asyncio.Semaphore) -> None:
        """Continue to read once there is a place; until then the body waits at its server."""
        try:
            async with asyncio.timeout_at(self._until if self._until < math.inf else None):
                await places.acquire()
        except TimeoutError:
            raise TimedOutError from None
        self._turn = True
        self._heard = self._loop.time()
        if self._outcome is None and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    async def _pass_on(self, body: BodyReader, head: ResponseHead | None) -> None:
        """Let the sink decide about a long body and take the received part, while its server waits."""
        sink, transport = self._sink, self._transport
        self._waits = True
        try:
            if not self._streams:
                if sink is None or not sink.begin(body.so_far()):
                    body.collect()
                    if body.full:
                        self._keep = False
                    if body.full or self._complete:
                        self._end()
                    return
                self._streams = True
                body.stream(sink.most)
            if sink is not None and head is not None and not await pass_on(body, sink):
                self._keep = False
                self._settle(RawResponse(status=head.status, headers=head.headers, body=b"", truncated=True))
            elif self._complete and not body.paused:
                self._end()
        except UndecodableError as error:
            self._settle(error)
        finally:
            self._waits = False
            self._heard = self._loop.time()
            if self._outcome is None and transport is not None and not transport.is_closing():
                transport.resume_reading()

    def close(self) -> None:
        """Close the connection at once."""
        self._look_no_more()
        if self._transport is not None:
            self._transport.abort()

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._heard = self._loop.time()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._settle(BrokenError())
        self.resume_writing()
        self.close()

    def eof_received(self) -> None:
        """Handle the end of the data: it ends an answer without a length and breaks any other. The transport closes itself."""
        if self._head is not None and self._head.until_closed and self._said_to_end():
            self._end()

    def _said_to_end(self) -> bool:
        """Return True if TLS announced the end of the data, or the connection has no TLS. Otherwise an attacker could have truncated it."""
        secured = self._transport.get_extra_info("ssl_object") if self._transport is not None else None
        if secured is None:
            return True
        try:
            return not secured.read(1)
        except ssl.SSLZeroReturnError:
            return True
        except ssl.SSLError:
            return False

    def data_received(self, data: bytes) -> None:
        if not self._active or self._outcome is not None:
            self._keep = False
            self.close()
            return
        self._heard = self._loop.time()
        try:
            if self._head is not None:
                self._read_body(data)
            else:
                self._read_heads(data)
        except (BrokenError, UndecodableError) as error:
            self._settle(error)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            if self._outcome is None:
                self._settle(BrokenError())
            self._keep = False  # data after the answer does not belong to it

    def _read_heads(self, data: bytes) -> None:
        """Read up to the head of the answer, which interim responses may precede (RFC 9110, section 15.2)."""
        if (pending := self._pending) is None:
            pending = self._pending = bytearray()
        searched = max(0, len(pending) - 3)
        pending += data
        while (end := pending.find(b"\r\n\r\n", searched)) >= 0:
            head = bytes(pending[: end + 4])
            del pending[: end + 4]
            searched = 0
            self._heads_size += len(head)
            if self._heads_size > _MAX_HEADS_SIZE:
                raise BrokenError
            if self._read_head(head):
                if pending:
                    self._read_body(bytes(pending))
                return
        if len(pending) + self._heads_size > _MAX_HEADS_SIZE or not could_begin(pending, searched):
            raise BrokenError  # it will never be a head

    def _read_head(self, data: bytes) -> bool:
        """Parse a response head. Returns False if it belongs to an interim response. Raises `BrokenError`."""
        head = read_head(data)
        if head is None:
            return False
        self._head, self._keep = head, not head.close
        if self._method == "HEAD" or head.bodiless:
            # After HEAD a server may send a body although it must not.
            self._keep = self._keep and self._method != "HEAD"
            self._end()
            return True
        if self._listener is not None and not self._listener.wants(head.headers):
            self._listener = None
        if self._is_whole(head):
            return True
        sink, coding, portion = self._sink, head.headers.get("content-encoding", ""), None
        if sink is not None:
            short = not coding and head.length is not None and head.length <= ORDINARY
            if short or not sink.wants(head.status, head.headers):
                self._sink = None
            else:
                portion = min(sink.after, self._limit)
        self._body = BodyReader(coding, self._limit, portion)
        self._parser = httptools.HttpResponseParser(self)
        self._parser.feed_data(data)
        return True

    def _is_whole(self, head: ResponseHead) -> bool:
        """Settle the exchange and return True if its complete answer was received and is framed by its content length only: then no parser
        has to find its end.

        No data may follow it, it must be short enough for memory, and no header may add to its framing or coding.
        """
        length, pending = head.length, self._pending
        if length is None or pending is None or len(pending) != length or length > min(ORDINARY, self._limit):
            return False
        if self._listener is not None or not _PARSED.isdisjoint(head.headers):
            return False
        self._settle(RawResponse(status=head.status, headers=head.headers, body=bytes(pending), truncated=False))
        pending.clear()
        return True

    def _read_body(self, data: bytes) -> None:
        parser, outcome = self._parser, self._outcome
        if parser is None or outcome is not None or self._complete:
            self._keep = False  # it follows the answer
            return
        self._received += len(data)
        parser.feed_data(data)
        if self._outcome is not None or self._complete:
            self._keep = self._keep and self._ends_with(data)
            return
        # Extensions of chunks and trailers are bounded.
        if self._received - self._carried > _MAX_HEADS_SIZE + _FRAMING * self._carried:
            raise BrokenError
        body = self._body
        if body is not None and body.size > ORDINARY and self._transport is not None:
            if self._turn is None:
                self._turn = False
            elif not body.paused:
                return
            self._transport.pause_reading()
            self._settle(None)

    def _ends_with(self, data: bytes) -> bool:
        """Return True if the response ended exactly with its last bytes, `data`. llhttp ignores line breaks after a response."""
        if self._head is not None and self._head.length is not None:
            return self._received == self._head.length
        return data[-4:] == b"\r\n\r\n" and data[-6:-4] != b"\r\n"

    # Called by llhttp. An exception here would be wrapped, so it settles the exchange instead.

    def on_message_begin(self) -> None:
        if self._outcome is not None or self._complete:
            self._keep = False  # an answer without a request follows it

    def on_body(self, data: bytes) -> None:
        body, head = self._body, self._head
        if self._outcome is not None or self._complete or body is None or head is None:
            return
        self._carried += len(data)
        try:
            body.feed(data)
            heard = self._listener is not None and self._listener.enough(body.news())
        except UndecodableError as error:
            self._settle(error)
            return
        if heard:
            self._keep = False
            self._settle(RawResponse(status=head.status, headers=head.headers, body=body.so_far(), truncated=False))
        elif body.full:
            self._keep = False
            self._end()

    def _end(self) -> None:
        """Finish the answer, or the part of it that is read."""
        body, head = self._body, self._head
        if self._outcome is not None or head is None:
            return
        if self._sink is not None and body is not None and body.paused:
            self._complete = True
            self._settle(None)
            return
        try:
            content = b"" if body is None else body.end()
        except UndecodableError as error:
            self._settle(error)
            return
        if (said := _KEEP_ALIVE.search(head.headers.get("keep-alive", ""))) is not None:
            # If the server closes a connection while a request is on its way, the outcome of that request is unknown.
            self._idle_s = min(MAX_IDLE_S, max(0.0, int(said[1]) - _ON_THE_WAY_S))
        truncated = body is not None and body.full
        self._keep = self._keep and not head.until_closed
        self._settle(RawResponse(status=head.status, headers=head.headers, body=content, truncated=truncated))

    on_message_complete = _end

    def _settle(self, outcome: RawResponse | Exception | None) -> None:
        """Settle the exchange in progress, if there is one; the first outcome counts. With None it continues."""
        if self._active and self._outcome is None:
            self._outcome = outcome
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_result(None)

    def look(self) -> None:
        """Check the limits; called when the next one may have been reached. One check serves many exchanges, which only move the limit."""
        self._look_no_more()
        if self._transport is None:
            return
        now = self._loop.time()
        if not self._active:
            due = self._heard + self._idle_s
            if now >= due:
                self.close()
                return
        else:
            if self._turn is False or self._waits:
                self._heard = now  # it is the gateway that makes the server wait
            due = min(self._heard + self._read_s, self._until)
            if now >= due:
                self._settle(TimedOutError())
                return
        self._due, self._step = due, self._watch.add(self, due)

    def _look_no_more(self) -> None:
        if self._step is not None:
            self._watch.drop(self, self._step)
            self._step = None
