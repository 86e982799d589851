"""One conversation with a server: agreeing on a revision, listing its tools, asking for one."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from toolgen.clock import Clock
from toolgen.errors import CanonicalError
from toolgen.execute.mcp.messages import (
    MODERN,
    Agreed,
    Wire,
    failed,
    initialize,
    modern,
    request,
    result_of,
    speaks,
)
from toolgen.model.call import Call
from toolgen.model.listing import ListedTool, Listing, parts_of
from toolgen.model.result import Failed, Success
from toolgen.model.schema import Json, JsonObject

__all__ = ["Conversation"]

_MOST_PAGES = 100
_MOST_TOOLS = 2000
_LARGEST_LISTING = 8 * 1024 * 1024
_LISTED_S = 60.0
_NO_SUCH_SESSION = 404
_DENIED: Final = frozenset({401, 403})


class Conversation:
    """What was agreed on with a server for one caller, and what its tools are there. Questions run side by side."""

    def __init__(self, wire: Wire, clock: Clock) -> None:
        self._wire = wire
        self._clock = clock
        self._agreeing = asyncio.Lock()
        self._epoch: int | None = None
        self._agreed = Agreed()
        self._number = 0
        self._who = ("", "")
        self._listed: dict[str, dict[str, str]] | None = None
        self._listed_at = 0.0

    async def listing(self, call: Call) -> Listing | Failed:
        """Every tool the server shows this caller, over all pages."""
        fault = await self._ready(call)
        return fault or await self._list(call)

    async def parts(self, call: Call) -> dict[str, dict[str, str]] | Failed:
        """The digests of what the server says of its tools, by name: as it said a minute ago at the longest. One that is listed twice
        has none."""
        async with self._agreeing:
            if fault := await self._agree(call):
                return fault
            age = self._clock.monotonic() - self._listed_at
            if self._listed is None or age > _LISTED_S or self._wire.stale():
                agreed = self._agreed
                listing = await self._list(call)
                if isinstance(listing, Failed) and _is_lost(listing, agreed):
                    listing = await self._renew(agreed, call) or await self._list(call)
                if isinstance(listing, Failed):
                    return listing
                self._listed, self._listed_at = _parts(listing), self._clock.monotonic()
            return self._listed

    async def ask(self, method: str, params: JsonObject, call: Call) -> Success | Failed:
        """The `result` of a request. One whose session the server does not know any more was not looked at, and is made once more."""
        agreed = self._agreed
        outcome = await self._asked(method, params, call)
        if not _is_lost(outcome, agreed):
            return outcome
        async with self._agreeing:
            fault = await self._renew(agreed, call)
        return fault or await self._asked(method, params, call)

    async def _asked(self, method: str, params: JsonObject, call: Call) -> Success | Failed:
        carried = modern(params) if self._agreed.version == MODERN else params
        return result_of(await self._wire.ask(request(method, carried, self._next()), self._agreed, call))

    def _next(self) -> int:
        self._number += 1
        return self._number

    async def _ready(self, call: Call) -> Failed | None:
        async with self._agreeing:
            return await self._agree(call)

    async def _renew(self, lost: Agreed, call: Call) -> Failed | None:
        """Agrees anew, where nobody else has meanwhile."""
        if self._agreed is lost:
            self._epoch = None
        return await self._agree(call)

    async def _agree(self, call: Call) -> Failed | None:
        """Begins with the handshake, which every server but the newest knows; those answer it with an error."""
        epoch = await self._wire.begin()
        if isinstance(epoch, Failed):
            return epoch
        if epoch == self._epoch:
            return None
        self._listed = None
        answer = await self._wire.ask(initialize(self._next()), Agreed(), call)
        outcome = result_of(answer)
        if isinstance(outcome, Success) and isinstance(outcome.data, dict):
            fault = await self._shake(outcome, call)
        elif _is_other_era(answer):
            fault = await self._discover(call, outcome)
        else:
            fault = outcome if isinstance(outcome, Failed) else None
        if fault is None:
            self._epoch = epoch
        return fault

    async def _shake(self, outcome: Success, call: Call) -> Failed | None:
        result = outcome.data
        assert isinstance(result, dict)  # noqa: S101 - as `_agree` saw
        version, session = speaks(result), outcome.facts.get("session")
        if not version:
            return failed("upstream_error", "the server speaks a revision of MCP that this gateway does not")
        self._agreed = Agreed(version=version, session=session if isinstance(session, str) else "")
        self._who = _who(result.get("serverInfo"))
        await self._wire.tell({"jsonrpc": "2.0", "method": "notifications/initialized"}, self._agreed, call)
        return None

    async def _discover(self, call: Call, refused: Success | Failed) -> Failed | None:
        agreed = Agreed(version=MODERN)
        found = result_of(await self._wire.ask(request("server/discover", modern({}), self._next()), agreed, call))
        if isinstance(found, Failed):
            return refused if isinstance(refused, Failed) else found
        self._agreed = agreed
        result = found.data if isinstance(found.data, dict) else {}
        self._who = _who(result.get("serverInfo"))
        return None

    async def _list(self, call: Call) -> Listing | Failed:
        tools: list[ListedTool] = []
        cursors: set[str] = set()
        params: JsonObject = {}
        size = 0
        for _ in range(_MOST_PAGES):
            page = await self._asked("tools/list", params, call)
            if isinstance(page, Failed):
                return page
            result = page.data if isinstance(page.data, dict) else {}
            try:
                tools += msgspec.convert(result.get("tools"), tuple[ListedTool, ...])
            except (msgspec.ValidationError, RecursionError):
                return failed("upstream_error", "the server's list of tools is not as MCP has it")
            size += int(str(page.facts.get("bytes", 0)))
            if len(tools) > _MOST_TOOLS or size > _LARGEST_LISTING:
                return failed("response_too_large", f"the server lists more than {_MOST_TOOLS} tools, or larger ones")
            cursor = result.get("nextCursor")
            if not isinstance(cursor, str) or not cursor:
                name, version = self._who
                return Listing(server=name, version=version, tools=tuple(tools))
            if cursor in cursors:
                break
            cursors.add(cursor)
            params = {"cursor": cursor}
        return failed("upstream_error", f"the server's list of tools has no end, or more than {_MOST_PAGES} pages")


def _is_lost(outcome: Success | Failed, agreed: Agreed) -> bool:
    """Whether a server does not know the session that it was asked in (MCP 2025-11-25, basic/transports, Session Management)."""
    return bool(agreed.session) and outcome.facts.get("upstream_status") == _NO_SUCH_SESSION


def _is_other_era(answer: Success | Failed) -> bool:
    """Whether a handshake was turned down for what it is: with an error of JSON-RPC, or with a status that is about the request."""
    if isinstance(answer, Success):
        return isinstance(answer.data, dict) and "error" in answer.data
    status = answer.facts.get("upstream_status")
    return isinstance(status, int) and 400 <= status < 500 and status not in _DENIED


def _who(info: Json) -> tuple[str, str]:
    said = info if isinstance(info, dict) else {}
    name, version = said.get("title") or said.get("name"), said.get("version")
    return str(name or "")[:200], str(version or "")[:100]


def _parts(listing: Listing) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    twice: set[str] = set()
    for tool in listing.tools:
        if tool.name in found:
            twice.add(tool.name)
        try:
            found[tool.name] = parts_of(tool)
        except CanonicalError:
            twice.add(tool.name)
    return {name: parts for name, parts in found.items() if name not in twice}
