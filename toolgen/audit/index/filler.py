"""Brings an index up to date for all the readers of a process, and says how far it is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from toolgen.audit.files import active_path, regular, stream_names
from toolgen.audit.index.index import RecordIndex
from toolgen.core.errors import AuditError

__all__ = ["Filler", "IndexCounts"]

WAIT_S = 2.0
_MANY = 5_000
"""New entries that nobody waits for: readers are told that not everything is shown yet."""
_TAIL = 1024 * 1024


class IndexCounts(Struct, frozen=True, kw_only=True):
    """State of an index: entries that the filling under way has not taken over yet and how many seconds it has taken, both 0 where none is
    under way, and how many streams could not be followed to their end the last time. That it could not be filled at all counts as one."""

    behind: int = 0
    filling_s: float = 0.0
    faults: int = 0


class Filler:
    """Fills one index, in one thread at a time, for all the readers of a process."""

    def __init__(self, opened: Callable[[], RecordIndex], directory: Path) -> None:
        """`opened` opens the index; it is closed again when everything new was taken over."""
        self._opened = opened
        self._directory = directory
        self._changed = threading.Condition()
        self._begun = self._ended = 0
        self._since = 0.0
        self._entries = self._expected = 0
        self._faults: tuple[str, ...] = ()
        self._error: Exception | None = None

    def bring_up(self, wait_s: float = WAIT_S) -> tuple[str, ...]:
        """Takes over what is new in the log and waits for it, as `is_complete` does. Returns what keeps the index from showing all."""
        self.is_complete(wait_s)
        return self.warnings

    def is_complete(self, wait_s: float = WAIT_S) -> bool:
        """Takes over what is new in the log. Returns True if all that was on record when this was called is in the index.

        Waits at most so long for it, and not at all for the end of a filling with very many entries. Raises `AuditError` where it cannot be
        filled, and what opening it raises.
        """
        until = time.monotonic() + wait_s
        with self._changed:
            wanted = self._begun + 1  # one that begins from now on sees all that is on record by now
            while self._ended < wanted:
                if self._ended == self._begun:
                    self._begin()
                if self._expected > _MANY or not self._changed.wait(max(0.0, until - time.monotonic())):
                    break
            if self._ended >= wanted and self._error is not None:
                raise self._error
            return self._ended >= wanted

    @property
    def warnings(self) -> tuple[str, ...]:
        """Reasons why the index is incomplete, in sentences."""
        with self._changed:
            if self._ended == self._begun:
                return self._faults
            far = f"{self._entries:,} entries" + (f" of {self._expected:,}" if self._expected > self._entries else "")
        return (
            *self._faults,
            f"the index of the audit log is being brought up to date ({far}): not everything is shown yet",
        )

    def counts(self) -> IndexCounts:
        """State of the index now. Reads nothing: what was written since somebody last read the record is not behind, it has not been
        asked for."""
        with self._changed:
            faults = len(self._faults) + (self._error is not None)
            if self._ended == self._begun:
                return IndexCounts(faults=faults)
            behind = max(0, self._expected - self._entries)
            return IndexCounts(behind=behind, filling_s=time.monotonic() - self._since, faults=faults)

    def _begin(self) -> None:
        self._begun += 1
        self._since = time.monotonic()
        self._entries = self._expected = 0
        threading.Thread(target=self._run, name="audit-index", daemon=True).start()

    def _run(self) -> None:
        faults: tuple[str, ...] = ()
        error: Exception | None = None
        try:
            with self._opened() as index:
                newest = sum(map(self._newest, stream_names(self._directory)))
                with self._changed:
                    self._expected = max(0, newest - sum(index.marks().values()))
                    self._changed.notify_all()
                faults = tuple(index.fill(self._count).faults)
        except Exception as failure:  # noqa: BLE001 - it is raised again where somebody waits for it
            error = failure
        with self._changed:
            self._faults, self._error = faults, error
            self._ended += 1
            self._changed.notify_all()

    def _count(self, entries: int) -> None:
        self._entries = entries

    def _newest(self, stream: str) -> int:
        """The number of the newest entry of a stream, 0 where its end does not say: it is for telling how far the filling is, no more."""
        try:
            with regular(active_path(self._directory, stream)) as file:
                file.seek(max(0, file.seek(0, 2) - _TAIL))
                whole = file.read(_TAIL).rpartition(b"\n")[0]
            return int(msgspec.json.decode(whole[whole.rfind(b"\n") + 1 :])["seq"])
        except (OSError, AuditError, msgspec.DecodeError, KeyError, TypeError, ValueError):
            return 0
