"""HTTP/1.1 server connections: strict parsing, bounded memory and time, and a disconnect signal for each request."""

from __future__ import annotations

import asyncio
import logging
import re
from http import HTTPStatus
from typing import Any

from toolgen.core.errors import place_of
from toolgen.frontends.http.connections import HttpServer
from toolgen.frontends.http.http1 import BadRequest, Marker, RequestHead, RequestReader
from toolgen.frontends.http.request import (
    Answer,
    EventStream,
    FileResponse,
    LimitedResource,
    Rejected,
    Request,
    Response,
    refusal,
    too_crowded,
)

__all__ = ["HttpConnection"]

SLOWEST_HEAD_S = 15.0
SLOWEST_READER_S = 30.0
MAX_REST_S = 75.0
MAX_UNREAD = 65_536
LINGER_S = 10.0
MAX_LINGERED = 256 * 1024 * 1024
"""Maximum time, and maximum bytes, for reading the rest of a body after its answer."""
_NEVER = float("inf")
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class _StatusLines(dict[int, bytes]):
    """Status lines, also for numbers without a phrase."""

    def __missing__(self, status: int) -> bytes:
        return f"HTTP/1.1 {status} \r\n".encode()


_STATUS_LINES = _StatusLines(
    (status.value, f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode()) for status in HTTPStatus
)
_UNSAFE = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]").search
_CLOSE = (b"connection", b"close")

log = logging.getLogger("toolgen.gateway")


class _Exchange:
    """HTTP request on a connection, with its response."""

    __slots__ = ("_arrived", "_body", "_connection", "begun", "expects", "gone", "head", "more", "request", "task")

    def __init__(self, connection: HttpConnection, head: RequestHead, whole: bytes | None) -> None:
        self._connection = connection
        self.head = head
        line = (head.method, head.path, head.query)
        body = self._receive if whole is None else whole
        self.request = Request(line, head.lines, head.headers, head.repeated, body, connection.peer)
        self.request.caller_connection.has_own_task = (
            True  # its task is not cancelled: a disconnect is signalled to `CallerConnection`
        )
        self.expects = head.expects_continue
        self.more = whole is None
        self.begun = False
        self.gone = False
        self._body = b""
        self._arrived: asyncio.Future[None] | None = None
        self.task: asyncio.Task[None] | None = None

    async def run(self, server: HttpServer) -> None:
        """Let the server answer the request."""
        try:
            await server.handlers.serve(self.request, self._send)
        except Exception as error:  # noqa: BLE001  (an error that passes the handlers' own boundary)
            log.error("an answer could not be sent: %s", place_of(error))  # noqa: TRY400  (its text may hold anything)
            self._connection.failed(self)
        finally:
            if self.task is not None:
                server.tasks.discard(self.task)
            if server.ended is not None:
                server.left()

    def take(self, piece: bytes) -> int:
        """Buffer a part of the body; returns the buffered size."""
        self._body += piece
        self.wake()
        return len(self._body)

    def wake(self) -> None:
        """Wake the reader of the body."""
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)

    def leave(self) -> None:
        """Signal the disconnect of the client."""
        self.gone = True
        self.wake()
        self.request.caller_connection.leave()

    async def _receive(self) -> tuple[bytes, bool] | None:
        connection = self._connection
        if self.expects and not self.begun:
            self.expects = False
            connection.write(_CONTINUE)
        connection.resume_reading()
        while self.more and not self._body and not self.gone:
            self._arrived = asyncio.get_running_loop().create_future()
            await self._arrived
        if self.gone:
            return None
        piece, self._body = self._body, b""
        return piece, self.more

    async def _send(self, answer: Answer) -> None:
        connection = self._connection
        if isinstance(answer, Response):
            if connection.drained is not None:
                await connection.writable()
            if not self.gone:
                body = b"" if self.head.method == "HEAD" else answer.body
                closes = connection.answer(self, answer, body)
                connection.answered(self, closes=closes)
            return
        if isinstance(answer, FileResponse):
            await self._download(answer)
        else:
            await self._stream(answer)

    async def _download(self, answer: FileResponse) -> None:
        """Send a file part by part, the next one after the last was written; stops if the client disconnects."""
        connection = self._connection
        await connection.writable()
        closes = connection.answer(self, answer, b"")
        async for part in answer.parts:
            await connection.writable()
            if self.gone:
                return
            connection.write(part)
        if not self.gone:
            connection.answered(self, closes=closes)

    async def _stream(self, answer: EventStream) -> None:
        """Send the events as they come, the head with the first of them. They are consumed to their end even after a disconnect."""
        connection, chunked = self._connection, self.head.version == "1.1"
        begun, closes = False, False
        async for event in answer.events:
            await connection.writable()
            if self.gone:
                continue
            piece = b"%x\r\n%b\r\n" % (len(event), event) if chunked else event
            if begun:
                connection.write(piece)
            else:
                begun, closes = True, connection.answer(self, answer, piece)
        await connection.writable()
        if not self.gone:
            end = b"0\r\n\r\n" if chunked else b""
            if begun:
                connection.write(end)
            else:
                closes = connection.answer(self, answer, end)
            connection.answered(self, closes=closes)


