"""Answers with one item after another: JSON values by lines, and Server-Sent Events. Agents get the list of the items."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

__all__ = ["EVENTS", "LISTED", "MAX_ITEMS", "Item", "items_of"]

MAX_ITEMS = 10_000
"""Maximum number of items that are returned of one answer."""

_LINES = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"})
_SEQUENCES = frozenset({"application/json-seq", "application/geo+json-seq"})
EVENTS = "text/event-stream"
_RECORD = re.compile(rb"\x1e")
_LINE = re.compile(rb"\r\n|\n|\r")
LISTED = _LINES | _SEQUENCES | {EVENTS}
"""Media types of such answers."""

Item = tuple[bytes, str]
"""Bytes of an item, and the name of its event; "" if there is none."""


def items_of(media_type: str, body: bytes, *, cut: bool) -> tuple[Sequence[Item], bool] | None:
    """Return the items of a body, and whether there are more; None for a media type without items.

    `cut`: the body continues, so its last item is left out unless it is known to be complete. `media_type` is in lower case, without
    parameters.
    """
    if media_type == EVENTS:
        found = _events(body, cut=cut)
    elif media_type in _LINES:
        found = _records(body.split(b"\n"), cut=cut)
    elif media_type in _SEQUENCES:
        found = _records(_RECORD.split(body), cut=cut)
    else:
        return None
    taken: list[Item] = []
    for item in found:
        if len(taken) == MAX_ITEMS:
            return taken, True
        taken.append(item)
    return taken, cut


def _records(parts: Sequence[bytes], *, cut: bool) -> Iterator[Item]:
    """Yield the JSON values of a response with one value on each line, or one after each record separator (RFC 7464)."""
    for part in parts[:-1] if cut else parts:
        if record := part.strip():
            yield record, ""


def _events(body: bytes, *, cut: bool) -> Iterator[Item]:
    """Yield data and name of each event (WHATWG HTML, section 9.2.6). The last event of a complete body needs no
    empty line after it.
    """
    lines = _LINE.split(body.removeprefix(b"\xef\xbb\xbf"))
    data: list[bytes] = []
    name = ""
    for line in lines[:-1] if cut else [*lines, b""]:
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value.decode("utf-8", "replace")
        elif not line:
            if data:
                yield b"\n".join(data), name
            data, name = [], ""
