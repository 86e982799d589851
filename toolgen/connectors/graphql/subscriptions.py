"""Subscriptions, bounded by count, time and size: over graphql-transport-ws, or as Server-Sent Events by graphql-sse."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from importlib.util import find_spec
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from toolgen.connectors.executor import Permit
from toolgen.connectors.graphql.subscription_events import HEARD, CredentialRejected, SubscriptionRefused, events_of
from toolgen.connectors.http.connector import Dialer, EgressRefusal, Resolver, Route, Target, Timeouts
from toolgen.connectors.http.credentials import CredentialSelector, Signed
from toolgen.connectors.http.oauth.call_tokens import NoTokenError
from toolgen.connectors.http.parameter_styles import UnbindableError
from toolgen.connectors.http.request_builder import HttpRequest
from toolgen.connectors.http.response import MAX_ANSWER_SIZE, HttpResponse, decode
from toolgen.connectors.http.scrubber import Scrubber
from toolgen.core.clock import Clock
from toolgen.core.error_codes import ErrorCode
from toolgen.core.errors import SecretError
from toolgen.core.json_codec import TooDeepError
from toolgen.model.call import Principal
from toolgen.model.excerpt import bounded
from toolgen.model.result import Delivery, Error, Failed, Shape, Success
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import GraphQLSubscription

__all__ = ["SubscriptionListener"]

_CONNECT_S = 10.0


class _ReceivedEvents(Struct):
    """Events received so far. `ended` is why listening stopped: complete, events, seconds or bytes."""

    events: list[Json] = []
    size: int = 0
    begun: bool = False
    attempts: int = 1
    ended: str = ""
    errors: Json = None
    scrubber: Scrubber = field(default_factory=lambda: Scrubber(()))


class SubscriptionListener:
    """Listener for the subscriptions of one source, with its credentials and egress rules."""

    def __init__(
        self,
        *,
        selector: CredentialSelector,
        permit: Permit,
        resolver: Resolver,
        clock: Clock,
    ) -> None:
        self._selector = selector
        timeouts = Timeouts(
            connect_s=_CONNECT_S, first_byte_s=600.0, total_s=600.0
        )  # the limit of the subscription is shorter
        self._dialer = Dialer(permit=permit, resolver=resolver, timeouts=timeouts, clock=clock)

    async def listen(
        self,
        subscription: GraphQLSubscription,
        request: JsonObject,
        security: tuple[tuple[str, ...], ...],
        principal: Principal,
    ) -> Success | Failed:
        """Return `{"events": […], "ended": …}`, with the `data` of each event. Never raises for faults of the service."""
        if subscription.transport == "websocket" and find_spec("websockets") is None:
            return _failed("handler_error", "subscriptions over WebSocket need toolgen[subscriptions]", "install it")
        received = _ReceivedEvents()
        until = asyncio.get_running_loop().time() + subscription.seconds
        try:
            await self._listen(subscription, request, security, principal, received, until)
        except (UnbindableError, SecretError, NoTokenError) as error:
            return _failed(error.code, error.message, error.suggestion)
        except EgressRefusal as refusal:
            verdict = refusal.verdict
            return _failed("egress_refused", verdict.reason, verdict.suggestion, rule=verdict.rule)
        except SubscriptionRefused as refused:
            reason = bounded(received.scrubber.text(refused.reason), 300)
            message = f"the service ended the subscription: {reason}"
            return _failed("upstream_error", message, data=_data(received))
        except (OSError, ValueError):
            message = f"the subscription at {urlsplit(subscription.url).hostname} failed: the connection could not be opened or broke"
            return _failed(
                "upstream_unavailable", message, "try again later", data=_data(received) if received.events else None
            )
        return _result(received, subscription.seconds)

    async def close(self) -> None:
        """Close every connection."""
        await self._dialer.close()

    async def _signed(
        self,
        subscription: GraphQLSubscription,
        request: JsonObject,
        security: tuple[tuple[str, ...], ...],
        principal: Principal,
    ) -> Signed:
        url = "http" + subscription.url.removeprefix("ws") if subscription.url.startswith("ws") else subscription.url
        body = msgspec.json.encode(request, enc_hook=dict)
        plain = HttpRequest(method="POST", url=url, headers=(("User-Agent", "toolgen"),), body=body)
        signed = await self._selector.sign(plain, security, principal)
        if signed.certificate is not None and subscription.transport == "websocket":
            raise SecretError("subscriptions over WebSocket cannot use a client certificate")
        if signed.key is not None and subscription.transport == "websocket":
            raise SecretError("subscriptions over WebSocket cannot use tokens that are bound to a key (dpop)")
        return signed

    async def _listen(
        self,
        subscription: GraphQLSubscription,
        request: JsonObject,
        security: tuple[tuple[str, ...], ...],
        principal: Principal,
        received: _ReceivedEvents,
        until: float,
    ) -> None:
        """Listen until the loop's time `until`. A token is replaced once, only if the subscription has not started, as for any call."""
        signed = await self._signed(subscription, request, security, principal)
        try:
            await self._hear(subscription, signed, request, received, until)
        except CredentialRejected:
            if received.begun or signed.renewal is None or not signed.renewal.mends():
                raise
            signed = await self._signed(subscription, request, security, principal)
            received.attempts = 2
            await self._hear(subscription, signed, request, received, until)

    async def _hear(
        self,
        subscription: GraphQLSubscription,
        signed: Signed,
        request: JsonObject,
        received: _ReceivedEvents,
        until: float,
    ) -> None:
        """Listen with these credentials until the loop's time `until`. Raises the errors of a stream, and `EgressRefusal`."""
        received.scrubber = Scrubber(signed.secrets)
        target = Target.of(signed.request.url)
        addresses = await self._dialer.addresses(target)
        stream = self._stream(subscription, signed, target, addresses[0], request)
        await _collect(stream, subscription, received, until)

    def _stream(
        self,
        subscription: GraphQLSubscription,
        signed: Signed,
        target: Target,
        address: Route,
        request: JsonObject,
    ) -> AsyncIterator[bytes | None]:
        if subscription.transport == "sse":
            return self._sse(signed, target, address)
        from toolgen.connectors.graphql.graphql_transport_ws import messages_of  # noqa: PLC0415 - behind the extra `subscriptions`

        url = "ws" + signed.request.url.removeprefix("http")
        if isinstance(address, str):
            return messages_of(url, signed.request.headers, address, request)
        return messages_of(url, signed.request.headers, self._dialer.tunnel(target, address), request)

    async def _sse(self, signed: Signed, target: Target, address: Route) -> AsyncIterator[bytes | None]:
        request = signed.request
        headers = (*request.headers, ("Accept", "text/event-stream"), ("Content-Type", "application/json"))
        client = self._dialer.streaming_client(target, address, signed.certificate)
        async with aclosing(events_of(client, replace(request, headers=headers))) as events:  # type: ignore[type-var]
            async for event in events:
                yield event


