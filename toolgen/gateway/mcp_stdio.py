"""MCP over a pair of byte streams: one message a line, many calls at a time, each answered when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import threading
from collections.abc import Iterator
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
_CHUNK = 65_536


async def serve_streams(gateway: Facade, principal: Principal, source: BinaryIO, sink: BinaryIO) -> None:
    """Answers the messages of `source` on `sink` until `source` ends; the calls in flight then run to their end.

    `source` is unbuffered: its `read` returns what has arrived. A thread that still waits in a buffered one when the interpreter ends
    aborts the process.
    """
    session = _Session(gateway, principal, sink)
    lines = _Lines(source)
    async with asyncio.TaskGroup() as group:
        while line := await lines.next():
            await session.take(line, group)


class _Session:
    """One peer, whose identity is the process it started. Each message says its era: one with the modern `_meta` is modern."""

    def __init__(self, gateway: Facade, principal: Principal, sink: BinaryIO) -> None:
        self._gateway = gateway
        self._mcp = Mcp(gateway, Listings(gateway))
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
        if len(line) > LARGEST_BODY:
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
            reply = await self._reply(message, request)
            if request not in self._muted:
                await self._write(reply)
        finally:
            self._open.discard(request)
            self._muted.discard(request)
            self._slots.release()

    async def _reply(self, message: Message, request: int | str) -> Reply:
        """The policy may have changed since the process was started: each message is answered as it stands now."""
        principal = self._gateway.current(self._principal)
        if principal is None:
            return failed(request, Fault(code=INVALID_REQUEST, message="the policy has this principal no more"))
        era = Era.MODERN if claimed_version(message) else Era.HANDSHAKE
        return await self._mcp.answer(
            message, era=era, caller=Caller(principal=principal, client=self._client, session=self._id)
        )

    async def _write(self, reply: Reply) -> None:
        if not reply.body:
            return
        async with self._writing:
            await asyncio.to_thread(_write_all, self._sink, reply.body + b"\n")


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
        with contextlib.suppress(
            OSError, ValueError, RuntimeError
        ):  # the stream or the loop has gone: nobody waits any more
            for line in _split(self._source):
                self._put(line)
            self._put(b"")

    def _put(self, line: bytes) -> None:
        self._room.acquire()
        self._loop.call_soon_threadsafe(self._queue.put_nowait, line)


def _split(source: BinaryIO) -> Iterator[bytes]:
    """Lines that hold something, without their end. Of one beyond the cap the front is given, longer than the cap, and the rest dropped."""
    line, dropping = bytearray(), False
    while chunk := source.read(_CHUNK):
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            line += part
            if not dropping and line.strip():
                yield bytes(line)
            line.clear()
            dropping = False
        line += rest
        if dropping:
            line.clear()
        elif len(line) > LARGEST_BODY:
            yield bytes(line)
            dropping = True
    if not dropping and line.strip():
        yield bytes(line)
