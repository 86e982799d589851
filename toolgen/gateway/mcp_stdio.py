"""MCP over a pair of byte streams: one message a line, many calls at a time, each answered when it ends."""

from __future__ import annotations

import asyncio
import secrets
import threading
from typing import BinaryIO

from toolgen.gateway.facade import Facade
from toolgen.gateway.listings import Listings
from toolgen.gateway.mcp import (
    INVALID_REQUEST,
    Caller,
    Era,
    Fault,
    Mcp,
    Message,
    Reply,
    claimed_version,
    client_label,
    failed,
    parse,
)
from toolgen.gateway.wire import LARGEST_BODY
from toolgen.model.call import Principal

__all__ = ["serve_streams"]

_MOST_AT_ONCE = 64
_MOST_AHEAD = 16


async def serve_streams(gateway: Facade, principal: Principal, source: BinaryIO, sink: BinaryIO) -> None:
    """Answers the messages of `source` on `sink` until `source` ends; the calls in flight then run to their end."""
    session = _Session(Mcp(gateway, Listings(gateway)), principal, sink)
    lines = _Lines(source)
    async with asyncio.TaskGroup() as group:
        while line := await lines.next():
            await session.take(line, group)


class _Session:
    """One peer, whose identity is the process it started. Each message says its era: one with the modern `_meta` is modern."""

    def __init__(self, mcp: Mcp, principal: Principal, sink: BinaryIO) -> None:
        self._mcp = mcp
        self._principal = principal
        self._sink = sink
        self._id = secrets.token_hex(16)
        self._client = ""
        self._muted: set[int | str] = set()
        self._open: set[int | str] = set()
        self._writing = asyncio.Lock()
        self._slots = asyncio.Semaphore(_MOST_AT_ONCE)

    async def take(self, line: bytes, group: asyncio.TaskGroup) -> None:
        """Starts on one line; returns at once unless as many calls are running as may."""
        if not line.strip():
            return
        if _cut(line):
            too_long = Fault(code=INVALID_REQUEST, message=f"the message is larger than {LARGEST_BODY} bytes")
            await self._write(failed(None, too_long))
            return
        parsed = parse(line)
        if isinstance(parsed, Reply):
            await self._write(parsed)
            return
        self._note(parsed)
        if isinstance(parsed.id, (int, str)) and isinstance(parsed.method, str):
            await self._slots.acquire()
            self._open.add(parsed.id)
            group.create_task(self._answer(parsed, parsed.id))

    def _note(self, message: Message) -> None:
        """What outlives a message: who the client says it is, and answers it no longer waits for."""
        params = message.params if isinstance(message.params, dict) else {}
        if message.method == "initialize":
            self._client = client_label(params.get("clientInfo"))
        elif message.method == "notifications/cancelled":
            request = params.get("requestId")
            if isinstance(request, (int, str)) and request in self._open:
                self._muted.add(request)

    async def _answer(self, message: Message, request: int | str) -> None:
        try:
            era = Era.MODERN if claimed_version(message) else Era.HANDSHAKE
            caller = Caller(principal=self._principal, client=self._client, session=self._id)
            reply = await self._mcp.answer(message, era=era, caller=caller)
            if request not in self._muted:
                await self._write(reply)
        finally:
            self._open.discard(request)
            self._muted.discard(request)
            self._slots.release()

    async def _write(self, reply: Reply) -> None:
        if not reply.body:
            return
        async with self._writing:
            await asyncio.to_thread(_write_all, self._sink, reply.body + b"\n")


def _cut(line: bytes) -> bool:
    """Whether a line was longer than a message may be, and this is only the front of it."""
    return len(line) > LARGEST_BODY and not line.endswith(b"\n")


def _write_all(sink: BinaryIO, data: bytes) -> None:
    """Writes everything; a peer that has gone reads nothing, and its calls end all the same."""
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[sink.write(rest) :]
        sink.flush()
    except (BrokenPipeError, ValueError):
        return


class _Lines:
    """Lines as a thread reads them: any kind of file works, and a read that never returns does not keep the process alive."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._room = threading.Semaphore(_MOST_AHEAD)
        threading.Thread(target=self._read, name="toolgen-stdin", daemon=True).start()

    async def next(self) -> bytes:
        """The next line, or the front of one that is too long; empty at the end."""
        line = await self._queue.get()
        self._room.release()
        return line

    def _read(self) -> None:
        try:
            while line := self._source.readline(LARGEST_BODY + 1):
                self._put(line)
                while _cut(line):
                    line = self._source.readline(LARGEST_BODY + 1)
            self._put(b"")
        except (OSError, ValueError, RuntimeError):
            return  # the loop or the stream has gone; nobody waits for a line any more

    def _put(self, line: bytes) -> None:
        self._room.acquire()
        self._loop.call_soon_threadsafe(self._queue.put_nowait, line)
