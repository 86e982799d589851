"""Search for the outcomes of calls in the audit log of a gateway."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from toolgen.audit.call_window import start_of
from toolgen.audit.files import stream_names
from toolgen.audit.reader import decoded, lines_of

__all__ = ["recorded_outcomes"]

_CALL_ID = re.compile(rb'"call_id":"([^"\\]*)"')


def recorded_outcomes(directory: Path, call_ids: Collection[str], since: float) -> Mapping[str, str]:
    """Return the outcomes of some calls made since a time (seconds since the epoch): the code, or otherwise the status, of the last
    attempt's outcome or of a decision that ended the call. Calls without an outcome are left out. Raises `AuditError`."""
    wanted = {call_id.encode() for call_id in call_ids}
    found: dict[str, tuple[str, str]] = {}
    for entry in decoded(
        line for line in _lines_since(directory, since) if not wanted.isdisjoint(_CALL_ID.findall(line))
    ):
        call_id, time, event = str(entry.get("call_id")), str(entry.get("time", "")), entry.get("event")
        if time < found.get(call_id, ("", ""))[0]:
            continue
        if event == "intent":
            found[call_id] = time, ""
        elif (event == "outcome" and entry.get("status") != "pending") or (event == "decision" and "code" in entry):
            found[call_id] = time, str(entry.get("code") or entry.get("status"))
    return {call_id: ended for call_id, (_, ended) in found.items() if ended and call_id in call_ids}


def _lines_since(directory: Path, since: float) -> Iterator[bytes]:
    """Yield the lines of all streams, from the segment that was being written at a time."""
    for name in stream_names(directory):
        yield from lines_of(directory, name, start_of(directory, name, since))
