"""GET /v1/calls/{id}/events: how a call that had to wait goes on, as Server-Sent Events, until it has ended."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import suppress

from toolgen.errors import StateError
from toolgen.gateway.answers import envelope_json
from toolgen.gateway.facade import Facade
from toolgen.gateway.http import Rejected, Request, Stream
from toolgen.gateway.rest import whole
from toolgen.gateway.wire import encode
from toolgen.model.call import Principal, parties

__all__ = ["DEFAULT_WAIT_S", "LONGEST_WAIT_S", "CallEvents"]

DEFAULT_WAIT_S = 60
LONGEST_WAIT_S = 300
QUIET_S = 10.0
_MOST_EACH = 16
_MOST_OPEN = 512
_PATH = re.compile(r"/v1/calls/([^/]{1,128})/events\Z")
_STILL_HERE = b": still here\n\n"


class CallEvents:
    """What is said of each call: `progress` at once and whenever its state changes, `done` with its envelope, `error` where that cannot be
    known now. The first event says how the call stands, so nobody misses anything by connecting late, or again."""

    def __init__(self, gateway: Facade) -> None:
        self._gateway = gateway
        self._open: dict[tuple[str, ...], int] = {}
        self._closed = False

    def close(self) -> None:
        """Ends every stream: the gateway goes."""
        self._closed = True
        self._gateway.approvals.announce()

    async def answer(self, request: Request, principal: Principal) -> Stream | None:
        """The events of a caller's own call; None for a path that is another's."""
        found = _PATH.match(request.path)
        if found is None:
            return None
        request.take("GET")
        wait = whole(request.parameters("wait"), "wait", default=DEFAULT_WAIT_S, most=LONGEST_WAIT_S)
        try:
            known = await self._gateway.approvals.own(found[1], principal)
        except StateError:
            message = "the calls that wait cannot be read now; the operator's log says why"
            raise Rejected(503, "internal", message) from None
        if known is None:
            raise Rejected(404, "not_found", "there is no such call of yours that had to wait")
        if self._open.get(parties(principal), 0) >= _MOST_EACH or sum(self._open.values()) >= _MOST_OPEN:
            raise Rejected(
                429,
                "rate_limited",
                "too many streams of events are open",
                suggestion=f"close some, or ask GET /v1/calls/{{id}} instead; a caller may have {_MOST_EACH}",
                headers=((b"retry-after", b"%d" % LONGEST_WAIT_S),),
            )
        return Stream(events=self._counted(request, principal, found[1], wait))

    async def _counted(self, request: Request, principal: Principal, call_id: str, wait: float) -> AsyncIterator[bytes]:
        who = parties(principal)
        self._open[who] = self._open.get(who, 0) + 1
        try:
            async for event in self._events(request, principal, call_id, wait):
                yield event
        except StateError:
            yield _event("error", {"code": "internal", "message": "the calls that wait cannot be read now"})
        finally:
            self._open[who] -= 1
            if not self._open[who]:
                del self._open[who]

    async def _events(self, request: Request, principal: Principal, call_id: str, wait: float) -> AsyncIterator[bytes]:
        """Ends when the call has ended, `wait` is over, the client has left or its credential is no longer good."""
        loop, approvals = asyncio.get_running_loop(), self._gateway.approvals
        until, said = loop.time() + wait, ""
        while not (self._closed or request.presence.left()) and self._gateway.current(principal) is not None:
            news = approvals.news
            known = await approvals.own(call_id, principal)
            if known is None:
                return
            if known.status == "ended":
                yield _event("done", envelope_json(approvals.envelope(known)))
                return
            if known.status != said:
                said = known.status
                yield _event("progress", {"call_id": known.id, "tool": known.tool, "state": said})
            left = until - loop.time()
            if left <= 0:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(min(left, QUIET_S)):
                    await news.wait()
                    continue
            yield _STILL_HERE


def _event(name: str, data: object) -> bytes:
    """One event; its data is JSON, which holds no line break."""
    return b"event: " + name.encode("ascii") + b"\ndata: " + encode(data) + b"\n\n"
