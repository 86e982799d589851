"""Events of a call that had to wait (GET /v1/calls/{id}/events), as Server-Sent Events, until it has ended."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import suppress

import msgspec

from toolgen.core.errors import StateError
from toolgen.frontends.http.request import EventStream, Rejected, Request
from toolgen.frontends.rest.tools import whole
from toolgen.gateway.calls.json_body import encode, envelope_json
from toolgen.gateway.protocol import Facade
from toolgen.model.call import Principal, parties
from toolgen.model.unavailable import fault_error

__all__ = ["DEFAULT_WAIT_S", "MAX_WAIT_S", "CallEvents"]

DEFAULT_WAIT_S = 60


MAX_WAIT_S = 300


QUIET_S = 10.0


_MAX_EACH = 16


_MAX_OPEN = 512


_PATH = re.compile(r"/v1/calls/([^/]{1,128})/events\Z")


_STILL_HERE = b": still here\n\n"


class CallEvents:
    """Event stream of a call: `progress` at once and on each change of its state, `done` with its envelope, `error` if that cannot be read
    now. The first event has the current state, so a client that connects late or again misses nothing."""

    def __init__(self, gateway: Facade) -> None:
        self._gateway = gateway
        self._open: dict[tuple[str, ...], int] = {}
        self._closed = False

    def close(self) -> None:
        """End every stream, because the gateway stops."""
        self._closed = True
        self._gateway.tool_calls.approvals.calls.news.announce()

    async def answer(self, request: Request, principal: Principal) -> EventStream | None:
        """Return the events of a caller's own call; None for any other path."""
        found = _PATH.match(request.path)
        if found is None:
            return None
        request.take("GET")
        wait = whole(request.parameters("wait"), "wait", default=DEFAULT_WAIT_S, most=MAX_WAIT_S)
        known = await self._gateway.tool_calls.approvals.calls.own(found[1], principal)
        if known is None:
            raise Rejected(404, "not_found", "there is no such call of yours that had to wait")
        if self._open.get(parties(principal), 0) >= _MAX_EACH or sum(self._open.values()) >= _MAX_OPEN:
            raise Rejected(
                429,
                "rate_limited",
                "too many streams of events are open",
                suggestion=f"close some, or ask GET /v1/calls/{{id}} instead; a caller may have {_MAX_EACH}",
                retry_after_s=MAX_WAIT_S,
            )
        return EventStream(events=self._counted(request, principal, found[1], wait))

    async def _counted(self, request: Request, principal: Principal, call_id: str, wait: float) -> AsyncIterator[bytes]:
        who = parties(principal)
        self._open[who] = self._open.get(who, 0) + 1
        try:
            async for event in self._events(request, principal, call_id, wait):
                yield event
        except StateError as error:
            yield _event("error", msgspec.to_builtins(fault_error(error)))
        finally:
            self._open[who] -= 1
            if not self._open[who]:
                del self._open[who]

    async def _events(self, request: Request, principal: Principal, call_id: str, wait: float) -> AsyncIterator[bytes]:
        """Yield events until the call has ended, `wait` is over, the client has disconnected or its credential is not valid any more."""
        loop, approvals = asyncio.get_running_loop(), self._gateway.tool_calls.approvals
        until, pieces = loop.time() + wait, 0
        said: tuple[str, object] = ("", None)
        while (
            not (self._closed or request.caller_connection.disconnected())
            and self._gateway.callers.current(principal) is not None
        ):
            news = approvals.calls.news.of(call_id)
            known = await approvals.calls.own(call_id, principal)
            if known is None:
                return
            if known.status != "ended" and (known.status, known.progress) != said:
                said = (known.status, known.progress)
                standing = {"call_id": known.id, "tool": known.tool, "state": known.status}
                yield _event("progress", {**standing, **(known.progress or {})})
            for number in range(max(pieces, known.partial - len(known.parts)), known.partial):
                data = known.parts[number - known.partial]
                yield _event("partial", {"call_id": known.id, "number": number + 1, "data": data})
            pieces = known.partial
            if known.status == "ended":
                await approvals.calls.told(known)
                yield _event("done", envelope_json(approvals.calls.envelope(known)))
                return
            left = until - loop.time()
            if left <= 0:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, QUIET_S)):
                    await news.wait()
                    continue
            yield _STILL_HERE


def _event(name: str, data: object) -> bytes:
    """Return a server-sent event; its data is JSON, which has no line breaks."""
    return b"event: " + name.encode("ascii") + b"\ndata: " + encode(data) + b"\n\n"
