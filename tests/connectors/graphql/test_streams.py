"""Subscriptions to services that misbehave: never begin, never end, trickle, send what is no message, or close with a reason."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, cast

import pytest

from tests.services.authorization import serving as authorizing
from tests.services.authorization import token as issued
from tests.services.library import serving
from tests.stream_servers import stream_server
from toolgen.connectors.graphql.graphql_transport_ws import messages_of
from toolgen.connectors.graphql.subscriptions import SubscriptionListener
from toolgen.connectors.http.connector import system_resolver
from toolgen.connectors.http.credentials import CredentialSelector, Provision
from toolgen.connectors.http.oauth.tokens import OAuthClients
from toolgen.connectors.secrets import SecretReference, SecretResolver
from toolgen.core.clock import SystemClock
from toolgen.model.auth import parsed_auth
from toolgen.model.call import Principal
from toolgen.model.manifest import SecurityScheme
from toolgen.model.result import Failed, Success
from toolgen.model.tool import GraphQLSubscription
from toolgen.model.verdict import Allow

REQUEST: dict[str, Any] = {"query": "subscription { a }", "variables": {}, "operationName": None}
BEARER = {"bearer": SecurityScheme(type="http", scheme="bearer")}
Send = Callable[[Any], Awaitable[None]]


def bearer_listener() -> SubscriptionListener:
    return SubscriptionListener(
        selector=CredentialSelector(
            schemes=BEARER, auth={"bearer": SecretReference("literal", "tok-5e3c1")}, secrets=SecretResolver()
        ),
        permit=lambda _: Allow(rule="test"),
        resolver=system_resolver,
        clock=SystemClock(),
    )


async def listen(app: Any, transport: str, *, seconds: float = 60.0, events: int = 2) -> Success | Failed:
    with serving(app) as origin:
        url = origin if transport == "sse" else "ws" + origin.removeprefix("http")
        listener = bearer_listener()
        try:
            subscription = GraphQLSubscription(transport=transport, url=url, events=events, seconds=seconds)
            return await listener.listen(subscription, REQUEST, (("bearer",),), Principal(id="p"))
        finally:
            await listener.close()


def socket(*messages: Any, close: tuple[int, str] | None = None, forever: Any = None) -> Any:
    """A service that accepts, sends these messages whatever it hears, and then closes, repeats one for ever or stays silent."""

    async def app(_: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept", "subprotocol": "graphql-transport-ws"})
        for message in messages:
            await send({"type": "websocket.send", "text": message if isinstance(message, str) else json.dumps(message)})
        if close is not None:
            await send({"type": "websocket.close", "code": close[0], "reason": close[1]})
            return
        left = asyncio.create_task(_left(receive))
        while forever is not None and not left.done():
            await send({"type": "websocket.send", "text": json.dumps(forever)})
            await asyncio.sleep(0.001)
        await left

    return app


def stream(*chunks: bytes, forever: bytes | None = None, cut: bool = False) -> Any:
    """A service that answers with an event stream of these chunks, and then ends, repeats one for ever or breaks off."""

    async def app(_: Any, receive: Any, send: Any) -> None:
        left = asyncio.create_task(_left(receive))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        for chunk in chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await asyncio.sleep(0)
        while forever is not None and not left.done():
            await send({"type": "http.response.body", "body": forever, "more_body": True})
            await asyncio.sleep(0.001)
        if cut:
            left.cancel()
            raise ConnectionResetError
        await send({"type": "http.response.body", "body": b""})
        left.cancel()

    return app


async def _left(receive: Any) -> None:
    """Returns when the other side has gone."""
    while not (await receive())["type"].endswith(".disconnect"):
        pass


ACK = {"type": "connection_ack"}
EVENT = {"type": "next", "id": "1", "payload": {"data": {"a": 1}}}
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3
SWITCHING = (
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Protocol: graphql-transport-ws\r\n"
)
TWO = {"events": [{"a": 1}, {"a": 1}], "ended": "events"}


@pytest.mark.parametrize("app", [socket(), socket(forever={"type": "ping"}), socket({"type": "pong"})])
async def test_a_service_that_never_acknowledges_is_a_timeout_and_no_empty_success(app: Any) -> None:
    answer = await listen(app, "websocket", seconds=0.5)
    assert isinstance(answer, Failed)
    assert answer.error.code == "upstream_timeout"


@pytest.mark.parametrize(
    ("app", "reason"),
    [
        (socket(EVENT), "before"),
        (socket("{"), "not a JSON object"),
        (socket(ACK, "[]"), "not a JSON object"),
        (socket(ACK, {"type": "data", "payload": {}}), "not of graphql-transport-ws"),
        (socket(ACK, {"type": "next", "id": "2", "payload": {}}), "unknown subscription"),
        (socket(ACK, {"type": "next", "id": "1", "payload": "x"}), "not a GraphQL"),
        (socket(close=(4401, "Unauthorized: tok-5e3c1")), "4401 Unauthorized"),
        (socket(ACK, close=(4429, "Too many requests")), "4429"),
        (socket(ACK, "x" * 2**21), "larger than the gateway reads"),
    ],
)
async def test_what_is_no_conversation_is_an_error_that_says_what_it_was(app: Any, reason: str) -> None:
    answer = await listen(app, "websocket")
    assert isinstance(answer, Failed)
    assert answer.error.code == "upstream_error"
    assert reason in answer.error.message
    assert "tok-5e3c1" not in answer.error.message


async def test_a_service_that_acknowledges_twice_is_subscribed_to_once() -> None:
    assert await listen(socket(ACK, ACK, EVENT, EVENT), "websocket") == await listen(
        socket(ACK, EVENT, EVENT), "websocket"
    )


async def test_a_subscription_that_never_says_anything_ends_in_time() -> None:
    answer = await listen(socket(ACK, forever={"type": "ping"}), "websocket", seconds=2)
    assert isinstance(answer, Success)
    assert answer.data == {"events": [], "ended": "seconds"}


async def test_a_connection_whose_goodbye_is_cancelled_is_closed_all_the_same() -> None:
    gone = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        key = next(line.split(": ")[1] for line in head.split("\r\n") if line.lower().startswith("sec-websocket-key"))
        accepted = base64.b64encode(hashlib.sha1(key.encode() + GUID).digest()).decode()
        writer.write(f"{SWITCHING}Sec-WebSocket-Accept: {accepted}\r\n\r\n".encode())
        ack = json.dumps(ACK).encode()
        writer.write(bytes((0x81, len(ack))) + ack)
        with contextlib.suppress(ConnectionError):
            while await reader.read(1024):  # its close is never answered
                pass
        writer.close()
        gone.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    stream = cast(AsyncGenerator[bytes | None, None], messages_of(url, (), "127.0.0.1", REQUEST))
    await anext(stream)
    closing = asyncio.ensure_future(stream.aclose())
    await asyncio.sleep(0.05)
    closing.cancel()
    await asyncio.wait((closing,))
    await asyncio.wait_for(gone.wait(), 10)
    server.close()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


@pytest.mark.parametrize("begun", [b"", HEAD, HEAD + b'event: next\ndata: {"data": {"a": 1}}\n\n'])
async def test_an_event_stream_of_a_call_that_is_cancelled_is_closed_at_once(begun: bytes) -> None:
    """Also where the service has not begun to answer."""
    asked, gone = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(len(json.dumps(REQUEST, separators=(",", ":"))))
        writer.write(begun)
        asked.set()
        await reader.read(1)
        gone.set()

    async with stream_server(serve) as port:
        listener = bearer_listener()
        url = f"http://127.0.0.1:{port}/graphql"
        subscription = GraphQLSubscription(transport="sse", url=url, events=2, seconds=60.0)
        listening = asyncio.create_task(listener.listen(subscription, REQUEST, (("bearer",),), Principal(id="p")))
        await asyncio.wait_for(asked.wait(), 10)
        await asyncio.sleep(0.05)
        listening.cancel()
        await asyncio.wait((listening,))
        await asyncio.wait_for(gone.wait(), 10)
        await listener.close()


@pytest.mark.parametrize(
    "text",
    [
        b'event: next\ndata: {"data": {"a": 1}}\n\n' * 2,
        b'event: next\r\ndata: {"data": {"a": 1}}\r\n\r\n' * 2,
        b'event: next\rdata: {"data": {"a": 1}}\r\r' * 2,
        b': hello\n\nid: 7\nevent: next\ndata: {"data":\ndata: {"a": 1}}\n\n' * 2,
    ],
)
@pytest.mark.parametrize("step", [1, 7, 1000])
async def test_events_are_read_however_they_are_cut_and_whatever_ends_their_lines(text: bytes, step: int) -> None:
    answer = await listen(stream(*(text[at : at + step] for at in range(0, len(text), step))), "sse")
    assert isinstance(answer, Success)
    assert answer.data == TWO


@pytest.mark.parametrize(
    ("app", "seconds", "ended"),
    [
        (stream(forever=b": still here\n\n"), 2.0, "seconds"),
        (stream(b"event: complete\ndata:\n\n", forever=b":\n\n"), 60.0, "complete"),
    ],
)
async def test_a_stream_that_never_ends_is_left(app: Any, seconds: float, ended: str) -> None:
    answer = await listen(app, "sse", seconds=seconds)
    assert isinstance(answer, Success)
    assert answer.data == {"events": [], "ended": ended}


async def test_an_event_is_heard_when_it_is_sent_and_not_when_there_are_enough_of_them() -> None:
    answer = await listen(stream(b'event: next\ndata: {"data": {"a": 1}}\n\n', forever=b":\n\n"), "sse", events=1)
    assert isinstance(answer, Success)
    assert answer.data == {"events": [{"a": 1}], "ended": "events"}


@pytest.mark.parametrize(
    ("app", "code"),
    [
        (stream(forever=b"x" * 65536), "upstream_error"),
        (stream(b"event: next\ndata: {\n\n"), "upstream_error"),
        (stream(b'event: next\ndata: "x"\n\n'), "upstream_error"),
        (stream(b'event: next\ndata: {"data": {"a": 1}}\n\n', cut=True), "upstream_unavailable"),
    ],
)
async def test_what_is_no_event_is_an_error(app: Any, code: str) -> None:
    answer = await listen(app, "sse")
    assert isinstance(answer, Failed)
    assert answer.error.code == code


TOKENS = {"client": SecurityScheme(type="oauth2")}


def unaccepted(app: Any, refuse: Callable[[str], bool], how: Any) -> Any:
    """The service, which refuses some credentials in its own way, before anything is begun; and all that it was shown."""
    seen: list[str] = []

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        shown = dict(scope["headers"]).get(b"authorization", b"").decode()
        seen.append(shown)
        await (how if refuse(shown) else app)(scope, receive, send)

    guarded.seen = seen  # type: ignore[attr-defined]
    return guarded


async def _denied(scope: Any, _: Any, send: Any) -> None:
    kind = "websocket.http.response" if scope["type"] == "websocket" else "http.response"
    await send({"type": f"{kind}.start", "status": 401, "headers": []})
    await send({"type": f"{kind}.body", "body": b"no"})


async def renewing(app: Any, transport: str, tokens: list[str]) -> tuple[Success | Failed, int]:
    """What is heard with OAuth tokens that are given out in this order, and how many were asked for."""

    given = iter(tokens)
    with serving(app) as origin, authorizing(lambda _: issued(next(given))) as service:
        endpoint = service.origin
        url = origin if transport == "sse" else "ws" + origin.removeprefix("http")
        secrets, clock = SecretResolver({"S": "secret"}), SystemClock()
        grants = OAuthClients(secrets=secrets, permit=lambda _: Allow(rule="test"), clock=clock)
        form = parsed_auth({"client_id": "me", "client_secret": "${env:S}", "token_url": f"{endpoint}/token"})
        selector = CredentialSelector(
            schemes=TOKENS,
            auth={"client": form},
            secrets=secrets,
            provision=Provision(grants=grants, assigned=lambda _: None),
        )
        listener = SubscriptionListener(
            selector=selector, permit=lambda _: Allow(rule="test"), resolver=system_resolver, clock=SystemClock()
        )
        try:
            subscription = GraphQLSubscription(transport=transport, url=url, events=2, seconds=20.0)
            found = await listener.listen(subscription, REQUEST, (("client",),), Principal(id="p"))
        finally:
            await listener.close()
            await selector.close()
        return found, len(service.asked)


@pytest.mark.parametrize(
    ("transport", "how", "app"),
    [
        ("sse", _denied, stream(*[b'event: next\ndata: {"data": {"a": 1}}\n\n'] * 2)),
        ("websocket", _denied, socket(ACK, EVENT, EVENT)),
        ("websocket", socket(close=(4401, "Unauthorized")), socket(ACK, EVENT, EVENT)),
        ("websocket", socket(close=(4403, "Forbidden")), socket(ACK, EVENT, EVENT)),
    ],
)
async def test_a_token_that_is_not_accepted_is_replaced_once(transport: str, how: Any, app: Any) -> None:
    mended = unaccepted(app, lambda shown: shown == "Bearer old", how)
    outcome, asked = await renewing(mended, transport, ["old", "new"])
    assert isinstance(outcome, Success), outcome
    assert (outcome.data, outcome.delivery.attempts) == (TWO, 2)
    assert (mended.seen, asked) == (["Bearer old", "Bearer new"], 2)
    never = unaccepted(app, lambda _: True, how)
    outcome, asked = await renewing(never, transport, ["old", "new"])
    assert isinstance(outcome, Failed)
    assert outcome.error.code == "upstream_error"
    assert (never.seen, asked) == (["Bearer old", "Bearer new"], 2)


async def test_a_subscription_that_had_begun_is_not_begun_again() -> None:
    async def once(_: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept", "subprotocol": "graphql-transport-ws"})
        await receive()
        await send({"type": "websocket.send", "text": json.dumps(ACK)})
        await receive()
        await send({"type": "websocket.send", "text": json.dumps(EVENT)})
        await send({"type": "websocket.close", "code": 4401, "reason": "over"})

    app = unaccepted(app=None, refuse=lambda _: True, how=once)
    outcome, asked = await renewing(app, "websocket", ["old", "new"])
    assert isinstance(outcome, Failed)
    assert (outcome.data, len(app.seen), asked) == ({"events": [{"a": 1}], "ended": "broken"}, 1, 1)


@pytest.mark.parametrize("transport", ["sse", "websocket"])
async def test_a_credential_that_cannot_be_replaced_is_shown_once(transport: str) -> None:
    app = unaccepted(app=None, refuse=lambda _: True, how=_denied)
    outcome = await listen(app, transport)
    assert isinstance(outcome, Failed)
    assert (outcome.error.code, len(app.seen)) == ("upstream_error", 1)
    assert "401" in outcome.error.message
