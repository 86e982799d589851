"""Protocol graphql-transport-ws over `websockets` (extra `subscriptions`), connected only to the checked address."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI
from websockets.frames import CloseCode
from websockets.typing import Subprotocol

from toolgen.connectors.graphql.subscription_events import HEARD, CredentialRejected, SubscriptionRefused
from toolgen.connectors.http.reply import UnsentError
from toolgen.connectors.http.tls import tls_context
from toolgen.core.json_codec import TooDeepError, decode_json
from toolgen.model.schema import Json, JsonObject

if TYPE_CHECKING:
    from toolgen.connectors.http.proxy_tunnel import Tunnel

__all__ = ["messages_of"]

_PROTOCOL = Subprotocol("graphql-transport-ws")
_ID = "1"
_MAX_MESSAGE_SIZE = 1024 * 1024
_OPEN_S = 10.0
_UNACCEPTED = frozenset({4401, 4403})  # close codes of graphql-transport-ws for a rejected credential
_OWN_HEADERS = frozenset({"accept", "content-type", "user-agent"})


class _Connect(connect):
    """Connection that follows no redirect, because the target was not checked."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        return exc


async def messages_of(
    url: str, headers: tuple[tuple[str, str], ...], address: str | Tunnel | None, request: JsonObject
) -> AsyncIterator[bytes | None]:
    """Yield `HEARD`, the payload of each `next` and `error`, then None. Raises `SubscriptionRefused` and `OSError` (no connection)."""
    where = {"host": address} if isinstance(address, str) else await _tunnelled(url, address)
    shown = [(name, value) for name, value in headers if name.lower() not in _OWN_HEADERS]
    connection = _Connect(
        url,
        **where,
        additional_headers=shown,
        user_agent_header="toolgen",
        subprotocols=[_PROTOCOL],
        compression=None,
        proxy=None,
        max_size=_MAX_MESSAGE_SIZE,
        open_timeout=_OPEN_S,
        close_timeout=1,
    )
    socket: ClientConnection | None = None
    try:
        async with connection as socket:
            if socket.subprotocol != _PROTOCOL:
                raise SubscriptionRefused("it does not speak graphql-transport-ws")
            async for payload in _conversation(socket, dict(shown), request):
                yield payload
    except InvalidStatus as error:
        if error.response.status_code == 401:
            raise CredentialRejected("it answered 401: it does not accept the credential") from None
        raise SubscriptionRefused(f"it answered {error.response.status_code} and opened no WebSocket") from None
    except ConnectionClosed as error:
        closed = error.rcvd
        if closed is not None and closed.code in _UNACCEPTED:
            raise CredentialRejected(f"it closed the connection ({closed.code} {closed.reason})") from None
        if error.sent is not None and error.sent.code == CloseCode.MESSAGE_TOO_BIG:
            raise SubscriptionRefused("one message was larger than the gateway reads") from None
        raise SubscriptionRefused(
            f"it closed the connection ({closed.code} {closed.reason})"
            if closed
            else "it closed the connection without a code"
        ) from None
    except (InvalidHandshake, InvalidURI) as error:
        raise SubscriptionRefused(f"it opened no WebSocket ({type(error).__name__})") from None
    finally:
        if socket is not None:  # a cancelled closing handshake leaves the connection open
            socket.transport.abort()


async def _tunnelled(url: str, tunnel: Tunnel | None) -> dict[str, Any]:
    """Return the arguments of a connection through a proxy. Raises `OSError`."""
    if tunnel is None:
        raise OSError("the service has no address and no proxy")
    from toolgen.connectors.http.proxy_tunnel import authorities_of  # noqa: PLC0415 - for policies with a proxy alone

    try:
        async with asyncio.timeout(_OPEN_S):
            arguments: dict[str, Any] = {"sock": await tunnel.connected_socket()}
        if url.startswith("wss:"):
            arguments["ssl"] = tls_context(authorities=authorities_of(tunnel.proxy))
    except TimeoutError:
        raise OSError(tunnel.late().reason) from None
    except UnsentError as error:
        raise OSError(error.reason) from None
    return arguments


async def _conversation(
    socket: ClientConnection, credentials: dict[str, str], request: JsonObject
) -> AsyncIterator[bytes | None]:
    # Servers that do not see the headers of their WebSocket read the credential from the first message.
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
                raise SubscriptionRefused("it sent a message before it acknowledged the connection")
            case "next" | "error" | "complete" if received.get("id") != _ID:
                raise SubscriptionRefused("it sent a message about an unknown subscription")
            case "next" | "error":
                yield msgspec.json.encode(received.get("payload"))
                if received["type"] == "error":
                    return
            case "complete":
                yield None
                return
            case "pong":
                pass
            case _:
                raise SubscriptionRefused("it sent a message that is not of graphql-transport-ws")


async def _send(socket: ClientConnection, message: dict[str, Json]) -> None:
    await socket.send(msgspec.json.encode(message, enc_hook=dict).decode())


def _parsed(message: str | bytes) -> dict[str, Any]:
    try:
        received = decode_json(message.encode() if isinstance(message, str) else message)
    except TooDeepError as error:
        raise SubscriptionRefused(f"it sent a message {error}") from None
    except ValueError:
        received = None
    if not isinstance(received, dict):
        raise SubscriptionRefused("it sent a message that is not a JSON object")
    return received
