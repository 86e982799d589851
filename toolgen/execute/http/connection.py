"""One connection to an upstream and one exchange at a time on it: HTTP/1.1 (RFC 9112), framed by llhttp, and refused where it is unclear.

A message that two readers could frame differently is how the answer to one call becomes the answer to another. So a head is held against
the grammar before llhttp reads it, and whatever does not belong to the answer that is awaited ends the connection.
"""

from __future__ import annotations

import asyncio
import math
import re
import select
import ssl
from typing import cast

import httptools

from toolgen.execute.http.content_encoding import Body, UndecodableError
from toolgen.execute.http.reply import BrokenError, Listener, Reply, TimedOutError, UnsentError

__all__ = ["MAX_IDLE_S", "ORDINARY", "Connection"]

ORDINARY = 131_072
"""Bytes of a body, after decompression, from which on its reading takes one of its source's places."""

MAX_IDLE_S = 30.0
"""How long a connection may rest between two requests."""

_MAX_HEADS_SIZE = 131_072
_FRAMING = 8  # bytes of chunked coding for one of the body: more than the smallest chunks need
_ON_THE_WAY_S = 1.0  # how much sooner than its server a resting connection is let go of
_BEGINS = b"HTTP/1."
_HEAD = re.compile(
    rb"HTTP/1\.[01] [1-9][0-9][0-9](?: [\t\x20-\x7e\x80-\xff]*)?\r\n"
    rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*\r\n)*\r\n"
)
_FIELD = re.compile(rb"\r\n([^:\r\n]+):[\t ]*([^\r\n]*?)[\t ]*(?=\r\n)")
_BARE_LF = re.compile(rb"(?<!\r)\n")
_LENGTH = re.compile(r"[0-9]{1,18}\Z")
_CLOSE = re.compile(r"(?:^|,)[\t ]*close[\t ]*(?:,|$)", re.IGNORECASE)
_KEEP_ALIVE = re.compile(r"(?:^|[,\s])timeout=(\d{1,6})(?![^\s,])", re.IGNORECASE)
_FRAMES = frozenset({"content-encoding", "content-length", "transfer-encoding"})
_BODILESS = frozenset({204, 304})