async def _collect(
    stream: AsyncIterator[bytes | None],
    subscription: GraphQLSubscription,
    received: _ReceivedEvents,
    until: float,
) -> None:
    """Collect events until their number or the time is reached. `None` in the stream means that the service is done."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout_at(until), aclosing(stream) as events:  # type: ignore[type-var]
            async for event in events:
                if event is None:
                    received.ended = "complete"
                    return
                received.begun = True
                # A cancellation that coincides with an answer can be lost, so the time is checked too.
                if loop.time() >= until:
                    received.ended = "seconds"
                    return
                if event == HEARD:
                    continue
                received.size += len(event)
                if received.size > MAX_ANSWER_SIZE:
                    received.ended = "bytes"
                    return
                try:
                    payload = decode(
                        HttpResponse(
                            status=200, content_type="application/json", body=event, truncated=False, headers={}
                        ),
                        received.scrubber,
                    )
                except TooDeepError as error:
                    raise SubscriptionRefused(f"it sent JSON that is {error}") from None
                if isinstance(payload, list) or (isinstance(payload, Mapping) and payload.get("errors")):
                    received.errors = payload if isinstance(payload, list) else payload["errors"]
                if isinstance(payload, Mapping) and "data" in payload:
                    received.events.append(payload["data"])
                elif received.errors is None:
                    raise SubscriptionRefused("it sent something that is not a GraphQL response")
                if received.errors is not None or len(received.events) >= subscription.events:
                    received.ended = "events"
                    return
            received.ended = "complete"
    except TimeoutError:
        received.ended = "seconds" if received.begun else ""


def _data(received: _ReceivedEvents) -> dict[str, Json]:
    return {"events": list(received.events), "ended": received.ended or "broken"}


def _errors_text(errors: Json) -> str:
    first = errors[0] if isinstance(errors, list) and errors else None
    message = first.get("message") if isinstance(first, Mapping) else None
    return bounded(" ".join(message.split()), 300) if isinstance(message, str) else "an error without a message"


def _result(received: _ReceivedEvents, seconds: float) -> Success | Failed:
    """Return the outcome of a subscription without a connection error."""
    if not received.ended:
        message = f"the service did not start to answer within {seconds:g} seconds"
        return _failed("upstream_timeout", message, "try again later")
    if received.errors is not None:
        message = f"the service reported: {_errors_text(received.errors)}"
        data = {**_data(received), "errors": received.errors}
        return _failed("upstream_error", message, "change the arguments as the errors say", data=data)
    return Success(
        data=_data(received),
        truncated=received.ended == "bytes",
        delivery=Delivery(bytes=received.size, attempts=received.attempts),
        shape=Shape.EVENTS,
    )


def _failed(code: ErrorCode, message: str, suggestion: str = "", *, rule: str = "", data: Json = None) -> Failed:
    error = Error(code=code, message=message, suggestion=suggestion, rule=rule)
    return Failed(error=error, data=data, shape=Shape.EVENTS) if data is not None else Failed(error=error)
