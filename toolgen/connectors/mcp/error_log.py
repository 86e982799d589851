"""Standard error of an MCP server's command, in the gateway's log: with the name of the source, and without secrets."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Iterator, Mapping

from toolgen.connectors.http.scrubber import Scrubber
from toolgen.connectors.secrets import MASK
from toolgen.model.excerpt import bounded
from toolgen.model.schema import Json, JsonObject

__all__ = ["ErrorLog"]

_logger = logging.getLogger("toolgen.mcp")
_MAX_LENGTH = 4096
_MAX_LAST_LINES = 5
_MAX_SHOWN_LENGTH = 500  # of the lines that an error repeats
_MAX_CALLS = 64
_MAX_VALUES = 1000
_MIN_INSIDE_LENGTH = 6  # of a value that is masked within words too
_MIN_LENGTH = 3


class ErrorLog(asyncio.Protocol):
    """The first 4 KiB of what one command writes, line by line. Secrets of its environment are masked, and so are the values of the
    arguments of its last calls: which of them are sensitive only the policy knows, and a log has no use for any. `last_lines` has what it
    wrote last, for the error of a call that it did not answer; `ended` is set once it writes no more."""

    def __init__(self, source: str, scrubber: Scrubber) -> None:
        self._source = source
        self._scrubber = scrubber
        self._recent: deque[JsonObject] = deque(maxlen=_MAX_CALLS)
        self._left = _MAX_LENGTH
        self._unfinished = b""
        self._tail = b""
        self._shared = False
        self.ended = asyncio.Event()

    def begin(self, *, alone: bool) -> None:
        """A request begins; `alone` if no other waits for its answer. What is written from now on belongs to it, and to no other."""
        self._shared = not alone
        if alone:
            self._tail = b""

    def last_lines(self) -> str:
        """The last lines that were written since `begin`, masked; "" if they may be about the calls of several callers."""
        if self._shared:
            return ""
        lines = [line for one in self._masked(self._tail, cut=True).splitlines() if (line := " ".join(one.split()))]
        shown: list[str] = []
        left = _MAX_SHOWN_LENGTH
        for line in reversed(lines[-_MAX_LAST_LINES:]):
            if left <= 0:
                break
            shown.insert(0, bounded(line, left))
            left -= len(line)
        return " | ".join(shown)

    def note(self, arguments: JsonObject) -> None:
        """A call with these arguments is on its way to the command."""
        self._recent.append(arguments)

    def data_received(self, data: bytes) -> None:
        """Takes what the command wrote, all of it, so that the pipe is never full; whole lines are logged, so that nothing that is
        masked comes in two parts."""
        self._keep(data)
        taken = data[: self._left]
        self._left -= len(taken)
        lines, end, rest = (self._unfinished + taken).rpartition(b"\n")
        self._unfinished = rest
        if end:
            self._say(lines)
        if not self._left:
            self._finish()

    def connection_lost(self, exc: Exception | None) -> None:
        """The last line, which may have no end."""
        self._finish()
        self.ended.set()

    def _finish(self) -> None:
        self._say(self._unfinished, cut=True)
        self._unfinished = b""

    def _keep(self, data: bytes) -> None:
        """Keeps the end of what was written; a line of which the beginning is not kept is left out, as a secret may have begun there."""
        tail = self._tail + data[-_MAX_LENGTH:]
        if len(tail) > _MAX_LENGTH or len(data) > _MAX_LENGTH:
            tail = tail[-_MAX_LENGTH:].partition(b"\n")[2]
        self._tail = tail

    def _say(self, raw: bytes, *, cut: bool = False) -> None:
        if raw.strip():
            said = " ".join(self._masked(raw, cut=cut).split())
            _logger.warning("the command of the source %s says: %s", self._source, said)

    def _masked(self, raw: bytes, *, cut: bool) -> str:
        """The text without secrets and values of arguments."""
        values = [value for arguments in self._recent for value in _texts(arguments)][:_MAX_VALUES]
        given = Scrubber([value for value in values if len(value) >= _MIN_INSIDE_LENGTH])
        said = given.text(self._scrubber.text(raw.decode("utf-8", "replace")))
        said = given.cut(self._scrubber.cut(said)) if cut else said
        short = {value for value in values if _MIN_LENGTH <= len(value) < _MIN_INSIDE_LENGTH}
        if short:
            said = re.sub(
                rf"(?<!\w)(?:{'|'.join(map(re.escape, sorted(short, key=len, reverse=True)))})(?!\w)", MASK, said
            )
        return said


def _texts(value: Json) -> Iterator[str]:
    """Every value of arguments that is a text or a number, as text."""
    todo = [value]
    while todo:
        match todo.pop():
            case bool():
                pass
            case str() | int() | float() as one:
                yield str(one)
            case Mapping() as members:
                todo += members.values()
            case list() as items:
                todo += items
