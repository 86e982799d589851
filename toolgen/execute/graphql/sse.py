"""Server-Sent Events of graphql-sse's distinct connections mode: `next` with a result, `complete` at the end."""

from __future__ import annotations

from collections.abc import AsyncIterator

from pyreqwest.client import Client

from toolgen.execute.http.wire import Request

__all__ = ["Refused", "events_of"]

_LONGEST_EVENT = 1024 * 1024


class Refused(Exception):  # noqa: N818 - an answer, not a fault
    """The service would not start the subscription, or ended it. `reason` is in its words."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


async def events_of(client: Client, request: Request) -> AsyncIterator[bytes | None]:
    """The payload of each `next` event, then None. Raises `Refused` for an answer that is no event stream."""
    builder = client.request(request.method, request.url)
    for name, value in request.headers:
        builder = builder.header(name, value, is_sensitive=True)
    if request.body is not None:
        builder = builder.body_bytes(request.body)
    async with builder.build_streamed() as response:
        kind = (response.get_header("content-type") or "").partition(";")[0].strip().lower()
        if response.status != 200 or kind != "text/event-stream":
            raise Refused(f"it answered {response.status} with {kind[:60] or 'nothing'} and no event stream")
        pending = b""
        while True:
            chunk = await response.body_reader.read_chunk()
            if chunk is None:
                return
            pending = (pending + bytes(chunk)).replace(b"\r\n", b"\n")
            if len(pending) > _LONGEST_EVENT:
                raise Refused("one event was larger than the gateway reads")
            *whole, pending = pending.split(b"\n\n")
            for block in whole:
                event, data = _event(block)
                if event == b"complete":
                    yield None
                    return
                if event == b"next":
                    yield data


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