class HttpConnection(asyncio.Protocol):
    """Connection that reads requests one at a time. Data after an unanswered request is buffered up to a limit, and not parsed before the
    answer. A client that sends or receives bytes too slowly is disconnected, with or without a credential."""

    __slots__ = (
        "__weakref__",
        "_crowded",
        "_due",
        "_exchange",
        "_last",
        "_lingers",
        "_loop",
        "_reader",
        "_reading",
        "_server",
        "_timer",
        "_transport",
        "_untaken",
        "_used",
        "drained",
        "peer",
        "places",
        "proven",
    )

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._reader = RequestReader()
        self._timer: asyncio.TimerHandle | None = None
        self._due = _NEVER  # deadline of the current wait
        self._untaken: asyncio.TimerHandle | None = None
        self.drained: asyncio.Future[None] | None = None  # set while the client does not read
        self._reading = True
        self._transport: asyncio.Transport
        self._exchange: _Exchange | None = None  # the request that is being answered
        self._crowded: LimitedResource | None = None
        self._last = False
        self._lingers = 0  # bytes of a body that are still to be dropped after its answer; 0 for none
        self._used = False
        self.peer = ""
        self.proven = False
        self.places: tuple[Any, ...] = ()

    # Called by asyncio

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # it is one of TCP
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self.peer = str(peer[0]) if isinstance(peer, tuple) else ""
        self._server.open.add(self)
        self._wait(SLOWEST_HEAD_S)
        self._crowded = self._server.connections.enter(self)
        if self._server.ended is not None:
            self.end_after_answer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.open.discard(self)
        self._server.connections.leave(self)
        for timer in (self._timer, self._untaken):
            if timer is not None:
                timer.cancel()
        if self._exchange is not None:
            self._exchange.leave()
        self._wake_writer()
        self._server.left()

    def eof_received(self) -> None: ...

    def data_received(self, data: bytes) -> None:
        if self._lingers:
            self._lingers -= len(data)
            if self._lingers <= 0:
                self._transport.abort()
        elif not self._transport.is_closing():
            self._reader.feed(data)
            self._advance()

    def pause_writing(self) -> None:
        self.drained = self._loop.create_future()
        self._untaken = self._loop.call_later(SLOWEST_READER_S, self._transport.abort)

    def resume_writing(self) -> None:
        self._wake_writer()
        if self._untaken is not None and not self._lingers and not self._transport.is_closing():
            self._untaken.cancel()
            self._untaken = None

    def _wake_writer(self) -> None:
        drained, self.drained = self.drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    # Called by the server

    def end_after_answer(self) -> None:
        """End the connection after the current answer."""
        self._last = True
        if self._exchange is None:
            self._close()

    def abort(self) -> None:
        """End the connection at once."""
        self._transport.abort()

    # Called by the connection limits

    def expendable(self) -> bool:
        """Return True if the connection may be closed for another: no answer is awaited, or its client is unauthenticated and sends no body
        or does not read the answer."""
        exchange = self._exchange
        if exchange is None or self._lingers or self._transport.is_closing():
            return True
        return not exchange.request.accepted and (exchange.more or self.drained is not None)

    def give_way(self) -> None:
        """Close the connection. A client that had begun a request gets an answer; on an idle connection, an answer could be taken for that
        to a later request."""
        if (
            self._lingers or self._transport.get_write_buffer_size()
        ):  # an answer is sent or unread: a refusal would not be read
            self._transport.abort()
        elif self._exchange is None and not self._reader.unread and self._used:
            self._close()
        else:
            self._refuse(too_crowded())

    # Requests

    def _advance(self) -> None:
        """Parse the received data, but not beyond a request that is being answered."""
        reader = self._reader
        try:
            while not self._transport.is_closing():
                exchange = self._exchange
                if exchange is not None and not exchange.more:
                    if len(reader.unread) > MAX_UNREAD:
                        self._pause_reading()
                    return
                event = reader.next()
                if event is Marker.MORE:
                    if exchange is None and reader.unread:
                        self._wait(SLOWEST_HEAD_S, from_first=True)
                    return
                if isinstance(event, RequestHead):
                    self._begin(event)
                elif exchange is not None and event is Marker.END:
                    exchange.more = False
                    exchange.wake()
                    self.resume_reading()  # otherwise a disconnect would not be noticed
                elif exchange is not None and isinstance(event, bytes) and exchange.take(event) > MAX_UNREAD:
                    self._pause_reading()
        except BadRequest as error:
            self._refuse(Rejected(400, "bad_request", str(error), suggestion="the connection is closed; send it again"))

    def _begin(self, head: RequestHead) -> None:
        """Start a request whose headers are complete. The application owns the list of headers; it does not change later."""
        self._due = _NEVER
        self._used = True
        exchange = self._exchange = _Exchange(self, head, None if head.expects_continue else self._reader.whole())
        exchange.request.crowded = self._crowded
        exchange.task = self._loop.create_task(exchange.run(self._server))
        self._server.tasks.add(exchange.task)

    def _pause_reading(self) -> None:
        if self._reading:
            self._reading = False
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Continue to read from the client."""
        if not self._reading and not self._transport.is_closing():
            self._reading = True
            self._transport.resume_reading()

    # Answers

    def write(self, data: bytes) -> None:
        """Write bytes if the connection is still open."""
        if not self._transport.is_closing():
            self._transport.write(data)

    async def writable(self) -> None:
        """Return when the written data was accepted by the client, or never will be."""
        if self.drained is not None:
            await asyncio.shield(self.drained)

    def answer(self, exchange: _Exchange, answer: Answer, body: bytes) -> bool:
        """Write an answer, or its head and the first part of its body, at once. Returns True if the connection ends with it."""
        lines = [_STATUS_LINES[answer.status], self._server.date()]
        for name, value in answer.fields():
            if _UNSAFE(value):
                raise ValueError("a header of an answer contains a control character")
            lines += (name, b": ", value, b"\r\n")
        exchange.begun = True
        closes = _CLOSE in answer.headers
        if not closes and (self._last or not exchange.head.keep_alive or self._crowded is not None):
            closes = True
            lines.append(b"connection: close\r\n")
        if isinstance(answer, EventStream) and exchange.head.version == "1.1":
            lines.append(b"transfer-encoding: chunked\r\n")
        lines += (b"\r\n", body)
        if not self._transport.is_closing():
            self._transport.write(b"".join(lines))
        return closes

    def answered(self, exchange: _Exchange, *, closes: bool) -> None:
        """Note that the answer to a request is complete. If it came before the body, the connection cannot be continued."""
        self._exchange = None
        self.proven = self.proven or exchange.request.accepted
        if exchange.more:
            self._linger()
        elif closes:
            self._close()
        if self._transport.is_closing():
            return
        self._server.connections.rested(self)
        self._wait(MAX_REST_S)
        if not self._reading:
            self.resume_reading()
        if self._reader.unread:
            self._advance()

    def failed(self, exchange: _Exchange) -> None:
        """Close the exchange after a fault of its answer, so that the client does not wait."""
        if exchange is self._exchange:
            self._refuse(Rejected(500, "internal", "the gateway failed; the operator's log says where"))

    # The end

    def _refuse(self, rejected: Rejected) -> None:
        """Answer an invalid or late request and close. Nothing is written into an answer that has begun."""
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.leave()
        if exchange is None or not exchange.begun:
            response = refusal(rejected)
            lines = [b"%b: %b\r\n" % field for field in (*response.fields(), _CLOSE)]
            self.write(b"".join((_STATUS_LINES[response.status], self._server.date(), *lines, b"\r\n", response.body)))
        self._close()

    def _close(self) -> None:
        """Close after the written data was accepted, but within a time limit."""
        self._transport.close()
        if self._untaken is None:
            self._untaken = self._loop.call_later(SLOWEST_READER_S, self._transport.abort)

    def _linger(self) -> None:
        """Close after an answer that was sent before its request was complete.

        A client that sends its whole body first would lose the answer to a connection reset, so the rest of the body is read and dropped
        for some time.
        """
        if self._transport.is_closing():
            return
        self._lingers = MAX_LINGERED
        self._exchange = None
        if self._transport.can_write_eof():
            self._transport.write_eof()
        if self._untaken is None:
            self._untaken = self._loop.call_later(LINGER_S, self._transport.abort)
        self.resume_reading()

    def _wait(self, seconds: float, *, from_first: bool = False) -> None:
        """Start the deadline for a request head: for its first byte, or (`from_first`) for the rest of a head whose first bytes were
        received."""
        due = self._loop.time() + seconds
        self._due = min(self._due, due) if from_first else due
        if self._timer is None:
            self._timer = self._loop.call_at(self._due, self._look)
        elif self._timer.when() > self._due:
            self._timer.cancel()
            self._timer = self._loop.call_at(self._due, self._look)

    def _look(self) -> None:
        """Close a connection whose request head is overdue. One timer serves many heads: each head only moves the deadline."""
        self._timer = None
        if self._due == _NEVER or self._transport.is_closing():
            return
        if self._loop.time() >= self._due:
            self._close()
        else:
            self._timer = self._loop.call_at(self._due, self._look)
