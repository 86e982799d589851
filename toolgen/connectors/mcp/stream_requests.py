"""Requests of a server over Streamable HTTP: those in the stream that answers a call, and those in the stream of the session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, Protocol

from msgspec.structs import replace

from toolgen.connectors.http.scrubber import Scrubber
from toolgen.connectors.mcp.messages import STATELESS, Agreed
from toolgen.connectors.mcp.server_requests import refusal_of, response_to
from toolgen.model.call import Call
from toolgen.model.caller_requests import SERVER_REQUESTS
from toolgen.model.schema import JsonObject

__all__ = ["RequestAnswers", "RequestWire", "SessionStream", "SessionStreams"]

_MAX_REQUESTS: Final = 32
_HELD_S: Final = 2.0
_OPENING_S: Final = 2.0
_KEPT_S: Final = 600.0
_MAX_KEPT: Final = 256
_AGAIN_S: Final = 1.0
_MAX_AGAIN_S: Final = 60.0


class RequestWire(Protocol):
    """Wire to the server whose requests are answered.

    A protocol, because its implementation imports this module.
    """

    async def tell(self, message: JsonObject, agreed: Agreed, call: Call) -> None:
        """Send a message that has no answer."""

    def notice(self, message: Mapping[str, Any], call: Call) -> None:
        """Take a notification in the stream of a call, or of a session of its caller."""

    async def listen(self, answers: RequestAnswers, stream: SessionStream) -> None:
        """Read the stream of a session until it ends. Never raises for what the server does."""


class RequestAnswers:
    """Answers to what a server requests of the caller of one call. `wire` takes them to the server."""

    def __init__(self, wire: RequestWire, agreed: Agreed, call: Call) -> None:
        self.agreed, self.call = agreed, call
        self._wire = wire
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def can_be_asked(self) -> bool:
        """True if the caller can be asked something."""
        return self.call.line is not None and bool(self.call.line.capabilities)

    def begin(self, message: Mapping[str, Any], scrubber: Scrubber) -> None:
        """Begin to answer a request. In 2026-07-28 servers make none in this way."""
        number = message["id"]
        if self.agreed.version == STATELESS or len(self._tasks) >= _MAX_REQUESTS:
            return
        if isinstance(number, str | int) and not isinstance(number, bool):
            task = asyncio.create_task(self._answer(number, message, scrubber))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, number: str | int, message: Mapping[str, Any], scrubber: Scrubber) -> None:
        method, line = message["method"], self.call.line
        if isinstance(method, str) and method in SERVER_REQUESTS and line is not None and line.capabilities:
            response = await response_to(line, number, method, message.get("params"), scrubber)
        else:
            response = refusal_of(method, number)
        await self._wire.tell(response, self.agreed, self.call)

    def notice(self, message: Mapping[str, Any]) -> None:
        """Take a notification."""
        self._wire.notice(message, self.call)

    def end(self) -> None:
        """End what is not answered yet: the call is over."""
        for task in self._tasks:
            task.cancel()


class SessionStream:
    """The stream of one session (GET, 2025-11-25, basic/transports) while calls of the session may be asked something, and for some minutes
    after a web page was shown. `first` is a call of the session, whose caller is asked nothing."""

    def __init__(self, first: RequestAnswers) -> None:
        self._first = first
        self.kept: asyncio.TimerHandle | None = None
        """Timer that ends the time for which the stream is kept without calls."""
        self.wanted = asyncio.Event()
        """Set when a call needs the stream, which may have ended."""
        self.opened = asyncio.Event()
        self.alone = asyncio.Event()
        """Set while one call is under way."""
        self.calls: list[RequestAnswers] = []
        self.task: asyncio.Task[None] | None = None
        self._held: set[asyncio.Task[None]] = set()

    def hear(self, message: Mapping[str, Any], scrubber: Scrubber) -> None:
        """Take a request: it is about the one call that is under way, and is held for a moment while several are. Without one, it is
        refused."""
        if not self.calls:
            self._first.begin(message, scrubber)
        elif len(self.calls) == 1:
            self.calls[0].begin(message, scrubber)
        elif len(self._held) < _MAX_REQUESTS:
            task = asyncio.create_task(self._hold(message, scrubber))
            self._held.add(task)
            task.add_done_callback(self._held.discard)

    def notice(self, message: Mapping[str, Any]) -> None:
        """Take a notification."""
        self._first.notice(message)

    async def _hold(self, message: Mapping[str, Any], scrubber: Scrubber) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_HELD_S):
                await self.alone.wait()
        if len(self.calls) == 1:
            self.calls[0].begin(message, scrubber)
        elif self.calls:  # nobody knows which of them it is about
            self.calls[0].begin({**message, "method": ""}, scrubber)

    def count(self) -> None:
        """Say whether one call is under way."""
        if len(self.calls) == 1:
            self.alone.set()
        else:
            self.alone.clear()

    def close(self) -> None:
        """End the stream."""
        self._first.end()
        if self.kept is not None:
            self.kept.cancel()
        for task in (self.task, *self._held):
            if task is not None:
                task.cancel()


class SessionStreams:
    """Streams of the sessions with one server, by session id."""

    def __init__(self, wire: RequestWire) -> None:
        self._wire = wire
        self._streams: dict[str, SessionStream] = {}

    @asynccontextmanager
    async def during(self, answers: RequestAnswers) -> AsyncIterator[None]:
        """Have the stream of the session open while a call is under way that may be asked something."""
        session = answers.agreed.session
        if not session or not answers.can_be_asked or answers.agreed.version == STATELESS:
            yield
            return
        stream = self._streams.get(session) or self._begun(answers)
        stream.calls.append(answers)
        stream.count()
        stream.wanted.set()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(_OPENING_S):
                    await stream.opened.wait()
            yield
        finally:
            stream.calls.remove(answers)
            stream.count()
            if stream.kept is None:
                self._end_unused(session)

    def keep(self, agreed: Agreed, call: Call) -> None:
        """Have the stream of a session open for some minutes, whether or not calls are under way."""
        session = agreed.session
        if not session or agreed.version == STATELESS:
            return
        stream = self._streams.get(session) or self._begun(RequestAnswers(self._wire, agreed, call))
        if stream.kept is not None:
            stream.kept.cancel()
        stream.kept = asyncio.get_running_loop().call_later(_KEPT_S, self._release, session)
        stream.wanted.set()
        kept = [one for one, other in self._streams.items() if other.kept is not None]
        if len(kept) > _MAX_KEPT:
            self._release(kept[0])

    async def close(self) -> None:
        """End all streams."""
        tasks = [stream.task for stream in self._streams.values() if stream.task is not None]
        for stream in self._streams.values():
            stream.close()
        self._streams.clear()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begun(self, answers: RequestAnswers) -> SessionStream:
        unasked = RequestAnswers(self._wire, answers.agreed, replace(answers.call, line=None))
        stream = self._streams[answers.agreed.session] = SessionStream(unasked)
        stream.task = asyncio.create_task(self._listen(unasked, stream))
        return stream

    async def _listen(self, answers: RequestAnswers, stream: SessionStream) -> None:
        """Read the stream; if it ends, again as soon as a call needs it, and while it is kept less and less often."""
        pause_s, has_stream = _AGAIN_S, False
        while True:
            stream.wanted.clear()
            await self._wire.listen(answers, stream)
            has_stream = has_stream or stream.opened.is_set()
            stream.opened.set()
            if not has_stream:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(None if stream.kept is None else pause_s):
                    await stream.wanted.wait()
            pause_s = min(2 * pause_s, _MAX_AGAIN_S)
            stream.opened.clear()

    def _release(self, session: str) -> None:
        """Keep a stream no longer."""
        stream = self._streams.get(session)
        if stream is not None and stream.kept is not None:
            stream.kept.cancel()
            stream.kept = None
            self._end_unused(session)

    def _end_unused(self, session: str) -> None:
        stream = self._streams.get(session)
        if stream is not None and not stream.calls:
            del self._streams[session]
            stream.close()
