"""Streamed answers: Server-Sent Events, and JSON with one value per line. Callers receive the pieces as they arrive.

The answer of the call is the same as without streaming: the complete body, decoded at its end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress

from toolgen.connectors.http.response import HttpResponse, decode
from toolgen.connectors.http.scrubber import Scrubber
from toolgen.core.json_codec import TooDeepError
from toolgen.model.client_channel import ClientChannel
from toolgen.model.schema import Json

__all__ = ["EVENT_ENDING", "MAX_EVENT_ENDING_LENGTH", "MAX_PIECES", "MAX_PIECE_SIZE", "Pieces", "events"]

EVENT_ENDING = re.compile(rb"(?:\r\n|\n|\r(?!\n)){2}")
MAX_EVENT_ENDING_LENGTH = 4
MAX_PIECES = 1_000
"""Maximum number of pieces of one answer that are forwarded; further pieces are counted, and are only in the answer."""
MAX_PIECE_SIZE = 65_536
"""Maximum bytes of one piece; a longer piece is only counted."""

_EVENTS = "text/event-stream"
_LINES = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"})
_LINE_ENDING = re.compile(rb"\n")


def events(body: bytes) -> list[bytes]:
    """Return the data of each event (WHATWG HTML, section 9.2.6); names and ids are ignored."""
    found: list[bytes] = []
    lines: list[bytes] = []
    for line in [*body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"), b""]:
        if line.startswith(b"data:"):
            lines.append(line[5:].removeprefix(b" "))
        elif not line and lines:
            found.append(b"\n".join(lines))
            lines = []
    return found


class Pieces:
    """Listener of one body that forwards its pieces and their number to `line`: JSON as JSON, text as text, without the secrets that were
    sent.
    """

    def __init__(self, line: ClientChannel, scrubber: Scrubber) -> None:
        self._line = line
        self._scrubber = scrubber
        self._count = 0
        self._ending = EVENT_ENDING
        self._skips = False  # True while the rest of a too long piece is skipped

    def wants(self, headers: Mapping[str, str]) -> bool:
        """Return True for a body of a media type with pieces."""
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != _EVENTS and kind not in _LINES:
            return False
        self._held = bytearray()
        if kind in _LINES:
            self._ending = _LINE_ENDING
        return True

    def enough(self, data: bytes) -> bool:
        """Forward the pieces that end in these bytes. Returns False, because only the end of the body completes the answer."""
        before = self._count
        for piece in self._pieces(data):
            self._count += 1
            if self._count <= MAX_PIECES and len(piece) <= MAX_PIECE_SIZE:
                with suppress(TooDeepError):  # the fault is reported with the complete answer
                    self._line.partial(self._read(piece))
        if self._count > before:
            self._line.progress(self._count, None, "")
        return False

    def _pieces(self, data: bytes) -> Iterator[bytes]:
        """Yield the pieces that end in these bytes. A too long piece is not yielded, only counted."""
        looked = max(0, len(self._held) - MAX_EVENT_ENDING_LENGTH)
        self._held += data
        start = 0
        for ending in self._ending.finditer(self._held, looked):
            if ending.start() < start:
                continue  # a line break of the ending before
            block = b"" if self._skips else bytes(self._held[start : ending.end()])
            start = ending.end()
            if self._skips:
                self._skips = False
                self._count += 1
            elif self._ending is _LINE_ENDING:
                if line := block.strip():
                    yield line
            else:
                yield from events(block)
        del self._held[:start]
        if len(self._held) > MAX_PIECE_SIZE:
            self._skips = True
            del self._held[:-MAX_EVENT_ENDING_LENGTH]

    def _read(self, piece: bytes) -> Json:
        answer = HttpResponse(status=200, content_type="", body=piece, truncated=False, headers={})
        return decode(answer, self._scrubber)
