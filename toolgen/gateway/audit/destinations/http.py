"""Receiver of entries over HTTP: each batch is one POST of lines of JSON (application/x-ndjson)."""

from __future__ import annotations

from toolgen.config.audit_stream import HttpTarget
from toolgen.connectors.http.outbound.request import OutboundRequest
from toolgen.gateway.audit.destinations.base import EntryHttp, OutgoingEntry, Rhythm

__all__ = ["HttpReceiver"]


class HttpReceiver:
    """Receiver behind a URL; any answer 2xx confirms a batch."""

    rhythm = Rhythm()

    def __init__(self, target: HttpTarget, http: EntryHttp) -> None:
        self._target, self._http = target, http

    async def send(self, stream: str, entries: tuple[OutgoingEntry, ...]) -> None:
        """Return once the receiver has confirmed the entries. Raises `OSError`.

        The header Idempotency-Key is the same for the same entries, so that a receiver can drop a batch that comes twice.
        """
        headers = await self._http.revealed(self._target.headers)
        headers["Content-Type"] = "application/x-ndjson"
        first, last = entries[0].entry, entries[-1].entry
        headers["Idempotency-Key"] = f"{stream}:{first.seq}-{last.seq}:{last.mark}"
        body = b"".join(one.body + b"\n" for one in entries)
        await self._http.send(
            OutboundRequest(method="POST", url=self._target.url, headers=headers, body=body, reads=False)
        )

    async def close(self) -> None:
        """Do nothing: each request has its own connection."""
