"""Whether the log is what was written: the last verification, the checkpoints, and verifying again."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from toolgen.audit.files import segments, stream_names
from toolgen.audit.keys import public_keys
from toolgen.console.answers import redirect
from toolgen.console.visit import Visit
from toolgen.errors import AuditError
from toolgen.gateway.http import Response

__all__ = ["show", "verify"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stream:
    name: str
    files: int
    bytes: int


async def show(visit: Visit) -> Response:
    """GET /console/record"""
    visit.request.parameters()
    folder = visit.gateway.settings.audit_dir
    streams, keys = await asyncio.to_thread(_disk, folder)
    return visit.page(
        "record.html",
        at="record",
        verification=visit.backstage.verification,
        streams=streams,
        keys=keys,
        places=visit.gateway.settings.audit.places,
        folder=str(folder),
    )


async def verify(visit: Visit) -> Response:
    """POST /console/record/verify: begins it."""
    visit.request.parameters()
    visit.backstage.verification.begin()
    return redirect("/console/record")


def _disk(folder: Path) -> tuple[tuple[_Stream, ...], tuple[str, ...]]:
    """The streams of a log and the public keys beside it; nothing where there is no log yet."""
    try:
        found = []
        for name in stream_names(folder):
            with segments(folder, name) as files:
                sizes = [segment.path.stat().st_size for segment, _ in files]
            found.append(_Stream(name=name, files=len(sizes), bytes=sum(sizes)))
        return tuple(found), tuple(sorted(public_keys((), folder)))
    except (AuditError, OSError):
        return (), ()