class Connection(asyncio.Protocol):
    """Sends requests one after the other and reads their answers.

    `read_s` is the longest pause, in seconds, before and within an answer.
    """

    def __init__(self, read_s: float) -> None:
        self._read_s = read_s
        self._idle_s = MAX_IDLE_S
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._poll = select.poll()
        self._timer: asyncio.TimerHandle | None = None
        self._due = self._until = self._heard = 0.0
        self._waiter: asyncio.Future[None] | None = None
        self._active = False
        self._begin("", 0, None)

    def _begin(self, method: str, limit: int, listener: Listener | None) -> None:
        """Forgets the exchange before."""
        self._method = method
        self._limit = limit
        self._listener = listener
        self._parser: httptools.HttpResponseParser | None = None
        self._pending = bytearray()
        self._heads_size = self._received = self._carried = 0
        self._status = 0
        self._headers: dict[str, str] = {}
        self._body: Body | None = None
        self._until_closed = False
        self._outcome: Reply | Exception | None = None
        self._keep = False
        self._turn: bool | None = None  # of a long body: False while it waits for its place, True once it has it

    @property
    def is_open(self) -> bool:
        """Whether the connection has not been closed, by either side."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def usable(self) -> bool:
        """Whether the connection is open and idle, has not rested for too long, and nothing has come on it that nobody asked for."""
        transport = self._transport
        if self._active or transport is None or transport.is_closing():
            return False
        # What the system has received already, the loop may still have to deliver: the end of the connection, or somebody else's answer.
        return self._loop.time() - self._heard < self._idle_s and not self._poll.poll(0)

    async def exchange(
        self,
        data: bytes,
        *,
        method: str,
        limit: int,
        places: asyncio.Semaphore,
        until: float = math.inf,
        listener: Listener | None = None,
        last: bool = False,
    ) -> Reply:
        """Sends the bytes of one request and returns its answer, with at most `limit` bytes of body, before `until` (the loop's time).

        With `last` the connection is not used again. Raises `UnsentError` where the connection had ended before, `BrokenError`,
        `TimedOutError` and `UndecodableError`; after each of them, and when it is cancelled, the connection is closed.
        """
        transport = self._transport
        if transport is None or transport.is_closing() or self._active:
            raise UnsentError("the connection was closed at once")
        self._begin(method, limit, listener)
        self._active = True
        self._heard, self._until = self._loop.time(), until
        if self._timer is None:
            self._watch()
        elif until < self._due:  # whose limit only ever moved on, until now
            self._timer.cancel()
            self._watch()
        try:
            transport.write(data)
            while (outcome := self._outcome) is None:
                self._waiter = self._loop.create_future()
                await self._waiter
                if self._turn is False and self._outcome is None:
                    await self._take_turn(places)
            if isinstance(outcome, Exception):
                raise outcome  # noqa: TRY301 - one frame less for each call under way
            return outcome  # noqa: TRY300 - what is below is said of every ending
        except BaseException:
            self.close()
            raise
        finally:
            # A server that answers before it has read a request may take what is left of it for the next one.
            if last or not self._keep or transport.get_write_buffer_size():
                self.close()
            if self._turn:
                places.release()
            self._active = False
            self._heard = self._loop.time()
            # The parser and this hold each other: what they have would stay until the collector comes.
            self._parser = self._body = self._outcome = self._waiter = self._listener = None

    async def _take_turn(self, places: asyncio.Semaphore) -> None:
        """Reads on once there is a place; until then the body waits at its server."""
        try:
            async with asyncio.timeout_at(self._until if self._until < math.inf else None):
                await places.acquire()
        except TimeoutError:
            raise TimedOutError from None
        self._turn = True
        self._heard = self._loop.time()
        if self._outcome is None and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        """Ends the connection at once."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport.abort()

    # What the event loop says.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
        self._heard = self._loop.time()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._settle(BrokenError())
        self.close()

    def eof_received(self) -> None:
        """The end of an answer that has no length; of any other it is a break. Either way the transport closes itself."""
        if self._until_closed and self._said_to_end():
            self._end()

    def _said_to_end(self) -> bool:
        """Whether TLS, where it is spoken, was told that nothing follows: else anybody on the way may have cut the answer."""
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
            if self._status:
                self._read_body(data)
            else:
                self._read_heads(data)
        except (BrokenError, UndecodableError) as error:
            self._settle(error)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            if self._outcome is None:
                self._settle(BrokenError())
            self._keep = False  # what stands behind the answer is none

    def _read_heads(self, data: bytes) -> None:
        """Reads up to the head of the answer, which interim ones may stand in front of (RFC 9110, section 15.2)."""
        pending = self._pending
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
        if (
            len(pending) + self._heads_size > _MAX_HEADS_SIZE
            or pending[: len(_BEGINS)] != _BEGINS[: len(pending)]
            or _BARE_LF.search(pending, max(0, searched - 1))
        ):
            raise BrokenError  # it will never be a head

    def _read_head(self, head: bytes) -> bool:
        """Whether it is that of the answer. Raises `BrokenError` for what is no head, or frames its body in more than one way."""
        if _HEAD.fullmatch(head) is None:
            raise BrokenError
        status = int(head[9:12])
        if status < 200:
            if status == 101:  # an upgrade nobody asked for
                raise BrokenError
            return False
        old = head[7:8] == b"0"
        headers = self._headers
        close = old
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
        # RFC 9112, sections 6.1 and 6.3: chunks beside a length, or in HTTP/1.0, and any other coding, are framed by nobody alike.
        if coding is not None and (old or length is not None or coding.lower() != "chunked"):
            raise BrokenError
        if length is not None and not _LENGTH.match(length):
            raise BrokenError
        self._status, self._keep = status, not close
        if self._method == "HEAD" or status in _BODILESS:
            # After HEAD a server may send the body all the same, sooner or later.
            self._keep = self._keep and self._method != "HEAD"
            self._end()
            return True
        self._body = Body(headers.get("content-encoding", ""), self._limit)
        if self._listener is not None and not self._listener.wants(headers):
            self._listener = None
        self._parser = httptools.HttpResponseParser(self)
        self._until_closed = length is None and coding is None
        self._parser.feed_data(head)
        return True

    def _read_body(self, data: bytes) -> None:
        parser, outcome = self._parser, self._outcome
        if parser is None or outcome is not None:
            self._keep = False  # it stands behind the answer
            return
        self._received += len(data)
        parser.feed_data(data)
        if self._outcome is not None:
            self._keep = self._keep and self._ends_with(data)
            return
        # Extensions of chunks and trailers: none of it goes on for ever.
        if self._received - self._carried > _MAX_HEADS_SIZE + _FRAMING * self._carried:
            raise BrokenError
        body = self._body
        if body is not None and body.size > ORDINARY and self._turn is None and self._transport is not None:
            self._turn = False
            self._transport.pause_reading()
            self._settle(None)

    def _ends_with(self, data: bytes) -> bool:
        """Whether the answer ended where these bytes, its last ones, did: llhttp passes over line breaks behind it."""
        length = self._headers.get("content-length")
        if length is not None:
            return self._received == int(length)
        return data[-4:] == b"\r\n\r\n" and data[-6:-4] != b"\r\n"

    # What llhttp says. An exception here would come out wrapped, so it settles the exchange instead.

    def on_message_begin(self) -> None:
        if self._outcome is not None:
            self._keep = False  # an answer to nothing stands behind it

    def on_body(self, data: bytes) -> None:
        body = self._body
        if self._outcome is not None or body is None:
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
            self._settle(Reply(status=self._status, headers=self._headers, body=body.so_far(), truncated=False))
        elif body.full:
            self._keep = False
            self._end()

    def _end(self) -> None:
        """The answer is whole, or as much of it as is read."""
        body = self._body
        if self._outcome is not None:
            return
        try:
            content = b"" if body is None else body.end()
        except UndecodableError as error:
            self._settle(error)
            return
        if (said := _KEEP_ALIVE.search(self._headers.get("keep-alive", ""))) is not None:
            # A connection that its server closes while a request is on its way leaves the outcome of that request unknown.
            self._idle_s = min(MAX_IDLE_S, max(0.0, int(said[1]) - _ON_THE_WAY_S))
        truncated = body is not None and body.full
        self._keep = self._keep and not self._until_closed
        self._settle(Reply(status=self._status, headers=self._headers, body=content, truncated=truncated))

    on_message_complete = _end

    def _settle(self, outcome: Reply | Exception | None) -> None:
        """The exchange has ended, if one is under way; the first outcome counts. With None it goes on, and has to take its turn."""
        if self._active and self._outcome is None:
            self._outcome = outcome
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_result(None)

    def _watch(self) -> None:
        """Looks when the next limit could be reached. One timer serves many exchanges: what happens meanwhile only moves the limit on."""
        self._timer = None
        if self._transport is None:
            return
        now = self._loop.time()
        if not self._active:
            due = self._heard + self._idle_s
            if now >= due:
                self.close()
                return
        else:
            if self._turn is False:
                self._heard = now  # it is the gateway that keeps the server waiting
            due = min(self._heard + self._read_s, self._until)
            if now >= due:
                self._settle(TimedOutError())
                return
        self._due = due
        self._timer = self._loop.call_at(due, self._watch)
