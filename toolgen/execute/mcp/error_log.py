"""The standard error of a server's command, for the gateway's log: whose it is, and without what it was told in confidence."""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Iterator, Mapping

from toolgen.execute.http.scrubber import Scrubber
from toolgen.execute.secrets import MASK
from toolgen.model.schema import Json, JsonObject

__all__ = ["ErrorLog"]

_logger = logging.getLogger("toolgen.mcp")
_LONGEST = 4096
_MOST_CALLS = 64
_MOST_VALUES = 1000
_SHORTEST_INSIDE = 6  # of a value that is masked within words too
_SHORTEST = 3


class ErrorLog:
    """The first 4 KiB of what one command writes, line by line. Secrets of its environment are masked, and so are the values of the
    arguments of its last calls: which of them are sensitive only the policy knows, and a log has no use for any."""

    def __init__(self, source: str, scrubber: Scrubber) -> None:
        self._source = source
        self._scrubber = scrubber
        self._recent: deque[JsonObject] = deque(maxlen=_MOST_CALLS)
        self._left = _LONGEST
        self._unfinished = b""

    def note(self, arguments: JsonObject) -> None:
        """A call with these arguments is on its way to the command."""
        self._recent.append(arguments)

    def write(self, piece: bytes) -> None:
        """Takes what the command wrote; whole lines are logged, so that nothing that is masked comes in two parts."""
        taken = piece[: self._left]
        self._left -= len(taken)
        lines, end, rest = (self._unfinished + taken).rpartition(b"\n")
        self._unfinished = rest
        if end:
            self._say(lines)
        if not self._left:
            self.close()

    def close(self) -> None:
        """The last line, which may have no end."""
        self._say(self._unfinished, cut=True)
        self._unfinished = b""

    def _say(self, raw: bytes, *, cut: bool = False) -> None:
        if not raw.strip():
            return
        values = [value for arguments in self._recent for value in _texts(arguments)][:_MOST_VALUES]
        given = Scrubber([value for value in values if len(value) >= _SHORTEST_INSIDE])
        said = given.text(self._scrubber.text(raw.decode("utf-8", "replace")))
        said = given.cut(self._scrubber.cut(said)) if cut else said
        short = {value for value in values if _SHORTEST <= len(value) < _SHORTEST_INSIDE}
        if short:
            said = re.sub(
                rf"(?<!\w)(?:{'|'.join(map(re.escape, sorted(short, key=len, reverse=True)))})(?!\w)", MASK, said
            )
        _logger.warning("the command of the source %s says: %s", self._source, " ".join(said.split()))


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
