"""Server-Sent Events of graphql-sse's distinct connections mode: `next` with a result, `complete` at the end.

graphql-transport-ws over the `websockets` library, connected to an address that was checked and to no other.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import orjson
from pyreqwest.client import Client
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI
from websockets.frames import CloseCode
from websockets.typing import Subprotocol

from toolgen.execute.http.request_builder import Request
from toolgen.model.schema import Json, JsonObject

__all__ = ["HEARD", "Refused", "Unaccepted", "events_of", "messages_of"]

HEARD = b""  # the service is there, and what it said is no event
_MAX_EVENT_LENGTH = 1024 * 1024


class Refused(Exception):  # noqa: N818 - an answer, not a fault
    """The service would not start the subscription, or ended it. `reason` is in its words."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Unaccepted(Refused):
    """The service does not accept the credential, and nothing was begun."""


async def events_of(client: Client, request: Request) -> AsyncIterator[bytes | None]:
    """`HEARD`, the payload of each `next` event, then None. Raises `Refused` for an answer that is no event stream, and
    `Unaccepted` for 401."""
    # Nothing is read ahead: 64 KiB, which is the default, are hours of small events.
    builder = client.request(request.method, request.url).streamed_read_buffer_limit(0)
    for name, value in request.headers:
        builder = builder.header(name, value, is_sensitive=True)
    if request.body is not None:
        builder = builder.body_bytes(request.body)
    async with builder.build_streamed() as response:
        kind = (response.get_header("content-type") or "").partition(";")[0].strip().lower()
        if response.status == 401:
            raise Unaccepted("it answered 401: it does not accept the credential")
        if response.status != 200 or kind != "text/event-stream":
            raise Refused(f"it answered {response.status} with {kind[:60] or 'nothing'} and no event stream")
        yield HEARD
        blocks = _Blocks()
        while (chunk := await response.body_reader.read_chunk()) is not None:
            yield HEARD
            for block in blocks.feed(bytes(chunk)):
                event, data = _event(block)
                if event == b"complete":
                    yield None
                    return
                if event == b"next":
                    yield data


class _Blocks:
    """Cuts a stream at its empty lines, in time that is linear in what comes, in however small pieces it comes."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._carriage = False  # whether the last piece ended with CR, which an LF may still belong to

    def feed(self, chunk: bytes) -> list[bytes]:
        """The blocks that are whole now. Raises `Refused`."""
        if self._carriage and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._carriage = chunk.endswith(b"\r") if chunk else self._carriage
        seen = max(len(self._pending) - 1, 0)
        self._pending += chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        whole: list[bytes] = []
        start = 0
        while (end := self._pending.find(b"\n\n", max(seen, start))) >= 0:
            whole.append(bytes(self._pending[start:end]))
            start = end + 2
        del self._pending[:start]
        if len(self._pending) > _MAX_EVENT_LENGTH:
            raise Refused("one event was larger than the gateway reads")
        return whole


def _event(block: bytes) -> tuple[bytes, bytes]:
    """The name and the data of one event (WHATWG HTML, section 9.2.6); comments and other fields are left out."""
    name, data = b"", []
    for line in block.split(b"\n"):
        key, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if key == b"event":
            name = value
        elif key == b"data":
            data.append(value)
    return name, b"\n".join(data)


_PROTOCOL = Subprotocol("graphql-transport-ws")
_ID = "1"
_MAX_MESSAGE_SIZE = 1024 * 1024
_OPEN_S = 10.0
_UNACCEPTED = frozenset({4401, 4403})  # what graphql-transport-ws closes with upon a credential that is none
_OWN_HEADERS = frozenset({"accept", "content-type", "user-agent"})


class _Connect(connect):
    """Follows no redirect: where it leads was not checked."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


async def messages_of(
    url: str, headers: tuple[tuple[str, str], ...], address: str, request: JsonObject
) -> AsyncIterator[bytes | None]:
    """`HEARD`, the payload of each `next` and `error` message, then None. Raises `Refused`, and `OSError` where there is no connection."""
    shown = [(name, value) for name, value in headers if name.lower() not in _OWN_HEADERS]
    connection = _Connect(
        url,
        host=address,
        additional_headers=shown,
        user_agent_header="toolgen",
        subprotocols=[_PROTOCOL],
        compression=None,
        proxy=None,
        max_size=_MAX_MESSAGE_SIZE,
        open_timeout=_OPEN_S,
        close_timeout=1,
    )
    try:
        async with connection as socket:
            if socket.subprotocol != _PROTOCOL:
                raise Refused("it does not speak graphql-transport-ws")
            async for payload in _conversation(socket, dict(shown), request):
                yield payload
    except InvalidStatus as error:
        if error.response.status_code == 401:
            raise Unaccepted("it answered 401: it does not accept the credential") from None
        raise Refused(f"it answered {error.response.status_code} and opened no WebSocket") from None
    except ConnectionClosed as error:
        closed = error.rcvd
        if closed is not None and closed.code in _UNACCEPTED:
            raise Unaccepted(f"it closed the connection ({closed.code} {closed.reason})") from None
        if error.sent is not None and error.sent.code == CloseCode.MESSAGE_TOO_BIG:
            raise Refused("one message was larger than the gateway reads") from None
        raise Refused(f"it closed the connection ({closed.code} {closed.reason})" if closed else "it hung up") from None
    except (InvalidHandshake, InvalidURI) as error:
        raise Refused(f"it opened no WebSocket ({type(error).__name__})") from None


async def _conversation(
    socket: ClientConnection, credentials: dict[str, str], request: JsonObject
) -> AsyncIterator[bytes | None]:
    # Servers that see no headers behind their WebSocket look for the credential in the first message.
    await _send(socket, {"type": "connection_init", "payload": dict(credentials)})
    begun = False
    async for message in socket:
        received = _parsed(message)
        match received.get("type"):
            case "connection_ack" if begun:
                pass
            case "connection_ack":
                begun = True
                yield HEARD
                await _send(socket, {"id": _ID, "type": "subscribe", "payload": request})
            case "ping":
                if begun:
                    yield HEARD
                await _send(socket, {"type": "pong"})
            case "next" | "error" | "complete" if not begun:
                raise Refused("it told something before it acknowledged the connection")
            case "next" | "error" | "complete" if received.get("id") != _ID:
                raise Refused("it told something that nobody subscribed to")
            case "next" | "error":
                yield orjson.dumps(received.get("payload"))
                if received["type"] == "error":
                    return
            case "complete":
                yield None
                return
            case "pong":
                pass
            case _:
                raise Refused("it sent a message that is not of graphql-transport-ws")


async def _send(socket: ClientConnection, message: dict[str, Json]) -> None:
    await socket.send(orjson.dumps(message, default=dict).decode())


def _parsed(message: str | bytes) -> dict[str, Any]:
    try:
        received = orjson.loads(message)
    except orjson.JSONDecodeError:
        received = None
    if not isinstance(received, dict):
        raise Refused("it sent a message that is no JSON object")
    return received
