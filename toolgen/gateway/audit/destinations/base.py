"""Protocol of a destination of the audit log's entries, and the errors that tell the shipper how to go on."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Protocol

from msgspec import Struct

from toolgen.audit.entry_stream import BatchSize, RecordedEntry
from toolgen.connectors.executor import Destination, Permit
from toolgen.connectors.http.outbound.client import ask
from toolgen.connectors.http.outbound.request import (
    OutboundError,
    OutboundRequest,
    OutboundResponse,
    TlsMaterial,
    Via,
)
from toolgen.connectors.secrets import SecretResolver
from toolgen.core.errors import SecretError
from toolgen.model.secret import SecretReference

__all__ = [
    "BusyError",
    "EntryDestination",
    "EntryHttp",
    "OutgoingEntry",
    "RefusedEntriesError",
    "Rhythm",
]

_TOTAL_S = 20.0
_MAX_WAIT_S = 600.0
_SECONDS = re.compile(r"\d{1,9}\Z")
_CONTENT = frozenset({400, 413, 422})
"""Statuses by which a receiver refuses what was sent, not the sender."""


class OutgoingEntry(Struct, frozen=True, kw_only=True):
    """Entry in the form in which it is sent: `body` is one line of JSON without its line end."""

    entry: RecordedEntry
    body: bytes


class Rhythm(Struct, frozen=True, kw_only=True):
    """Maximum size of the batches of a destination, and the pause in seconds after which the next ones are sent."""

    size: BatchSize = BatchSize()
    every_s: float = 1.0


class RefusedEntriesError(OSError):
    """Raised if a destination answered that it does not take these entries, however often they are sent."""


class BusyError(OSError):
    """Raised if a destination asks for a pause of `after_s` seconds."""

    def __init__(self, text: str, after_s: float) -> None:
        super().__init__(text)
        self.after_s = after_s


class EntryDestination(Protocol):
    """Destination of entries. One worker of a gateway sends; a batch has entries of one stream, in their order."""

    @property
    def rhythm(self) -> Rhythm: ...

    async def send(self, stream: str, entries: tuple[OutgoingEntry, ...]) -> None:
        """Return once the destination has the entries. Raises `OSError`, with a text for a person and without secrets; the entries are
        sent again then, unless it is a `RefusedEntriesError`."""

    async def close(self) -> None:
        """End the connection, if there is one."""


class EntryHttp:
    """Sender of entries over HTTP. Header values are secrets, which are resolved for each request."""

    def __init__(self, *, authorities: str, permit: Permit, secrets: SecretResolver) -> None:
        self._secrets = secrets
        # The address comes only from toolgen.yaml.
        self._via = Via(
            permit=permit,
            destination=Destination(host="", port=0, service="keys"),
            tls=TlsMaterial(authorities=authorities),
            total_s=_TOTAL_S,
        )

    async def revealed(self, values: Mapping[str, SecretReference]) -> dict[str, str]:
        """Return the current values of secrets. Raises `OSError`."""
        try:
            return {name: (await self._secrets.fetch(one)).reveal() for name, one in values.items()}
        except SecretError as error:
            raise OSError(str(error)) from None

    async def send(self, request: OutboundRequest) -> OutboundResponse:
        """Return the answer 2xx to a request. Raises `OSError`."""
        try:
            reply = await ask(request, self._via)
        except OutboundError as error:
            raise OSError(str(error)) from None
        if 200 <= reply.status < 300:
            return reply
        said = f"it answered {reply.status}"
        if reply.status in _CONTENT:
            raise RefusedEntriesError(said)
        if reply.retry_after:
            raise BusyError(said, _seconds(reply.retry_after))
        raise OSError(said)


def _seconds(text: str) -> float:
    """Return the pause that a header Retry-After asks for (RFC 9110, section 10.2.3), 0 for an invalid one."""
    if _SECONDS.match(text):
        return min(_MAX_WAIT_S, float(text))
    try:
        return max(0.0, min(_MAX_WAIT_S, parsedate_to_datetime(text).timestamp() - time.time()))
    except (ValueError, OverflowError):
        return 0.0
