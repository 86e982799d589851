"""HTTP/2 connection to an upstream (RFC 9113), with many exchanges at a time.

A request that is cancelled, or whose answer is not read to its end, is reset at once. The other requests of the connection continue.
"""

from __future__ import annotations

import asyncio
import math
import struct
from collections.abc import AsyncIterator, Mapping
from typing import cast

from toolgen.connectors.http.connection import MAX_IDLE_S, ORDINARY
from toolgen.connectors.http.http2_frames import (
    MAX_FRAME_SIZE,
    MAX_HEADERS_SIZE,
    PREFACE,
    STREAM_WINDOW,
    ErrorCode,
    Flag,
    Frame,
    FrameReader,
    HeaderReader,
    Http2Setting,
    Kind,
    ProtocolViolation,
    frame,
    headers_frames,
    number,
    unpadded,
)
from toolgen.connectors.http.http2_stream import Reading, Stream
from toolgen.connectors.http.message import BodyReader, pass_on
from toolgen.connectors.http.reply import BrokenError, RawResponse, Sink, TimedOutError
from toolgen.core.errors import StateError

__all__ = ["Http2Connection", "RefusedStreamError"]

_MAX_WINDOW = 2**31 - 1
_LAST_STREAM = 2**30
_ACKNOWLEDGED = 1 << 20  # received bytes of all bodies after which the server's window is extended
_MAX_CONTINUATIONS = 64
_MAX_UNREAD = 1 << 20  # maximum bytes that a server may leave unread while it requests acknowledgements
_BODILESS = frozenset({204, 304})


class RefusedStreamError(Exception):
    """Request that was not processed, by the server's statement or the end of the connection (RFC 9113, section 8.7)."""


