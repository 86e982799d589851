"""Where a stream of events may be asked for again, told from what a server sent, in whatever pieces it comes."""

from __future__ import annotations

import pytest

from toolgen.connectors.http.scrubber import Scrubber
from toolgen.connectors.mcp.http import Cursor, EventReader

SAID: list[tuple[bytes, str, float]] = [  # what came, from where to ask, and after how many seconds
    (b"id: 7\ndata:\n\n", "7", 0.1),
    (b"id:7\r\nretry:2000\r\n\r\n", "7", 2.0),
    (b"id: 7\rdata:\r\rid: 8\rdata:\r\r", "8", 0.1),
    (b"id: 7\n\nid\n\n", "", 0.1),
    (b"id: 7", "", 0.1),  # which has not ended
    (b"id: 7\n\nid: 8", "7", 0.1),
    (b"data: id: 9\n\n", "", 0.1),
    (b"id: a\xff\n\n", "", 0.1),
    (b"id: a\0b\n\n", "", 0.1),
    (b"id: " + b"x" * 1025 + b"\n\n", "", 0.1),
    (b"retry: 0\n\n", "", 0.1),
    (b"retry: -5\n\nretry: 1e3\n\nretry: " + b"9" * 30 + b"\n\n", "", 0.1),
]


@pytest.mark.parametrize(("body", "last", "pause_s"), SAID)
@pytest.mark.parametrize("size", [1, 3, 10_000])
def test_a_stream_is_asked_for_again_from_the_last_id_of_an_event(
    body: bytes, last: str, pause_s: float, size: int
) -> None:
    cursor = Cursor()
    stream = EventReader(1, None, Scrubber(()), cursor)
    for at in range(0, len(body), size):
        assert not stream.enough(body[at : at + size])
    assert (cursor.last, cursor.pause_s) == (last, pause_s)
