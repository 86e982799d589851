"""REST for the devices of callers: their requests (long poll, or Server-Sent Events), and their answers."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType

import msgspec

from toolgen.audit.entry import timestamp
from toolgen.core.errors import StateError
from toolgen.frontends.http.request import (
    Answer,
    EventStream,
    Rejected,
    Request,
    Response,
    json_response,
    read_json_body,
)
from toolgen.frontends.rest.tools import malformed, whole
from toolgen.gateway.calls.json_body import Malformed, encode
from toolgen.gateway.operations.device_answers import read_answer
from toolgen.gateway.protocol import Facade
from toolgen.model.call import Principal
from toolgen.model.result import Error
from toolgen.model.unavailable import fault_error
from toolgen.state.invocations import Invocation

__all__ = ["MAX_WAIT_S", "RestDevices"]

MAX_WAIT_S = 60
QUIET_S = 10.0
_MAX_EACH = 16
_MAX_OPEN = 2048
_EVENTS = b"text/event-stream"
_STILL_HERE = b": still here\n\n"
_STATUS: Mapping[str, int] = MappingProxyType({"validation": 400, "not_found": 404, "conflict": 409, "expired": 410})


class RestDevices:
    """Routes GET /v1/device/requests and POST /v1/tool-messages. A device sends the credential of its user, and gets only that user's
    requests."""

    def __init__(self, gateway: Facade) -> None:
        self._gateway = gateway
        self._open: dict[str, int] = {}
        self._closed = False

    def close(self) -> None:
        """End the streams of devices, because the gateway stops."""
        self._closed = True
        for device in self._open:
            self._gateway.tool_calls.devices.announce(device)

    async def answer(self, request: Request, device: Principal) -> Answer | None:
        """Return the answer to a request for one of these routes; None for any other path."""
        if request.path == "/v1/device/requests":
            request.take("GET")
            if device.on_behalf_of is not None:
                raise Rejected(
                    403,
                    "forbidden",
                    "a device must authenticate as its user, not as a principal that acts for the user",
                    suggestion="show the user's own credential",
                )
            if _EVENTS in request.headers.get(b"accept", b"").lower():
                wait = whole(request.parameters("wait"), "wait", default=MAX_WAIT_S, most=MAX_WAIT_S)
                self._check_room(device)
                await self._gateway.tool_calls.devices.requests(
                    device
                )  # checked while a status can still report an error
                return EventStream(events=self._events(request, device, wait))
            return await self._poll(request, device)
        if request.path == "/v1/tool-messages":
            request.take("POST")
            return await self._take(request, device)
        return None

    async def _take(self, request: Request, device: Principal) -> Response:
        """Answer POST /v1/tool-messages: the first JSON-RPC response ends the call."""
        request.parameters()
        devices = self._gateway.tool_calls.devices
        data = await read_json_body(request)
        try:
            message = read_answer(data)
        except Malformed as error:
            await devices.note_malformed(device)
            raise malformed(error) from None
        taken = await devices.answer(message, device)
        if isinstance(taken, Error):
            raise Rejected.of(_STATUS[taken.code], taken)
        return json_response({"id": taken.call_id, "status": taken.status})

    async def _poll(self, request: Request, device: Principal) -> Response:
        """Answer GET /v1/device/requests: all current requests for the device. With `wait`, after they differ from those of `cursor`."""
        query = request.parameters("wait", "cursor")
        wait = whole(query, "wait", default=0, most=MAX_WAIT_S)
        known = query.get("cursor", _cursor(()))
        loop, devices = asyncio.get_running_loop(), self._gateway.tool_calls.devices
        until = loop.time() + wait
        self._check_room(device)
        with self._place(device), devices.listening(device) as changed:
            while True:
                found = await devices.requests(device)
                left = until - loop.time()
                if _cursor(found) != known or left <= 0 or self._over(request, device):
                    return json_response({"requests": [_shown(one) for one in found], "cursor": _cursor(found)})
                await changed(min(left, QUIET_S))

    async def _events(self, request: Request, device: Principal, wait: float) -> AsyncIterator[bytes]:
        """Stream the requests as events: `request` for each, once, and `withdrawn` if the device need not answer it any more."""
        loop, devices = asyncio.get_running_loop(), self._gateway.tool_calls.devices
        until, told = loop.time() + wait, set[str]()
        yield _STILL_HERE
        with self._place(device), devices.listening(device) as changed:
            try:
                while not self._over(request, device):
                    found = await devices.requests(device)
                    for one in found:
                        if one.id not in told:
                            yield _event("request", _shown(one))
                    now = {one.id for one in found}
                    for gone in sorted(told - now):
                        yield _event("withdrawn", {"id": gone})
                    told, left = now, until - loop.time()
                    if left <= 0:
                        return
                    if not await changed(min(left, QUIET_S)):
                        yield _STILL_HERE
            except StateError as error:
                yield _event("error", msgspec.to_builtins(fault_error(error)))

    def _check_room(self, device: Principal) -> None:
        if self._open.get(device.id, 0) >= _MAX_EACH or sum(self._open.values()) >= _MAX_OPEN:
            raise Rejected(
                429,
                "rate_limited",
                "too many devices wait for requests",
                suggestion=f"a user may have {_MAX_EACH} that do",
                retry_after_s=MAX_WAIT_S,
            )

    @contextmanager
    def _place(self, device: Principal) -> Iterator[None]:
        self._open[device.id] = self._open.get(device.id, 0) + 1
        try:
            yield
        finally:
            self._open[device.id] -= 1
            if not self._open[device.id]:
                del self._open[device.id]

    def _over(self, request: Request, device: Principal) -> bool:
        """Return True if the device disconnected or is not allowed any more, or the gateway is closing."""
        return self._closed or request.caller_connection.disconnected() or self._gateway.callers.current(device) is None


def _shown(known: Invocation) -> dict[str, object]:
    """Return a request, and beside it the information a device may show to its user; that is not part of the request."""
    kept = known.device.request or {}
    shown: dict[str, object] = {
        "request": kept.get("request", {}),
        "display": kept.get("display", ""),
        "tool": known.tool,
        "effect": known.effect,
        "asked": timestamp(known.asked),
        "expires": timestamp(known.expires),
    }
    return {name: value for name, value in shown.items() if value != ""}


def _cursor(found: Sequence[Invocation]) -> str:
    """Return a cursor for the current requests, equal in every process."""
    return hashlib.sha256(" ".join(one.id for one in found).encode()).hexdigest()[:32]


def _event(name: str, data: object) -> bytes:
    """Return a server-sent event; its data is JSON, which has no line breaks."""
    return b"event: " + name.encode("ascii") + b"\ndata: " + encode(data) + b"\n\n"
