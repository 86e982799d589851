"""Page of the audit log: the last verification, the checkpoints, and verifying again."""

from __future__ import annotations

import asyncio
from pathlib import Path

from msgspec import Struct

from toolgen.audit.files import segments, stream_names
from toolgen.audit.keys import public_keys
from toolgen.core.errors import AuditError
from toolgen.frontends.console.http import Visit
from toolgen.frontends.console.log_verifier import Verified
from toolgen.frontends.http.request import Response

__all__ = ["show", "verdict_of", "verify"]


class _StreamFigures(Struct, frozen=True, kw_only=True):
    name: str
    files: int
    bytes: int


_WAIT_S = 1.0  # most logs are verified by then, and the page has the result at once


def verdict_of(last: Verified | None) -> str:
    """Return the result of a verification in words."""
    if last is None:
        return "Not verified"
    if last.report is None:
        return "Not readable"
    if not last.report.ok:
        return "Broken"
    return "Intact" if last.report.signed else "Intact, unsigned"


async def show(visit: Visit) -> Response:
    """GET /console/record"""
    given = visit.request.parameters("done")
    folder = visit.gateway.settings.audit_dir
    streams, keys = await asyncio.to_thread(_disk, folder)
    last = visit.context.verification.last
    return visit.page(
        "record.html",
        at="record",
        asked=bool(given.get("done")),
        verdict=verdict_of(last),
        verification=visit.context.verification,
        streams=streams,
        keys=keys,
        places=visit.gateway.settings.audit.places,
        folder=str(folder),
    )


async def verify(visit: Visit) -> Response:
    """POST /console/record/verify: starts a verification."""
    visit.request.parameters()
    visit.context.verification.begin()
    await visit.context.verification.ended(_WAIT_S)
    return visit.done("/console/record", "verified")


def _disk(folder: Path) -> tuple[tuple[_StreamFigures, ...], tuple[str, ...]]:
    """Return the streams of a log and the public keys beside it; empty without a log."""
    try:
        found = []
        for name in stream_names(folder):
            with segments(folder, name) as files:
                sizes = [segment.path.stat().st_size for segment, _ in files]
            found.append(_StreamFigures(name=name, files=len(sizes), bytes=sum(sizes)))
        return tuple(found), tuple(sorted(public_keys((), folder)))
    except (AuditError, OSError):
        return (), ()
