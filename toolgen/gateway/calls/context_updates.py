"""Notifications of changed resources, and of changed lists of prompts and resources at their source, for the listeners of this process;
and state of sessions that all workers share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from toolgen.model.relayed import Relayed, RelayTopic
from toolgen.model.uri_template import canonical_uri

__all__ = ["ResourceUpdates", "UpdateRelay"]

_QUIET_S = 1.0
"""Time after a changed list in which its further changes are reported as one."""


class UpdateRelay(Protocol):
    """Connection to the other workers of a gateway.

    A protocol, because connectors/mcp implements it, which no module of gateway/ imports.
    """

    def relay(self, said: Relayed) -> None:
        """Send a message to the other workers."""

    def hear(self, listener: Callable[[Relayed], None]) -> None:
        """Register a listener for messages of other workers, and for earlier ones that later workers need."""

    async def close(self) -> None:
        """End the connection."""


class ResourceUpdates:
    """Listeners for changes of resources. A listener that does not read gets fewer notifications. `relay` leads to the other workers."""

    def __init__(self, relay: UpdateRelay | None = None) -> None:
        self._listeners: dict[int, asyncio.Queue[str]] = {}
        self._relay = relay
        self._lists: dict[tuple[str, str], int] = {}
        self._lists_changed = asyncio.Event()
        self._telling: asyncio.TimerHandle | None = None
        self._shared: dict[RelayTopic, list[Callable[[Relayed], None]]] = {}
        self._hearing = False

    def put(self, uri: str) -> None:
        """Report that the resource of a URI has changed, here and at other workers. For the gateway's event loop."""
        canonical = canonical_uri(uri)
        if canonical is None:
            return
        self._tell(canonical)
        if self._relay is not None:
            self._relay.relay(Relayed(topic="changed", name=canonical))

    def share(self, said: Relayed) -> None:
        """Send a message to the other workers, if there are any."""
        if self._relay is not None:
            self._relay.relay(said)

    def shared(self, topic: RelayTopic, listener: Callable[[Relayed], None]) -> None:
        """Register a listener for messages of other workers about a topic."""
        self._shared.setdefault(topic, []).append(listener)

    def page_done(self, page: str, alone: bool) -> None:
        """Report that a web page that a client was shown is done, by the client's id for it. `alone`: other workers do not hear of it."""
        said = Relayed(topic="page", name=page, value="done")
        for listener in self._shared.get(said.topic, ()):
            listener(said)
        if alone:
            self.share(said)

    def hear(self) -> None:
        """Begin to hear the other workers. For the gateway's event loop."""
        if self._relay is not None and not self._hearing:
            self._hearing = True
            self._relay.hear(self._heard)

    def _heard(self, said: Relayed) -> None:
        if said.topic == "changed":
            self._tell(said.name)
        for listener in self._shared.get(said.topic, ()):
            listener(said)

    def put_here(self, uri: str) -> None:
        """Notify only the listeners of this process: other workers get the change from its source."""
        canonical = canonical_uri(uri)
        if canonical is not None:
            self._tell(canonical)

    def list_changed(self, source: str, kind: str) -> None:
        """Report that the list of `prompts` or `resources` has changed at a source."""
        self._lists[source, kind] = self._lists.get((source, kind), 0) + 1
        if self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(_QUIET_S, self._tell_lists)

    def list_changes(self, source: str, kind: str) -> int:
        """Return the number of times that a list has changed at a source."""
        return self._lists.get((source, kind), 0)

    def lists_changed(self) -> Coroutine[Any, Any, object]:
        """Return a wait until a list changes at a source, counted from this call."""
        return self._lists_changed.wait()

    async def close(self) -> None:
        """End the connection to the other workers."""
        if self._telling is not None:
            self._telling.cancel()
        if self._relay is not None:
            await self._relay.close()

    def _tell_lists(self) -> None:
        self._telling = None
        changed, self._lists_changed = self._lists_changed, asyncio.Event()
        changed.set()

    def _tell(self, uri: str) -> None:
        for listener in self._listeners.values():
            with suppress(asyncio.QueueFull):
                listener.put_nowait(uri)

    @contextmanager
    def listening(self, changed: asyncio.Queue[str]) -> Iterator[None]:
        """Notify the queue of each change within the block."""
        self._listeners[id(changed)] = changed
        self.hear()
        try:
            yield
        finally:
            del self._listeners[id(changed)]
