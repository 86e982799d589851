"""Calls that the last writer of a stream began and did not end."""

from __future__ import annotations

from pathlib import Path

import msgspec

from toolgen.audit.files import closed_segments
from toolgen.audit.reader import lines_of

__all__ = ["left_open"]


class _Event(msgspec.Struct, gc=False):
    event: str = ""
    call_id: str = ""
    tool: str = ""
    code: str | None = None


_event = msgspec.json.Decoder(_Event).decode


def left_open(directory: Path, stream: str) -> dict[str, str]:
    """Return the calls that were left open, with the names of their tools. Raises `AuditError`.

    Only the current segment and the one before it are read. Calls that a recovery has reported already are left out.
    """
    closed = closed_segments(directory, stream)
    found: dict[str, str] = {}
    for line in lines_of(directory, stream, closed[-1].first if closed else 1):
        try:
            entry = _event(line)
        except (msgspec.DecodeError, RecursionError):
            continue
        if entry.event == "intent":
            found[entry.call_id] = entry.tool
        elif entry.event == "outcome" or (entry.event == "decision" and entry.code):
            found.pop(entry.call_id, None)
        elif entry.event == "recovered":
            found.clear()
    return found
