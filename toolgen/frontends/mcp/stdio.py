"""MCP over a pair of byte streams: one message a line, many calls at a time, each answered when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import select
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

import msgspec

from toolgen.core.pipe_buffer import POLLS_PIPES
from toolgen.frontends.mcp.client_channel import capabilities_of
from toolgen.frontends.mcp.event_streams import Heard, ListWatch, acknowledged, ended, notification, subscribed
from toolgen.frontends.mcp.messages import (
    ALONE,
    BATCHED_VERSION,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    Caller,
    ProtocolStyle,
    RpcFault,
    RpcMessage,
    RpcReply,
    cancelled_request,
    claimed_version,
    client_label,
    envelope_fault,
    failed,
    parse,
    parse_batch,
    request_id,
)
from toolgen.frontends.mcp.server import Mcp
from toolgen.frontends.mcp.subscriptions import UPDATED
from toolgen.frontends.mcp.task_events import session_changes
from toolgen.gateway.calls.json_body import MAX_BODY_SIZE, encode
from toolgen.gateway.catalog.tool_lists import Listings
from toolgen.gateway.protocol import Facade
from toolgen.model.call import Principal
from toolgen.model.caller_requests import ROOTS_CHANGED
from toolgen.model.uri_template import canonical_uri
from toolgen.pipeline.middleware import CallerConnection

__all__ = ["serve_streams"]

log = logging.getLogger("toolgen.gateway")

_FAILED = RpcFault(code=INTERNAL_ERROR, message="the gateway failed; the operator's log says where")
_MAX_AT_ONCE = 64
_MAX_AHEAD = 16
_MAX_UNREAD = 64
_MAX_SUBSCRIPTIONS = 16
_CHUNK = 65_536
_LOOK_S = 0.1


async def serve_streams(gateway: Facade, principal: Principal, source: BinaryIO, sink: BinaryIO) -> None:
    """Answers the messages of `source` on `sink` until `source` ends; the calls in flight then run to their end, for as long as there
    is somebody to read their answers.

    `source` is unbuffered: its `read` returns what has arrived. A thread that still waits in a buffered one when the interpreter ends
    aborts the process.
    """
    session = _StdioSession(gateway, principal, sink)
    lines = _LineReader(source)
    async with asyncio.TaskGroup() as group:
        speaking = [
            group.create_task(work)
            for work in (session.speak(), session.watch(), session.tell(), session.update(), session.tell_pages())
        ]
        while line := await lines.next():
            await session.take(line, group)
        await session.end()
        session.stop()
        for task in speaking:
            task.cancel()


class _StdioSession:
    """Session with the process that started the gateway, which is its identity. A message with the 2026-07-28 `_meta` uses that protocol
    style, any other message the handshake style."""

    def __init__(self, gateway: Facade, principal: Principal, sink: BinaryIO) -> None:
        self._gateway = gateway
        self._mcp = Mcp(gateway, Listings(gateway))
        self._principal = principal
        self._sink = sink
        self._id = secrets.token_hex(16)
        self._client = ""
        self._greeted = False
        self._version = ""
        self._subscriptions: dict[int | str, Heard] = {}
        self._acknowledged: dict[int | str, Heard] = {}
        self._changed: asyncio.Queue[str] = asyncio.Queue(_MAX_UNREAD)
        self._capabilities: frozenset[str] = frozenset()
        self._said: asyncio.Queue[bytes] = asyncio.Queue(_MAX_UNREAD)
        self._open: dict[
            CallerConnection, int | str
        ] = {}  # two requests with one id, which no client may send, are two
        self._batches = 0
        self._slots = asyncio.Semaphore(_MAX_AT_ONCE)

    async def take(self, line: bytes, group: asyncio.TaskGroup) -> None:
        """Starts on one line; returns at once unless as many calls are running as may."""
        if len(line) > MAX_BODY_SIZE:
            too_long = RpcFault(code=INVALID_REQUEST, message=f"the message is larger than {MAX_BODY_SIZE} bytes")
            await self._write(failed(None, too_long))
            return
        if self._version == BATCHED_VERSION and line.lstrip().startswith(b"["):
            messages = parse_batch(line)
            if isinstance(messages, RpcReply):
                await self._write(messages)
            else:
                await self._slots.acquire()
                self._batches += 1
                group.create_task(self._batch(messages))
            return
        parsed = parse(line)
        if isinstance(parsed, RpcReply):
            await self._write(parsed)
            return
        self._note(parsed)
        if parsed.method is msgspec.UNSET:
            group.create_task(self._respond(parsed))
            return
        if parsed.method == "subscriptions/listen" and isinstance(parsed.id, (int, str)) and claimed_version(parsed):
            await self._listen(parsed, parsed.id, group)
            return
        if isinstance(parsed.id, (int, str)) and isinstance(parsed.method, str):
            await self._slots.acquire()
            caller_connection = CallerConnection()
            caller_connection.local = True
            self._open[caller_connection] = parsed.id
            group.create_task(self._answer(parsed, parsed.id, caller_connection))

    async def speak(self) -> None:
        """Writes what is said, in the order in which it was said."""
        while True:
            body = await self._said.get()
            await asyncio.to_thread(_write_all, self._sink, body + b"\n")
            self._said.task_done()

    async def watch(self) -> None:
        """Says when the lists of this peer have changed, once it has shaken hands."""
        lists = ListWatch(self._mcp, self._principal, CallerConnection(), asyncio.Event())
        async for changed in lists.changes():
            for method in sorted(changed) if self._greeted else ():
                await self._said.put(notification(method, {}))
            for subscription, heard in tuple(self._acknowledged.items()):
                for method in sorted(changed & heard.lists):
                    await self._said.put(notification(method, {"_meta": subscribed(subscription)}))

    async def update(self) -> None:
        """Says when a resource has changed that this peer subscribed to."""
        changed, subscriptions = self._changed, self._mcp.subscriptions
        with (
            self._gateway.context.updates.listening(changed),
            subscriptions.waking(self._principal, self._id, changed),
            self._gateway.context.followed.following(self._principal) as following,
        ):
            while True:
                asked = {canonical_uri(uri) or "" for heard in self._subscriptions.values() for uri in heard.uris}
                following.follow({*subscriptions.of_session(self._principal, self._id), *asked} - {""})
                uri = await changed.get()
                if (written := self._mcp.subscriptions.written(self._principal, self._id, uri)) is not None:
                    await self._said.put(notification(UPDATED, {"uri": written}))
                for subscription, heard in tuple(self._acknowledged.items()):
                    for one in self._mcp.subscriptions.readable(self._principal, heard.uris, uri):
                        params = {"uri": one, "_meta": subscribed(subscription)}
                        await self._said.put(notification(UPDATED, params))

    async def tell(self) -> None:
        """Says how the tasks of this peer go on."""
        async for message in session_changes(self._mcp.tasks, self._principal, self._id):
            await self._said.put(encode(message))

    def stop(self) -> None:
        """Wait for nothing any more."""
        self._mcp.pages.stop()

    async def tell_pages(self) -> None:
        """Tell this peer that web pages are done that it was shown."""
        with self._mcp.pages.listening(self._principal, self._id) as pages:
            async for body in pages.notifications():
                await self._said.put(body)

    async def end(self) -> None:
        """Waits for the answers on their way. Where nobody is left to read them, the client has disconnected."""
        while self._open or self._batches:
            if _unread(self._sink):
                for caller_connection in self._open:
                    caller_connection.leave()
                return
            await asyncio.sleep(_LOOK_S)
        for subscription in tuple(self._subscriptions):
            await self._said.put(ended(subscription))
        await self._said.join()

    async def _listen(self, message: RpcMessage, request: int | str, group: asyncio.TaskGroup) -> None:
        """`subscriptions/listen` (2026-07-28): its answer comes when it ends."""
        fault = envelope_fault(message)
        params = message.params if isinstance(message.params, dict) else {}
        wanted = params.get("notifications")
        if fault is None and not isinstance(wanted, dict):
            fault = RpcFault(code=INVALID_PARAMS, message="params.notifications must be an object")
        if fault is None and len(self._subscriptions) >= _MAX_SUBSCRIPTIONS:
            fault = RpcFault(code=INVALID_REQUEST, message="too many subscriptions are open already")
        if fault is not None:
            await self._write(failed(request, fault))
            return
        heard = Heard.of(wanted if isinstance(wanted, dict) else {})
        if isinstance(heard, RpcFault):
            await self._write(failed(request, heard))
            return
        self._subscriptions[request] = heard
        self._wake()
        group.create_task(self._acknowledge(request, heard))

    async def _acknowledge(self, request: int | str, heard: Heard) -> None:
        """Acknowledge a subscription once the systems of its resources tell of changes."""
        with self._gateway.context.followed.following(self._principal) as following:
            following.follow({canonical_uri(uri) or "" for uri in heard.uris} - {""})
            await following.settled()
        if self._subscriptions.get(request) is heard:
            self._acknowledged[request] = heard
            await self._said.put(acknowledged(request, heard))

    def _wake(self) -> None:
        """Have the resources that are listened to looked at again."""
        with contextlib.suppress(asyncio.QueueFull):
            self._changed.put_nowait("")

    def _note(self, message: RpcMessage) -> None:
        """Store the client's name and capabilities from `initialize`, and apply a cancellation."""
        params = message.params if isinstance(message.params, dict) else {}
        if message.method == "initialize":
            self._client = client_label(params.get("clientInfo"))
            self._capabilities = capabilities_of(params.get("capabilities"))
            self._greeted = True
            self._version = str(params.get("protocolVersion"))
        elif message.method == ROOTS_CHANGED:
            self._mcp.roots_changed(self._principal, self._capabilities)
        elif (request := cancelled_request(message)) is not None and request in self._subscriptions:
            del self._subscriptions[request]
            self._acknowledged.pop(request, None)
            self._wake()
        elif (request := cancelled_request(message)) is not None:
            for caller_connection, asked in self._open.items():
                if asked == request:
                    caller_connection.leave()

    async def _answer(self, message: RpcMessage, request: int | str, caller_connection: CallerConnection) -> None:
        reply = failed(request, _FAILED)
        try:
            with _bounded():
                reply = await self._reply(message, request, caller_connection, send=self._said.put_nowait)
            if not caller_connection.disconnected():
                await self._write(reply)
        finally:
            del self._open[caller_connection]
            self._slots.release()

    async def _batch(self, messages: Sequence[RpcMessage | RpcReply]) -> None:
        """Answer a batch in one piece (JSON-RPC 2.0, section 6), its requests one after the other."""
        try:
            bodies = [reply.body for message in messages if (reply := await self._batched(message)) and reply.body]
            if bodies:
                await self._said.put(b"[%b]" % b",".join(bodies))
        finally:
            self._batches -= 1
            self._slots.release()

    async def _batched(self, message: RpcMessage | RpcReply) -> RpcReply | None:
        if isinstance(message, RpcReply):
            return message
        if message.method == "initialize":
            return failed(request_id(message), ALONE)
        self._note(message)
        if message.method is msgspec.UNSET:
            await self._respond(message)
            return None
        if not isinstance(message.id, (int, str)):
            return None
        caller_connection, reply = CallerConnection(), failed(message.id, _FAILED)
        caller_connection.local = True
        self._open[caller_connection] = message.id
        try:
            with _bounded():
                reply = await self._reply(message, message.id, caller_connection, send=None)
        finally:
            del self._open[caller_connection]
        return None if caller_connection.disconnected() else reply

    async def _respond(self, message: RpcMessage) -> None:
        with _bounded():
            await self._mcp.respond(message, self._principal)

    async def _reply(
        self,
        message: RpcMessage,
        request: int | str,
        caller_connection: CallerConnection,
        *,
        send: Callable[[bytes], None] | None,
    ) -> RpcReply:
        """The policy may have changed since the process was started: each message is answered as it stands now."""
        principal = self._gateway.callers.current(self._principal)
        if principal is None:
            return failed(request, RpcFault(code=INVALID_REQUEST, message="the policy has this principal no more"))
        protocol_style = ProtocolStyle.STATELESS if claimed_version(message) else ProtocolStyle.STATEFUL
        caller = Caller(
            principal=principal,
            client=self._client,
            connection=self._id,
            caller_connection=caller_connection,
            capabilities=self._capabilities,
            send=send,
        )
        return await self._mcp.answer(message, protocol_style=protocol_style, caller=caller)

    async def _write(self, reply: RpcReply) -> None:
        if reply.body:
            await self._said.put(reply.body)


@contextlib.contextmanager
def _bounded() -> Iterator[None]:
    """The outermost boundary of one message: whatever happens to it, the others go on."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - as above
        log.error("a message ended in %s", type(error).__name__)  # noqa: TRY400 - its text may hold anything


def _unread(sink: BinaryIO) -> bool:
    """Return True if the other end of a pipe or socket is closed; False for a file, and where the system does not tell."""
    try:
        file = sink.fileno()
    except (OSError, ValueError):
        return False
    if not POLLS_PIPES:
        return False
    poll = select.poll()
    poll.register(file, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


def _write_all(sink: BinaryIO, data: bytes) -> None:
    """Writes everything; a peer that has gone reads nothing, and its calls end all the same."""
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[sink.write(rest) :]
        sink.flush()
    except (BrokenPipeError, ValueError):
        return


class _LineReader:
    """Lines as a thread reads them: any kind of file works, and a read that never returns does not keep the process alive."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._room = threading.Semaphore(_MAX_AHEAD)
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
        elif len(line) > MAX_BODY_SIZE:
            yield bytes(line)
            dropping = True
    if not dropping and line.strip():
        yield bytes(line)
