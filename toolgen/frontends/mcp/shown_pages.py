"""Web pages that clients were shown by URL-mode elicitation: a session is told when one is done (2025-11-25, client/elicitation)."""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from msgspec import Struct

from toolgen.core.errors import StateError
from toolgen.frontends.mcp.sessions import session_key
from toolgen.gateway.calls.context_updates import ResourceUpdates
from toolgen.gateway.calls.json_body import encode
from toolgen.model.call import Principal, parties
from toolgen.model.caller_requests import PAGE_DONE
from toolgen.model.relayed import Relayed
from toolgen.model.schema import Json

__all__ = ["PageStream", "ShownPages"]

_MAX_SESSIONS = 4096
_MAX_WAITS = 1024
_MAX_PAGES = 64
"""Pages of one session whose end is waited for, or is not told yet."""
Send = Callable[[bytes], None]


class PageStream(Struct, frozen=True):
    """Stream of a session in this process. Other workers name it by its `id`."""

    id: str
    done: asyncio.Queue[str]

    async def notifications(self) -> AsyncIterator[bytes]:
        """Notifications about pages that are done."""
        while True:
            yield _notification(await self.done.get())


class _Session:
    """Pages of one session. `shown` are those that are not done, each with the stream of the request that had it shown, while that is
    open. `untold` are done, and no stream of the session was open since."""

    __slots__ = ("shown", "untold")

    def __init__(self) -> None:
        self.shown: dict[str, Send | None] = {}
        self.untold: dict[str, None] = {}


class ShownPages:
    """Pages that clients of this process were shown, by their ids. An id that is not known, or is done already, is dropped.

    The worker that had a page shown decides which stream is told, so that no two are: the stream of that request, one of the session in
    this process, or one at another worker. `updates` leads to the others; `value` of their messages (topic `page`) is

    - `done`: the page `name` is.
    - `wanted`: the session `key` has something to be told. Workers with a stream of it answer with
    - `stream`: the stream `name` of the session `key` is open.
    - `tell`: the stream `key` tells that the page `name` is done.
    """

    def __init__(self, updates: ResourceUpdates) -> None:
        self._updates = updates
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._holders: dict[str, set[str]] = {}  # the sessions that were shown a page which is not done
        self._streams: dict[str, list[PageStream]] = {}
        self._waits: set[asyncio.Task[None]] = set()
        updates.shared("page", self._heard)

    def shown(
        self, principal: Principal, session: str, method: str, params: Mapping[str, Json], send: Send | None = None
    ) -> None:
        """Note a request that is sent to a client, if it has a web page shown. `send` is the stream of the client's own request."""
        page = params.get("elicitationId")
        if method != "elicitation/create" or params.get("mode") != "url" or not isinstance(page, str) or not session:
            return
        key = session_key(parties(principal), session)
        mine = self._sessions.setdefault(key, _Session())
        self._sessions.move_to_end(key)
        mine.shown[page] = send
        self._holders.setdefault(page, set()).add(key)
        if len(mine.shown) > _MAX_PAGES:
            self._forget(key, mine, next(iter(mine.shown)))
        if len(self._sessions) > _MAX_SESSIONS:
            last, oldest = self._sessions.popitem(last=False)
            for one in tuple(oldest.shown):
                self._forget(last, oldest, one)

    def close(self, principal: Principal, session: str, send: Send) -> None:
        """Tell a session nothing more over the stream of a request, which has ended."""
        mine = self._sessions.get(session_key(parties(principal), session))
        for page, stream in () if mine is None else tuple(mine.shown.items()):
            if mine is not None and stream == send:
                mine.shown[page] = None

    def done_after(self, page: str, ending: Coroutine[Any, Any, bool]) -> None:
        """Tell the sessions that were shown a page that it is done once an ending returns True, if not too many are waited for."""
        if len(self._waits) >= _MAX_WAITS:
            ending.close()
            return
        task = asyncio.create_task(self._done_after(page, ending))
        self._waits.add(task)
        task.add_done_callback(self._waits.discard)

    async def _done_after(self, page: str, ending: Coroutine[Any, Any, bool]) -> None:
        with suppress(StateError):
            if await ending:
                self.done(page)

    def stop(self) -> None:
        """Wait for no page any more: the gateway goes."""
        for task in self._waits:
            task.cancel()

    @contextmanager
    def listening(self, principal: Principal, session: str) -> Iterator[PageStream]:
        """Open a stream of a session within the block."""
        stream, key = (
            PageStream(secrets.token_hex(16), asyncio.Queue(_MAX_PAGES)),
            session_key(parties(principal), session),
        )
        self._streams.setdefault(key, []).append(stream)
        mine = self._sessions.get(key)
        for page in () if mine is None else tuple(mine.untold):
            stream.done.put_nowait(page)
        self._told(key)
        self._share(key, stream.id, "stream")
        try:
            yield stream
        finally:
            self._streams[key].remove(stream)
            if not self._streams[key]:
                del self._streams[key]

    def done(self, page: str) -> None:
        """Tell the sessions that were shown a page that it is done."""
        for key in tuple(self._holders.get(page, ())):
            self._tell(key, self._sessions[key], page)

    def _tell(self, key: str, mine: _Session, page: str) -> None:
        send = mine.shown[page]
        self._forget(key, mine, page)
        if (send is None or not _sent(send, page)) and not self._put(key, page):
            mine.untold[page] = None
            if len(mine.untold) > _MAX_PAGES:
                del mine.untold[next(iter(mine.untold))]
            self._share(key, "", "wanted")
        elif not (mine.shown or mine.untold):
            del self._sessions[key]

    def _heard(self, said: Relayed) -> None:
        """Handle a message of another worker, or of a bridged server."""
        match said.value:
            case "done":
                self.done(said.name)
            case "wanted":
                for stream in self._streams.get(said.key, ())[:1]:
                    self._share(said.key, stream.id, "stream")
            case "stream":
                mine = self._sessions.get(said.key)
                for page in () if mine is None else tuple(mine.untold):
                    self._share(said.name, page, "tell")
                self._told(said.key)
            case "tell":
                for stream in (one for streams in self._streams.values() for one in streams if one.id == said.key):
                    with suppress(asyncio.QueueFull):
                        stream.done.put_nowait(said.name)

    def _told(self, key: str) -> None:
        """Forget what a session was told."""
        mine = self._sessions.get(key)
        if mine is not None:
            mine.untold.clear()
            if not mine.shown:
                del self._sessions[key]

    def _put(self, key: str, page: str) -> bool:
        """Put a page into one stream of a session. Returns False if none takes it here."""
        for stream in self._streams.get(key, ()):
            if not stream.done.full():
                stream.done.put_nowait(page)
                return True
        return False

    def _forget(self, key: str, mine: _Session, page: str) -> None:
        del mine.shown[page]
        holders = self._holders[page]
        holders.discard(key)
        if not holders:
            del self._holders[page]

    def _share(self, key: str, name: str, value: str) -> None:
        self._updates.share(Relayed(topic="page", key=key, name=name, value=value))


def _sent(send: Send, page: str) -> bool:
    """Send a notification over the stream of a request. Returns False if its client reads too little."""
    try:
        send(_notification(page))
    except asyncio.QueueFull:
        return False
    return True


def _notification(page: str) -> bytes:
    return encode({"jsonrpc": "2.0", "method": PAGE_DONE, "params": {"elicitationId": page}})
