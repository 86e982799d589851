"""Shipping of the log's entries to a destination, at least once and in order: no call and no write of the log ever waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Protocol

import msgspec

from toolgen.audit.entry_stream import EntryBatch, RecordedEntry, SentEntries, entries_behind
from toolgen.audit.index.row import micros
from toolgen.audit.reports import ocsf_entry
from toolgen.core.background import Background, cancel
from toolgen.core.clock import Clock
from toolgen.core.descriptors import open_descriptor, sync
from toolgen.core.errors import AuditError
from toolgen.core.file_lock import lock
from toolgen.core.json_codec import file_json
from toolgen.gateway.audit.destinations.base import (
    BusyError,
    EntryDestination,
    OutgoingEntry,
    RefusedEntriesError,
)
from toolgen.gateway.metrics.prometheus import StreamCounts

__all__ = ["EntryShipper", "OcsfEncoder", "as_recorded"]

_logger = logging.getLogger(__name__)
_MAX_PAUSE_S = 30.0
_LOCK_S = 5.0
_CLOSING_S = 2.0
_MAX_SUSPECTS = 8  # refused one by one without one that is taken between: the destination refuses everything


class Encode(Protocol):
    """Function that returns an entry in the form in which it is sent. Raises `ValueError` and `TypeError` if it has none."""

    def __call__(self, entry: RecordedEntry, /) -> bytes: ...


def as_recorded(entry: RecordedEntry) -> bytes:
    """Return an entry as it stands in the log."""
    return entry.line


class OcsfEncoder:
    """Encoder of entries as events of OCSF. `effects` are those of tools by name."""

    def __init__(self, effects: Mapping[str, str]) -> None:
        self._effects, self._version = effects, version("toolgen")

    def __call__(self, entry: RecordedEntry, /) -> bytes:
        return file_json(ocsf_entry(entry.line, effects=self._effects, version=self._version))


class EntryShipper:
    """Shipper to one destination. One worker of a gateway ships the entries of all; when it ends, another one continues."""

    def __init__(
        self,
        name: str,
        destination: EntryDestination,
        *,
        directory: Path,
        folder: Path,
        clock: Clock,
        background: Background,
        encode: Encode = as_recorded,
    ) -> None:
        self.name = name
        self._destination, self._encode = destination, encode
        self._directory, self._folder = directory, folder
        self._clock, self._background = clock, background
        self.entries_behind = 0
        """Number of entries that have not arrived."""
        self.sent = self.failed = self.set_aside = 0
        self._oldest: float | None = None
        self._why = ""
        self._task: asyncio.Task[None] | None = None

    @property
    def lag_s(self) -> float:
        """Return the age of the oldest entry that has not arrived, in seconds."""
        return 0.0 if self._oldest is None else max(0.0, self._clock.now() - self._oldest)

    @property
    def counts(self) -> StreamCounts:
        """Return the numbers for the metrics."""
        return StreamCounts(lag_s=self.lag_s, behind=self.entries_behind, set_aside=self.set_aside)

    @property
    def warning(self) -> str:
        """Return the reason why entries do not arrive now; "" while they do."""
        if not self._why:
            return ""
        return f"entries of the record do not reach {self.name}: {self._why}; {self.entries_behind} wait"

    def start(self) -> None:
        """Start shipping."""
        self._task = self._background.start(f"streaming the audit log to {self.name}", self._run)

    async def stop(self) -> None:
        """Stop shipping; entries that have not arrived are sent after the next start."""
        if self._task is not None:
            await cancel(self._task)
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(_CLOSING_S):
                await self._destination.close()

    async def _run(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = open_descriptor(self._folder / f"{self.name}.lock", "RDWR", "CREAT", "NOFOLLOW")
        try:
            while not _locked(descriptor):  # noqa: ASYNC110 - another process holds it
                await asyncio.sleep(_LOCK_S)
            await self.ship(SentEntries(self._directory, self._folder / f"{self.name}.json"), forever=True)
        finally:
            os.close(descriptor)

    async def ship(self, sent: SentEntries, *, forever: bool) -> None:
        """Send due entries, repeatedly if `forever`, until cancelled."""
        every = self._destination.rhythm.every_s
        pause = every
        while True:
            try:
                while await self._pass(sent):
                    pass
                pause = every
                self._told("")
            except (OSError, AuditError) as error:
                self.failed += 1
                pause = min(max(_MAX_PAUSE_S, every), 2 * pause)
                if isinstance(error, BusyError):
                    pause = max(pause, error.after_s)
                self._told(str(error) or type(error).__name__)
            if not forever:
                return
            await asyncio.sleep(pause)

    async def _pass(self, sent: SentEntries) -> bool:
        """Send the next batch of each stream. Returns True if more entries are due."""
        try:
            batches, behind = await asyncio.to_thread(self._read, sent)
        except (OSError, AuditError):
            self._oldest = self._clock.now() if self._oldest is None else self._oldest
            raise
        self.entries_behind = behind
        self._oldest = _oldest(batches)
        for batch in batches:
            await self._deliver(batch)
            await asyncio.to_thread(sent.arrived, batch)
            self.sent += len(batch.entries)
            self.entries_behind = max(0, self.entries_behind - len(batch.entries))
        more = any(batch.full for batch in batches)
        if not more:
            self._oldest, self.entries_behind = None, 0
        return more

    def _read(self, sent: SentEntries) -> tuple[Sequence[EntryBatch], int]:
        batches = list(sent.due(self._destination.rhythm.size))
        return batches, entries_behind(self._directory, batches)

    async def _deliver(self, batch: EntryBatch) -> None:
        """Send a batch. An entry that is refused while others of its batch are taken is set aside, so that it holds up no other."""
        entries, aside = await asyncio.to_thread(self._encoded, batch)
        suspects: list[OutgoingEntry] = []
        if entries:
            await self._halves(batch.stream, entries, suspects)
            if len(suspects) == len(entries):
                raise OSError("it refuses every entry")
        aside += suspects
        if aside:
            await asyncio.to_thread(self._put_aside, batch.stream, aside)
            self.set_aside += len(aside)
            _logger.error(
                "%d entries for %s were set aside: they are refused, or have no form for it", len(aside), self.name
            )

    def _encoded(self, batch: EntryBatch) -> tuple[tuple[OutgoingEntry, ...], list[OutgoingEntry]]:
        """Return the entries of a batch in the form in which they are sent, and those that have none."""
        found: list[OutgoingEntry] = []
        aside: list[OutgoingEntry] = []
        for one in batch.entries:
            try:
                found.append(OutgoingEntry(entry=one, body=self._encode(one)))
            except (ValueError, TypeError, LookupError, RecursionError):
                aside.append(OutgoingEntry(entry=one, body=b""))
        return tuple(found), aside

    async def _halves(self, stream: str, entries: tuple[OutgoingEntry, ...], suspects: list[OutgoingEntry]) -> bool:
        """Send entries in order, in halves if they are refused; a single one that is refused is added to `suspects`. Returns True if any
        was taken. Raises `OSError`."""
        try:
            await self._destination.send(stream, entries)
        except RefusedEntriesError as error:
            if len(entries) == 1:
                suspects.append(entries[0])
                return False
            middle = len(entries) // 2
            first = await self._halves(stream, entries[:middle], suspects)
            if not first and len(suspects) >= _MAX_SUSPECTS:
                raise OSError(f"it refuses every entry: {error}") from None
            return await self._halves(stream, entries[middle:], suspects) or first
        return True

    def _put_aside(self, stream: str, refused: Sequence[OutgoingEntry]) -> None:
        """Append refused entries to a file beside the noted place, for a person."""
        path = self._folder / f"{self.name}.refused.jsonl"
        with open(open_descriptor(path, "WRONLY", "CREAT", "APPEND", "NOFOLLOW"), "ab") as file:
            for one in refused:
                about = {"stream": stream, "seq": one.entry.seq, "entry": msgspec.Raw(one.entry.line)}
                file.write(msgspec.json.encode(about) + b"\n")
            file.flush()
            sync(file.fileno())

    def _told(self, why: str) -> None:
        changed = bool(why) is not bool(self._why)
        self._why = why
        if not changed:
            return
        if why:
            _logger.warning("entries do not reach %s: %s", self.name, why)
        else:
            _logger.info("entries reach %s again", self.name)


def _oldest(batches: Sequence[EntryBatch]) -> float | None:
    times = []
    for batch in batches:
        with contextlib.suppress(ValueError):
            times.append(micros(batch.entries[0].time) / 1e6)
    return min(times, default=None)


def _locked(descriptor: int) -> bool:
    try:
        lock(descriptor, wait=False)
    except OSError:
        return False
    return True
