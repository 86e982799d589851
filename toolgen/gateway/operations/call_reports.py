"""Progress and partial answers of a running call, for clients that follow it or return for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from toolgen.gateway.calls.file_links import reference_text
from toolgen.gateway.calls.json_body import encode
from toolgen.model.client_channel import Unasked
from toolgen.model.excerpt import bounded
from toolgen.model.media import INLINE
from toolgen.model.schema import Json, JsonObject
from toolgen.pipeline.middleware import CallerConnection
from toolgen.pipeline.responses.encoded_files import completed, taken_out
from toolgen.state.invocations import Invocation

__all__ = ["CallReports"]

_MAX_PARTS = 50
_MAX_PARTS_SIZE = 65_536

_IN_ANSWER = "the whole answer has its URI"


class CallReports:
    """Progress and partial answers of a running call. `told` is called on each change with the id of the call; `news` is True if there was
    a change since it was reset.

    `kept` is True if the call continues without its caller, once that is decided. `ending`: the call ends and will be made again with an
    answer.
    """

    __slots__ = (
        "_caller_connection",
        "_decided",
        "_size",
        "count",
        "ending",
        "kept",
        "news",
        "parts",
        "progressed",
        "told",
    )

    def __init__(self, caller_connection: CallerConnection) -> None:
        self._caller_connection = caller_connection
        self._size = 0
        self._decided: asyncio.Future[None] | bool = False
        self.kept = False
        self.ending = False
        self.count = 0
        self.news = False
        self.parts: list[Json] | None = None  # most calls have none
        self.progressed: dict[str, Any] | None = None
        self.told: Callable[[str, CallReports], None] | None = None

    @property
    def capabilities(self) -> frozenset[str]:
        """Return the empty set, because the caller may have disconnected."""
        return frozenset()

    @property
    def listens(self) -> bool:
        """Return True, because the caller may come back for the progress."""
        return True

    def disconnected(self) -> bool:
        """Return True if the caller cancelled the call, or disconnected before the call was kept."""
        return self._caller_connection.disconnected()

    def progress(self, done: float, total: float | None, message: str) -> None:
        """Store the progress of the call, also as a share if that is known."""
        progressed: dict[str, Any] = {"done": done}
        if total is not None:
            progressed["total"] = total
            if total > 0:
                progressed["percent"] = round(min(100.0, max(0.0, 100 * done / total)), 1)
        if message:
            progressed["message"] = bounded(message)
        self.progressed = progressed
        self._tell()

    def log(self, level: str, text: str) -> None:
        """Drop the message: a caller that comes back reads no log."""

    def partial(self, data: Json) -> None:
        """Store a partial answer: the last ones are kept, as far as there is space. One that is not JSON, or too large, is left out."""
        try:
            size = len(encode(data))
        except (TypeError, ValueError, RecursionError):
            return
        if size > _MAX_PARTS_SIZE:
            return
        if size > INLINE:
            data, found = taken_out(data)
            for file in found:  # no files of a partial answer are stored: the final answer has them again
                file.place["note"] = _IN_ANSWER
            if found:
                data = completed(data, reference_text)
                size = len(encode(data))
        self.count += 1
        parts = self.parts = [] if self.parts is None else self.parts
        parts.append(data)
        self._size += size
        while self._size > _MAX_PARTS_SIZE or len(parts) > _MAX_PARTS:
            self._size -= len(encode(parts.pop(0)))
        self._tell()

    async def ask(self, key: str, method: str, params: JsonObject) -> Json:
        """Raise `Unasked`."""
        raise Unasked

    def added_to(self, known: Invocation, now: float) -> Invocation:
        """Return the call with its messages so far; `now` is in seconds since the epoch."""
        parts = tuple(self.parts or ())
        return msgspec.structs.replace(known, progress=self.progressed, partial=self.count, parts=parts, updated=now)

    def decide(self, *, kept: bool) -> None:
        """Decide that the call continues without its caller, or that its caller has to wait."""
        self.kept = kept
        if isinstance(self._decided, asyncio.Future):
            self._decided.set_result(None)
        self._decided = True

    async def decided(self) -> bool:
        """Wait for the decision; return True if the call continues without its caller."""
        if self._decided is False:
            self._decided = asyncio.get_running_loop().create_future()
        if isinstance(decided := self._decided, asyncio.Future):
            await asyncio.shield(decided)
        return self.kept

    def _tell(self) -> None:
        self.news = True
        if self.told is not None and (call := self._caller_connection.under_way) is not None:
            self.told(call.id, self)
