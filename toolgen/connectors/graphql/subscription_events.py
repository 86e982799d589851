"""Server-Sent Events of graphql-sse's distinct connections mode: `next` with a result, `complete` at the end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from toolgen.connectors.http.request_builder import HttpRequest
from toolgen.model.excerpt import bounded

if TYPE_CHECKING:
    from toolgen.connectors.http.streaming_client import StreamingClient

__all__ = ["HEARD", "CredentialRejected", "SubscriptionRefused", "events_of"]

HEARD = b""  # the service is alive, without an event
_MAX_EVENT_LENGTH = 1024 * 1024


class SubscriptionRefused(Exception):  # noqa: N818 - an answer, not a fault
    """Refusal or end of a subscription by the service. `reason` is in its words."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class CredentialRejected(SubscriptionRefused):
    """Rejected credential, before the subscription started."""


async def events_of(client: StreamingClient, request: HttpRequest) -> AsyncIterator[bytes | None]:
    """Yield `HEARD`, the payload of each `next` event, then None.

    Raises `CredentialRejected` for 401, `SubscriptionRefused` for another answer that is not an event stream, and `OSError` if
    there is no answer.
    """
    async with client.send(request) as reply:
        if reply.status == 401:
            raise CredentialRejected("it answered 401: it does not accept the credential")
        if reply.status != 200 or reply.media_type != "text/event-stream":
            what = bounded(reply.media_type, 60) or "nothing"
            raise SubscriptionRefused(f"it answered {reply.status} with {what} and no event stream")
        yield HEARD
        blocks = _Blocks()
        async for chunk in reply.chunks():
            yield HEARD
            for block in blocks.feed(chunk):
                event, data = _event(block)
                if event == b"complete":
                    yield None
                    return
                if event == b"next":
                    yield data


class _Blocks:
    """Splitter of a stream at its empty lines, in time linear in the stream, even for very small chunks."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._carriage = False  # True if the last chunk ended with CR, so that an LF may follow

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the blocks that are complete now. Raises `SubscriptionRefused`."""
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
            raise SubscriptionRefused("one event was larger than the gateway reads")
        return whole


def _event(block: bytes) -> tuple[bytes, bytes]:
    """Return the name and the data of one event (WHATWG HTML, section 9.2.6); comments and other fields are ignored."""
    name, data = b"", []
    for line in block.split(b"\n"):
        key, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if key == b"event":
            name = value
        elif key == b"data":
            data.append(value)
    return name, b"\n".join(data)
