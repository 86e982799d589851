"""Changes of resources, told to whoever listens in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from toolgen.model.uri_template import canonical_uri

__all__ = ["ResourceUpdates"]


class ResourceUpdates:
    """Listeners for changes of resources. A listener that does not read is told less."""

    def __init__(self) -> None:
        self._listeners: dict[int, asyncio.Queue[str]] = {}

    def put(self, uri: str) -> None:
        """Tell that the resource of a URI has changed. For the gateway's event loop."""
        canonical = canonical_uri(uri)
        if canonical is None:
            return
        for listener in self._listeners.values():
            with suppress(asyncio.QueueFull):
                listener.put_nowait(canonical)

    @contextmanager
    def listening(self, changed: asyncio.Queue[str]) -> Iterator[None]:
        """Have the queue told of each change within the block."""
        self._listeners[id(changed)] = changed
        try:
            yield
        finally:
            del self._listeners[id(changed)]
