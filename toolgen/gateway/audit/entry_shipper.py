"""Shipping of the log's entries to a destination, at least once and in order: no call and no write of the log ever waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import platform
import re
from pathlib import Path

from toolgen.audit.entry_stream import EntryBatch, RecordedEntry, SentEntries
from toolgen.audit.index.row import micros
from toolgen.config.audit_stream import StreamDestination
from toolgen.connectors.executor import Permit
from toolgen.connectors.syslog_client import SyslogClient
from toolgen.core.background import Background
from toolgen.core.clock import Clock
from toolgen.core.descriptors import open_descriptor
from toolgen.core.errors import AuditError
from toolgen.core.file_lock import lock

__all__ = ["EntryShipper", "syslog_message"]

_logger = logging.getLogger(__name__)
_PAUSE_S = 1.0
_MAX_PAUSE_S = 30.0
_LOCK_S = 5.0
_FACILITY = 13  # log audit
_INFORMATIONAL, _WARNING = 6, 4
_NAMES = re.compile(r"[!-~]{1,32}")  # of MSGID and HOSTNAME (RFC 5424, section 6)
_BAD = frozenset({"error", "refused", "unfinished"})


class EntryShipper:
    """Shipper to one destination. One worker of a gateway ships the entries of all; when it ends, another one continues."""

    def __init__(
        self,
        destination: StreamDestination,
        *,
        directory: Path,
        folder: Path,
        permit: Permit,
        clock: Clock,
        background: Background,
    ) -> None:
        self.name = destination.name
        self._directory, self._folder = directory, folder
        self._clock, self._background = clock, background
        self._client = SyslogClient(
            destination.host, destination.port, authorities=destination.authorities, permit=permit
        )
        self.lag_s = 0.0
        """Age of the oldest entry that has not arrived, in seconds."""
        self.sent = self.failed = 0
        self._down = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start shipping."""
        self._task = self._background.start(f"streaming the audit log to {self.name}", self._run)

    async def stop(self) -> None:
        """Stop shipping; entries that have not arrived are sent after the next start."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._client.close()

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
        pause = _PAUSE_S
        while True:
            try:
                while batches := await asyncio.to_thread(lambda: list(sent.due())):
                    for batch in batches:
                        self._oldest(batch)
                        await self._client.send([syslog_message(batch.stream, one) for one in batch.entries])
                        await asyncio.to_thread(sent.arrived, batch)
                        self.sent += len(batch.entries)
                self.lag_s, pause = 0.0, _PAUSE_S
                self._told("")
            except (OSError, AuditError) as error:
                self.failed += 1
                pause = min(_MAX_PAUSE_S, 2 * pause)
                self._told(str(error) or type(error).__name__)
            if not forever:
                return
            await asyncio.sleep(pause)

    def _oldest(self, batch: EntryBatch) -> None:
        with contextlib.suppress(ValueError):
            self.lag_s = max(0.0, self._clock.now() - micros(batch.entries[0].time) / 1e6)

    def _told(self, why: str) -> None:
        if bool(why) is self._down:
            return
        self._down = bool(why)
        if why:
            _logger.warning("entries do not reach %s: %s", self.name, why)
        else:
            _logger.info("entries reach %s again", self.name)


def syslog_message(stream: str, entry: RecordedEntry) -> bytes:
    """Return an entry as a message of RFC 5424: its stream and number identify a message that arrives twice."""
    severity = _WARNING if entry.status in _BAD else _INFORMATIONAL
    data = f'[toolgen@32473 stream="{_value(stream)}" seq="{entry.seq}"]'
    head = f"<{_FACILITY * 8 + severity}>1 {entry.time or '-'} {_name(platform.node())} toolgen {os.getpid()}"
    return f"{head} {_name(entry.event)} {data} ".encode() + entry.line


def _value(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("]", "\\]")


def _name(text: str) -> str:
    """Return a name in the form for a header: its first visible ASCII characters, or "-"."""
    found = _NAMES.search(text)
    return "-" if found is None else found[0]


def _locked(descriptor: int) -> bool:
    try:
        lock(descriptor, wait=False)
    except OSError:
        return False
    return True