class Http2Connection(asyncio.Protocol):
    """HTTP/2 connection to one server. `read_s` is the longest pause, in seconds, before and within an answer."""

    def __init__(self, read_s: float) -> None:
        self._read_s = read_s
        self._loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[None] = self._loop.create_future()
        """Done once the server's settings are known; with an exception, if it does not speak HTTP/2."""
        self._transport: asyncio.Transport | None = None
        self._frames = FrameReader()
        self._headers = HeaderReader()
        self._streams: dict[int, Stream] = {}
        self._next = 1
        self._most = _LAST_STREAM  # maximum concurrent requests
        self._window = self._initial_window = 65_535
        self._unacknowledged = 0
        self._block: bytearray | None = None  # an incomplete header block
        self._block_frame = Frame(Kind.HEADERS, 0, 0, b"")
        self._block_parts = 0
        self._draining = False
        self._paused = False
        self._heard = self._loop.time()
        self._idle_timer: asyncio.TimerHandle | None = None

    @property
    def is_open(self) -> bool:
        """Return True if the connection accepts requests, now or after others have ended."""
        transport = self._transport
        return transport is not None and not transport.is_closing() and not self._draining and self._next < _LAST_STREAM

    @property
    def usable(self) -> bool:
        """Return True if a request can be sent now."""
        return (
            self.is_open
            and len(self._streams) < self._most
            and (bool(self._streams) or self._loop.time() - self._heard < MAX_IDLE_S)
        )

    @property
    def busy(self) -> bool:
        """Return True if a request is in flight."""
        return bool(self._streams)

    async def exchange(self, block: bytes, body: bytes | AsyncIterator[bytes], reading: Reading) -> RawResponse:
        """Send one request, with its header block and its body, and return its answer.

        Raises `RefusedStreamError`, `BrokenError`, `TimedOutError` and `UndecodableError`. After each of them, and when the call is
        cancelled, the request is reset.
        """
        if not self.usable:
            raise RefusedStreamError
        stream = self._opened(reading.until)
        sending: asyncio.Task[None] | None = None
        try:
            first = self._next == 3
            if first:
                block = b"\x20" + block  # an encoder without a dynamic table declares it (RFC 7541, section 6.3)
            self._write(headers_frames(stream.identifier, block, ends=body == b""))
            if body == b"":
                stream.sent = True
            elif not isinstance(body, bytes):
                sending = self._loop.create_task(self._send(stream, body))
            elif not self._sent_at_once(stream, body):
                sending = self._loop.create_task(self._send(stream, _one(body)))
            del block, body  # nothing is sent twice
            return await self._answer(stream, reading)
        finally:
            if sending is not None:
                sending.cancel()
            self._finish(stream)

    def close(self) -> None:
        """End the connection at once."""
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self._transport is not None:
            self._transport.abort()

    # Handling of one request

    def _opened(self, until: float) -> Stream:
        now = self._loop.time()
        stream = self._streams[self._next] = Stream(self._next, self._initial_window, now, until)
        self._next += 2
        stream.timer = self._loop.call_at(min(now + self._read_s, until), self._look, stream)
        return stream

    def _look(self, stream: Stream) -> None:
        """Check if the time of an answer is over. Arriving data only moves the limit."""
        now = self._loop.time()
        if stream.waits:
            stream.heard = now  # it is the gateway that makes the server wait
        due = min(stream.heard + self._read_s, stream.until)
        if now < due:
            stream.timer = self._loop.call_at(due, self._look, stream)
            return
        if self._heard <= stream.opened:
            self._draining = True  # no data has arrived since: the connection may be dead
        stream.fail(TimedOutError())

    def _finish(self, stream: Stream) -> None:
        """Forget a stream. One that is not over at both sides is reset."""
        if stream.timer is not None:
            stream.timer.cancel()
        if self._streams.pop(stream.identifier, None) is not None and not (stream.ended and stream.sent):
            self._reset(stream.identifier, ErrorCode.CANCEL)
        stream.chunks.clear()
        if self._streams:
            return
        if not self.is_open:
            self._retire()
        elif self._idle_timer is None:
            self._idle_timer = self._loop.call_later(MAX_IDLE_S, self._look_idle)

    def _retire(self) -> None:
        """Close a connection that accepts no further request."""
        if self._transport is not None and not self._transport.is_closing():
            self._write(frame(Kind.GOAWAY, 0, 0, number(0) + number(ErrorCode.NO_ERROR)))
            if self._transport.get_write_buffer_size():
                self._transport.abort()  # the server does not read
            else:
                self._transport.close()

    def _look_idle(self) -> None:
        self._idle_timer = None
        if self._streams:
            return  # the end of the last request checks again
        left = self._heard + MAX_IDLE_S - self._loop.time()
        if left <= 0:
            self._retire()
        else:
            self._idle_timer = self._loop.call_later(left, self._look_idle)

    async def _answer(self, stream: Stream, reading: Reading) -> RawResponse:
        while (head := stream.head) is None:
            if stream.failure is not None:
                raise stream.failure
            await self._news(stream)
        headers = dict(head.headers)
        if reading.method == "HEAD":
            return RawResponse(status=head.status, headers=headers, body=b"", truncated=False)
        sink, limit = reading.sink, reading.limit
        if sink is not None and not sink.wants(head.status, headers):
            sink = None
        body = BodyReader(headers.get("content-encoding", ""), limit, None if sink is None else min(sink.after, limit))
        content, truncated = await self._read(stream, body, headers, reading, sink)
        return RawResponse(status=head.status, headers=headers, body=content, truncated=truncated)

    async def _read(
        self, stream: Stream, body: BodyReader, headers: Mapping[str, str], reading: Reading, sink: Sink | None
    ) -> tuple[bytes, bool]:
        """Return the part of a body that the sink did not take, and True if the body is incomplete."""
        listener, streams, placed = reading.listener, False, False
        if listener is not None and not listener.wants(headers):
            listener = None
        try:
            while not body.full and await self._more(stream):
                self._taken(stream, body)
                if listener is not None and listener.enough(body.news()):
                    return body.so_far(), False
                if body.size > ORDINARY and not placed:
                    placed = await self._placed(stream, reading)
                if sink is None or not body.paused:
                    continue
                if not streams:
                    if not sink.begin(body.so_far()):
                        sink = None
                        body.collect()
                        continue
                    streams = True
                    body.stream(sink.most)
                stream.waits = True
                if not await pass_on(body, sink):
                    return b"", True
                stream.waits, stream.heard = False, self._loop.time()
        finally:
            if placed:
                reading.places.release()
        return body.end(), body.full

    async def _more(self, stream: Stream) -> bool:
        """Wait for more of a body. Returns False at its end, and raises what ended it too early."""
        while not stream.chunks:
            if stream.failure is not None:
                raise stream.failure
            if stream.ended:
                return False
            await self._news(stream)
        return True

    async def _news(self, stream: Stream) -> None:
        """Wait for new data of an answer, or its end."""
        stream.waiter = self._loop.create_future()
        await stream.waiter

    async def _placed(self, stream: Stream, reading: Reading) -> bool:
        """Wait until a long body may be read, and return True; meanwhile the window of its stream stops the server. Raises
        `TimedOutError`.
        """
        stream.waits = True
        try:
            async with asyncio.timeout_at(reading.until if reading.until < math.inf else None):
                await reading.places.acquire()
        except TimeoutError:
            raise TimedOutError from None
        finally:
            stream.waits, stream.heard = False, self._loop.time()
        return True

    def _taken(self, stream: Stream, body: BodyReader) -> None:
        """Take the received part of a body, and let the server send as much again."""
        for chunk in stream.chunks:
            body.feed(chunk)
            if body.full:
                break
        stream.chunks.clear()
        if stream.over:
            return
        used = STREAM_WINDOW - stream.room
        if used >= STREAM_WINDOW // 2:
            self._write(frame(Kind.WINDOW_UPDATE, 0, stream.identifier, number(used)))
            stream.room = STREAM_WINDOW

    # Sending of a request body

    def _sent_at_once(self, stream: Stream, body: bytes) -> bool:
        """Send a short body in one frame and return True, if the server accepts it now."""
        if len(body) > min(self._window, stream.window, MAX_FRAME_SIZE) or self._paused:
            return False
        self._send_data(stream, body, ends=True)
        return True

    def _send_data(self, stream: Stream, data: bytes, *, ends: bool) -> None:
        self._window -= len(data)
        stream.window -= len(data)
        stream.sent = ends
        self._write(frame(Kind.DATA, Flag.END_STREAM if ends else 0, stream.identifier, data))

    async def _send(self, stream: Stream, parts: AsyncIterator[bytes]) -> None:
        """Send a body at the server's speed, until the server has answered or the request has ended."""
        try:
            async for part in parts:
                at = 0
                while at < len(part):
                    if stream.over:
                        return
                    most = min(self._window, stream.window, MAX_FRAME_SIZE)
                    if most <= 0 or self._paused:
                        stream.sendable = self._loop.create_future()
                        await stream.sendable
                        continue
                    self._send_data(stream, part[at : at + most], ends=False)
                    stream.heard = self._loop.time()
                    at += most
            if not stream.over:
                self._send_data(stream, b"", ends=True)
        except StateError:  # a part of the body cannot be read: the request stays incomplete for the server
            stream.fail(BrokenError())

    # Called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(PREFACE)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._end_all(BrokenError())
        self.close()

    def eof_received(self) -> None:
        """Do nothing: the transport closes itself."""

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._wake_senders()

    def data_received(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._heard = self._loop.time()
        try:
            for received in self._frames.feed(data):
                self._receive(received)
        except ProtocolViolation as violation:
            self._break_off(violation.code)
        if self._unacknowledged >= _ACKNOWLEDGED:
            self._write(frame(Kind.WINDOW_UPDATE, 0, 0, number(self._unacknowledged)))
            self._unacknowledged = 0

    def _break_off(self, code: int) -> None:
        self._draining = True
        self._end_all(BrokenError())
        if self._transport is not None and not self._transport.is_closing():
            self._write(frame(Kind.GOAWAY, 0, 0, number(0) + number(code)))
            self._transport.close()

    def _end_all(self, failure: Exception) -> None:
        if not self.ready.done():
            self.ready.set_result(None)  # the caller finds the connection closed
        for stream in list(self._streams.values()):
            stream.fail(failure)

    def _wake_senders(self) -> None:
        for stream in self._streams.values():
            if stream.sendable is not None and not stream.sendable.done():
                stream.sendable.set_result(None)

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _reset(self, identifier: int, code: int) -> None:
        self._write(frame(Kind.RST_STREAM, 0, identifier, number(code)))

    # Handling of received frames

    def _receive(self, received: Frame) -> None:
        kind = received.kind
        if not self.ready.done() and (kind != Kind.SETTINGS or received.flags & Flag.ACK):
            raise ProtocolViolation  # RFC 9113, section 3.4: settings come first
        if self._block is not None and (kind != Kind.CONTINUATION or received.stream != self._block_frame.stream):
            raise ProtocolViolation
        match kind:
            case Kind.DATA:
                self._data(received)
            case Kind.HEADERS:
                self._begin_block(received)
            case Kind.CONTINUATION:
                self._continue_block(received)
            case Kind.RST_STREAM:
                self._was_reset(received)
            case Kind.SETTINGS:
                self._settings(received)
            case Kind.PING:
                self._ping(received)
            case Kind.GOAWAY:
                self._go_away(received)
            case Kind.WINDOW_UPDATE:
                self._window_update(received)
            case Kind.PUSH_PROMISE:
                raise ProtocolViolation  # its settings forbid it
            case _:
                pass  # priorities, and extensions (RFC 9113, section 5.5)

    def _known(self, received: Frame) -> Stream | None:
        """Return the stream of a frame; None if it was finished. Raises `ProtocolViolation` for one that was never opened."""
        identifier = received.stream
        if identifier % 2 == 0 or identifier >= self._next:
            raise ProtocolViolation
        return self._streams.get(identifier)

    def _data(self, received: Frame) -> None:
        stream, size = self._known(received), len(received.payload)
        self._unacknowledged += size  # the window of the stream bounds the buffer
        data = unpadded(received)
        if stream is None or stream.failure is not None:
            return
        stream.room -= size
        if stream.room < 0:
            raise ProtocolViolation(ErrorCode.FLOW_CONTROL_ERROR)
        if stream.head is None or stream.ended:
            self._malformed(stream)
            return
        stream.heard = self._heard
        stream.received += len(data)
        if data:
            stream.chunks.append(data)
        if received.flags & Flag.END_STREAM:
            self._ended(stream)
        elif stream.head.length is not None and stream.received > stream.head.length:
            self._malformed(stream)
        else:
            stream.wake()

    def _ended(self, stream: Stream) -> None:
        head = stream.head
        if (
            head is not None
            and head.length not in {None, stream.received}
            and (
                stream.received or head.status not in _BODILESS
            )  # 304 states the length of a body that it does not have
        ):
            stream.failure = BrokenError()  # an answer to HEAD has no body
        stream.ended = True
        stream.wake()

    def _malformed(self, stream: Stream) -> None:
        """End a stream whose server violates the rules of messages (RFC 9113, section 8.1.1)."""
        stream.chunks.clear()
        stream.fail(BrokenError())

    def _begin_block(self, received: Frame) -> None:
        self._known(received)
        self._block_frame, self._block_parts = received, 0
        block = unpadded(received)
        if received.flags & Flag.END_HEADERS:
            self._end_block(block)
        else:
            self._block = bytearray(block)

    def _continue_block(self, received: Frame) -> None:
        if self._block is None:
            raise ProtocolViolation
        self._block += received.payload
        self._block_parts += 1
        if len(self._block) > MAX_HEADERS_SIZE or self._block_parts > _MAX_CONTINUATIONS:
            raise ProtocolViolation(ErrorCode.ENHANCE_YOUR_CALM)
        if received.flags & Flag.END_HEADERS:
            block, self._block = bytes(self._block), None
            self._end_block(block)

    def _end_block(self, block: bytes) -> None:
        """Process the head of an answer, or its trailers, which are ignored."""
        stream = self._known(self._block_frame)
        ends = bool(self._block_frame.flags & Flag.END_STREAM)
        try:
            head = self._headers.read(block)
        except BrokenError:
            if stream is not None:
                self._malformed(stream)
            return
        if stream is None or stream.failure is not None:
            return
        stream.heard = self._heard
        if stream.ended or (stream.head is not None and (head.status or not ends)):
            self._malformed(stream)
        elif stream.head is not None:
            self._ended(stream)
        elif head.status < 200:
            if head.status in {0, 101} or ends:
                self._malformed(stream)
        else:
            stream.head = head
            if ends:
                self._ended(stream)
            else:
                stream.wake()

    def _was_reset(self, received: Frame) -> None:
        if len(received.payload) != 4:
            raise ProtocolViolation(ErrorCode.FRAME_SIZE_ERROR)
        stream = self._known(received)
        if stream is None:
            return
        refused = int.from_bytes(received.payload, "big") == ErrorCode.REFUSED_STREAM and stream.head is None
        stream.sent = True  # both sides have ended, so the stream is not reset again
        stream.fail(RefusedStreamError() if refused else BrokenError())
        if stream.failure is not None:
            stream.ended = True

    def _settings(self, received: Frame) -> None:
        if received.stream:
            raise ProtocolViolation
        payload = received.payload
        if received.flags & Flag.ACK:
            if payload:
                raise ProtocolViolation(ErrorCode.FRAME_SIZE_ERROR)
            return
        if len(payload) % 6:
            raise ProtocolViolation(ErrorCode.FRAME_SIZE_ERROR)
        for setting, value in struct.iter_unpack(">HI", payload):
            if setting == Http2Setting.MAX_CONCURRENT_STREAMS:
                self._most = value
            elif setting == Http2Setting.INITIAL_WINDOW_SIZE:
                self._resize_windows(value)
        self._acknowledge(frame(Kind.SETTINGS, Flag.ACK, 0))
        if not self.ready.done():
            self.ready.set_result(None)

    def _resize_windows(self, value: int) -> None:
        if value > _MAX_WINDOW:
            raise ProtocolViolation(ErrorCode.FLOW_CONTROL_ERROR)
        change, self._initial_window = value - self._initial_window, value
        for stream in self._streams.values():
            stream.window += change
            if stream.window > _MAX_WINDOW:
                raise ProtocolViolation(ErrorCode.FLOW_CONTROL_ERROR)
        self._wake_senders()

    def _ping(self, received: Frame) -> None:
        if received.stream:
            raise ProtocolViolation
        if len(received.payload) != 8:
            raise ProtocolViolation(ErrorCode.FRAME_SIZE_ERROR)
        if not received.flags & Flag.ACK:
            self._acknowledge(frame(Kind.PING, Flag.ACK, 0, received.payload))

    def _acknowledge(self, answer: bytes) -> None:
        """Write acknowledgements that a server requires, unless it reads none of them."""
        if self._transport is not None and self._transport.get_write_buffer_size() > _MAX_UNREAD:
            raise ProtocolViolation(ErrorCode.ENHANCE_YOUR_CALM)
        self._write(answer)

    def _go_away(self, received: Frame) -> None:
        if received.stream:
            raise ProtocolViolation
        if len(received.payload) < 8:
            raise ProtocolViolation(ErrorCode.FRAME_SIZE_ERROR)
        last = int.from_bytes(received.payload[:4], "big") & 0x7FFFFFFF
        self._draining = True
        for stream in list(self._streams.values()):
            if stream.identifier > last:
                stream.fail(RefusedStreamError())
        if not self._streams:
            self._retire()

    def _window_update(self, received: Frame) -> None:
        if len(received.payload) != 4:
            raise ProtocolViolation(ErrorCode.FRAME_SIZE_ERROR)
        increment = int.from_bytes(received.payload, "big") & _MAX_WINDOW
        if not received.stream:
            self._window += increment
            if not increment or self._window > _MAX_WINDOW:
                raise ProtocolViolation
            self._wake_senders()
        elif (stream := self._known(received)) is not None:
            stream.window += increment
            if not increment or stream.window > _MAX_WINDOW:
                self._malformed(stream)
            elif stream.sendable is not None and not stream.sendable.done():
                stream.sendable.set_result(None)


async def _one(body: bytes) -> AsyncIterator[bytes]:
    yield body
