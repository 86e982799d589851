"""Processes, error log and output lines of an MCP server's command.

Descendants: all processes that a command started are found and ended. On Linux a command starts as the subreaper of its descendants
(prctl(2), PR_SET_CHILD_SUBREAPER), so that a process that forked twice or has a session of its own is still below it. Processes that
outlive the command itself are found by a mark in their environment.

Error log: the command's standard error goes to the gateway's log, with the name of the source and without secrets.

Output lines: each line is read whole up to a size limit; the rest of a longer line is skipped.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import secrets
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Final

from msgspec import Struct

from toolgen.connectors.http.scrubber import Scrubber
from toolgen.connectors.secrets import MASK
from toolgen.core.process_table import ProcessId, ProcessTable, process_table
from toolgen.model.excerpt import bounded
from toolgen.model.schema import Json, JsonObject

__all__ = ["MARK", "Descendants", "ErrorLog", "LineReader", "LongLine", "begun_as_subreaper"]

MARK: Final = "TOOLGEN_COMMAND"
"""The environment variable that every process of a command is begun with."""
_MAX_ROUNDS = 20
# Becomes the command, so that nothing of it stays in memory. 36 is PR_SET_CHILD_SUBREAPER (linux/prctl.h).
_LAUNCHER = "import ctypes,os,sys;ctypes.CDLL(None).prctl(36,1,0,0,0);os.execvp(sys.argv[1],sys.argv[1:])"


def begun_as_subreaper(command: tuple[str, ...]) -> tuple[str, ...]:
    """The command line that makes a process the subreaper of what it starts, and then becomes the command."""
    return (sys.executable, "-I", "-S", "-c", _LAUNCHER, *command) if sys.platform == "linux" else command


class Descendants:
    """Processes that one command started. `mark` belongs into its environment."""

    def __init__(self, table: ProcessTable | None = None) -> None:
        self.mark = secrets.token_hex(16)
        self._table = table or process_table()
        self._seen: frozenset[ProcessId] = frozenset()

    def look(self, command: int) -> None:
        """Remember the processes below the command now: after it has ended, their parent is another."""
        self._seen = frozenset(self._below(command))

    def end(self, command: int) -> None:
        """End the command's process group and all processes that are below it, or were at the last look."""
        _signal_group(command, "SIGSTOP")  # so that it starts nothing more meanwhile
        if (table := self._table) is not None:
            started = table.started(command)
            for _ in range(_MAX_ROUNDS):
                alive = {one for one in self._below(command) if one.number != command}
                alive |= {
                    one for one in self._seen if one.number != command and table.started(one.number) == one.started
                }
                if not alive:
                    break
                for one in alive:
                    table.kill(one)
            if started and not hasattr(os, "killpg"):
                table.kill(ProcessId(command, started))
        _signal_group(command, "SIGKILL")

    def _below(self, command: int) -> Iterator[ProcessId]:
        """Every process that runs below the command, or has its mark."""
        if self._table is None:
            return
        found = self._table.parents()
        parents = {one.number: parent for one, parent in found.items()}
        for one in found:
            if _is_below(one.number, command, parents) or self._table.has_variable(one.number, MARK, self.mark):
                yield one


def _signal_group(command: int, name: str) -> None:
    """Signal the process group of the command, where the system has process groups."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(command, signal.Signals[name])


def _is_below(number: int, command: int, parents: dict[int, int]) -> bool:
    seen: set[int] = set()
    while (parent := parents.get(number)) and parent not in seen:
        if parent == command:
            return True
        seen.add(parent)
        number = parent
    return False


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


_EDGE = 256  # what is kept of either end of a line that is too long
_MAX_SKIPPED_LENGTH = 256 * 1024 * 1024


class LongLine(Struct, frozen=True):
    """A line of more bytes than are kept: how it begins, and how it ends."""

    head: bytes
    tail: bytes


class LineReader(asyncio.Protocol):
    """Cuts what is read into lines of at most `largest` bytes, and never holds much more than one.

    `heard` is given each, and `ended` what happened when there are no more: "" at the end, a reason for a line without end.
    """

    def __init__(self, largest: int, heard: Callable[[bytes | LongLine], None], ended: Callable[[str], None]) -> None:
        self._largest = largest
        self._heard = heard
        self._ended = ended
        self._held = bytearray()
        self._head = b""  # of a line that is too long
        self._skipped = 0
        self._is_over = False

    def data_received(self, data: bytes) -> None:
        start = 0
        while not self._is_over and (end := data.find(b"\n", start) + 1):
            self._heard(self._line(data[start:end]))
            start = end
        if not self._is_over:
            self._keep(data[start:])

    def connection_lost(self, exc: Exception | None) -> None:
        if self._held and not self._is_over and not self._skipped:
            self._heard(self._line(b""))
        self.end("")

    def end(self, reason: str) -> None:
        """Reads no further."""
        if not self._is_over:
            self._is_over = True
            self._ended(reason)

    def _line(self, last: bytes) -> bytes | LongLine:
        """The line that ends with this piece."""
        line = bytes(self._held) + last if self._held else last
        self._held.clear()
        if self._skipped:
            self._skipped = 0
            return LongLine(self._head, line[-_EDGE:])
        return line if len(line) <= self._largest + 1 else LongLine(line[:_EDGE], line[-_EDGE:])

    def _keep(self, piece: bytes) -> None:
        """Takes what has no end yet; of a line that is too long its head and the last of it."""
        self._held += piece
        if self._skipped or len(self._held) > self._largest:
            self._head = self._head if self._skipped else bytes(self._held[:_EDGE])
            self._skipped += len(self._held) if not self._skipped else len(piece)
            del self._held[:-_EDGE]
            if self._skipped > _MAX_SKIPPED_LENGTH:
                self.end("wrote a line without end")
