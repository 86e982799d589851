"""Updates of an index for all readers of a process, with progress."""

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
"""Number of new entries from which readers do not wait: they are told that the index is incomplete."""
_TAIL = 1024 * 1024


class IndexCounts(Struct, frozen=True, kw_only=True):
    """State of an index: entries that the running update has not indexed yet and its seconds so far (both 0 without an update), and how
    many streams could not be followed to their end the last time. A failed update counts as one."""

    behind: int = 0
    filling_s: float = 0.0
    faults: int = 0


class Filler:
    """Updates one index, in one thread at a time, for all readers of a process."""

    def __init__(self, opened: Callable[[], RecordIndex], directory: Path) -> None:
        """Create the filler; `opened` opens the index, which is closed after each update."""
        self._opened = opened
        self._directory = directory
        self._changed = threading.Condition()
        self._begun = self._ended = 0
        self._since = 0.0
        self._entries = self._expected = 0
        self._faults: tuple[str, ...] = ()
        self._error: Exception | None = None

    def bring_up(self, wait_s: float = WAIT_S) -> tuple[str, ...]:
        """Index new entries of the log and wait like `is_complete`. Returns the reasons why the index is incomplete."""
        self.is_complete(wait_s)
        return self.warnings

    def is_complete(self, wait_s: float = WAIT_S) -> bool:
        """Index new entries of the log. Returns True if the index has everything that was recorded before the call.

        Waits at most so long, and does not wait for an update with very many entries. Raises `AuditError` if the index cannot be filled,
        and the errors of opening it.
        """
        until = time.monotonic() + wait_s
        with self._changed:
            wanted = self._begun + 1  # an update that starts now sees everything that is recorded
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
            f"the index of the audit log is being updated ({far}): some entries are not shown yet",
        )

    def counts(self) -> IndexCounts:
        """Return the state of the index. Reads nothing: entries that were written since the last read do not count as missing."""
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
        """Return the number of the newest entry of a stream, 0 if its end does not show it; only for progress."""
        try:
            with regular(active_path(self._directory, stream)) as file:
                file.seek(max(0, file.seek(0, 2) - _TAIL))
                whole = file.read(_TAIL).rpartition(b"\n")[0]
            return int(msgspec.json.decode(whole[whole.rfind(b"\n") + 1 :])["seq"])
        except (OSError, AuditError, msgspec.DecodeError, KeyError, TypeError, ValueError):
            return 0
