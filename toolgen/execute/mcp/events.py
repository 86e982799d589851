"""Answers that are streams of events: read to the answer, and no further. What comes before may say how far the call has come."""

from __future__ import annotations

import re
from collections.abc import Mapping

from toolgen.execute.http.scrubber import Scrubber
from toolgen.execute.mcp.addressee import addressed
from toolgen.execute.mcp.messages import tell_progress
from toolgen.json_codec import decode_json
from toolgen.model.line import Line
from toolgen.model.schema import Json

__all__ = ["Stream", "events"]

_ENDING = re.compile(rb"(?:\r\n|\n|\r(?!\n)){2}")
_LONGEST_ENDING = 4


def events(body: bytes) -> list[bytes]:
    """The data of each event (WHATWG HTML, section 9.2.6); their names and ids say nothing here."""
    found: list[bytes] = []
    lines: list[bytes] = []
    for line in [*body.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"), b""]:
        if line.startswith(b"data:"):
            lines.append(line[5:].removeprefix(b" "))
        elif not line and lines:
            found.append(b"\n".join(lines))
            lines = []
    return found


class Stream:
    """Hears the events of one answer: of the request `number`, whose caller is told of progress over `line`."""

    def __init__(self, number: Json, line: Line | None, scrubber: Scrubber) -> None:
        self._number = number
        self._line = line
        self._scrubber = scrubber
        self._held = bytearray()

    def wants(self, headers: Mapping[str, str]) -> bool:
        """Event streams alone: another body is an answer when it ends."""
        return headers.get("content-type", "").partition(";")[0].strip().lower() == "text/event-stream"

    def enough(self, data: bytes) -> bool:
        """Whether an answer has come, be it one that cannot be read."""
        looked = max(0, len(self._held) - _LONGEST_ENDING)
        self._held += data
        while ending := _ENDING.search(self._held, looked):
            block = bytes(self._held[: ending.end()])
            del self._held[: ending.end()]
            looked = 0
            if any(self._heard(event) for event in events(block)):
                return True
        return False

    def _heard(self, event: bytes) -> bool:
        try:
            message = decode_json(event)
        except ValueError:
            return self._number in addressed(event, event)
        if not isinstance(message, Mapping):
            return isinstance(message, list)
        if message.get("method") == "notifications/progress" and self._line is not None:
            params = message.get("params")
            token = params.get("progressToken") if isinstance(params, Mapping) else None
            if type(token) is int and token == self._number:
                tell_progress(self._line, params, self._scrubber)
        return "method" not in message
