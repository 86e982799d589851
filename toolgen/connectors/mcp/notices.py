"""Notices of a server that answer no request: changed resources, changed lists, web pages that are done, and a connection that was lost."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from toolgen.core.clock import Clock, SystemClock
from toolgen.core.json_codec import encode_json
from toolgen.model.schema import Json

__all__ = [
    "LISTS",
    "LOST",
    "SUBSCRIBE",
    "UNSUBSCRIBE",
    "UPDATED",
    "NoticeListener",
    "ServerNotice",
    "Subscribed",
    "below",
    "done_page",
    "page_id",
]

SUBSCRIBE: Final = "resources/subscribe"
UNSUBSCRIBE: Final = "resources/unsubscribe"
UPDATED: Final = "notifications/resources/updated"
LISTS: Final[Mapping[str, Literal["prompts", "resources"]]] = {
    "notifications/prompts/list_changed": "prompts",
    "notifications/resources/list_changed": "resources",
}
MAX_URI_LENGTH: Final = 2048
_MAX_ID_LENGTH: Final = 256
_ID_DIGITS: Final = 32
_BURST: Final = 500
_PER_SECOND: Final = 50.0
_CLOCK = SystemClock()


class ServerNotice(Struct, frozen=True):
    """`updated`: the resource `uri` has changed. `prompts`, `resources`: that list has. `settled`: changes of `uri` are told from now on,
    or it is known that they are not. `done`: the web page with the id `uri` is. `lost`: the connection has ended."""

    kind: Literal["updated", "prompts", "resources", "settled", "done", "lost"]
    uri: str = ""


LOST: Final = ServerNotice("lost")
NoticeListener: TypeAlias = Callable[[ServerNotice], None]


def below(uri: str, subscribed: str) -> bool:
    """Return True if a URI is a subscribed one, or below it (2025-11-25, server/resources, Subscriptions)."""
    return uri == subscribed or uri.startswith(f"{subscribed.rstrip('/')}/")


def done_page(params: Json) -> str:
    """Return the id by which a server says that a web page is done (2025-11-25, client/elicitation, Completion Notifications), or ""."""
    page = params.get("elicitationId") if isinstance(params, Mapping) else None
    return page if isinstance(page, str) and len(page) <= _MAX_ID_LENGTH else ""


def page_id(source: str, caller: tuple[str, str], page: str) -> str:
    """Return the id by which clients know a web page. A page of another server, or of another caller's session, never has the same."""
    return hashlib.sha256(encode_json([source, *caller, page])).hexdigest()[:_ID_DIGITS]


class Subscribed:
    """URIs that a server was asked to tell of, and how often it may: a flood is not passed on."""

    def __init__(self, clock: Clock = _CLOCK) -> None:
        self.uris: set[str] = set()
        self._clock = clock
        self._left, self._at = float(_BURST), clock.monotonic()

    def meant(self, uri: object) -> list[str]:
        """Return the subscribed URIs that an update is about; none if it is about no such resource, or one of too many."""
        if not isinstance(uri, str) or len(uri) > MAX_URI_LENGTH:
            return []
        found = [one for one in self.uris if below(uri, one)]
        return found if found and self.admits() else []

    def admits(self) -> bool:
        """Count a notice. Returns False if there were too many lately."""
        now = self._clock.monotonic()
        self._left = min(float(_BURST), self._left + (now - self._at) * _PER_SECOND)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True
