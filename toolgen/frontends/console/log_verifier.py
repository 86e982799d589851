"""Verifier of the audit log for the console: it runs on request and once a day, and never twice at once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from toolgen.audit.verify import VerificationReport, verify
from toolgen.core.background import cancel
from toolgen.core.clock import Clock
from toolgen.core.errors import AuditError, place_of

__all__ = ["NoteVerification", "Verification", "Verified"]

_logger = logging.getLogger("toolgen.frontends.console")
NoteVerification: TypeAlias = Callable[[int], Awaitable[None]]
"""Function that records that a verification found so many faults."""


class Verified(Struct, frozen=True, kw_only=True):
    """Result of a verification: a report, or the reason why there is none; its start time, and its duration in seconds."""

    report: VerificationReport | None
    fault: str
    began: float
    took_s: float


_DAILY_S = 86_400.0
_LOOK_S = 60.0


class Verification:
    """Verification of the log in a thread, on request. While it runs, `done` and `total` are the checked bytes and all bytes."""

    def __init__(self, directory: Path, clock: Clock, note: NoteVerification) -> None:
        self._directory = directory
        self._clock, self._note = clock, note
        self._task: asyncio.Task[None] | None = None
        self._stop = False
        self._tried = -_DAILY_S
        self._daily: asyncio.Task[None] | None = None
        self.last: Verified | None = None
        self.done = self.total = 0

    @property
    def running(self) -> bool:
        """Return True if the verification is running."""
        return self._task is not None and not self._task.done()

    @property
    def broken(self) -> str:
        """Result of the last verification as a sentence if the log is broken, otherwise ""."""
        if self.last is None or (self.last.report is not None and self.last.report.ok):
            return ""
        if self.last.report is None:
            return f"The audit log could not be verified: {self.last.fault}."
        return (
            f"The audit log is broken: {len(self.last.report.faults)} of its entries or files are not what was written."
        )

    def due(self, now: float) -> bool:
        """Return True if the last verification is a day old, or there was none since the start."""
        began = self._tried if self.last is None else max(self._tried, self.last.began)
        return not self.running and now >= began + _DAILY_S

    def keep_daily(self) -> None:
        """Verify soon, and once a day from then on, for as long as the gateway runs."""
        if self._daily is None:
            loop = asyncio.get_running_loop()
            self._daily = loop.create_task(self._each_day())

    async def _each_day(self) -> None:
        while not self._stop:
            await asyncio.sleep(_LOOK_S)
            if self.due(self._clock.now()):
                self.begin()

    def begin(self) -> bool:
        """Start the verification; returns False if it is already running."""
        if self.running:
            return False
        self.done = self.total = 0
        self._tried = self._clock.now()
        self._task = asyncio.create_task(self._run())
        return True

    async def ended(self, within_s: float) -> None:
        """Wait until the running verification has ended, for at most the given seconds."""
        if self._task is not None:
            await asyncio.wait((self._task,), timeout=within_s)

    async def close(self) -> None:
        """Stop the running verification, and wait for its end."""
        self._stop = True
        if self._daily is not None:
            await cancel(self._daily)
        if self._task is not None:
            await asyncio.wait((self._task,))

    async def _run(self) -> None:
        began, started = self._clock.now(), self._clock.monotonic()
        report, fault = None, ""
        try:
            report = await asyncio.to_thread(verify, self._directory, progress=self._step)
        except AuditError as error:
            fault = str(error)
        except _Stopped:
            return
        except Exception as error:  # noqa: BLE001 - the last report must not go on standing there as if nothing were
            _logger.error("the log could not be verified: %s", place_of(error))  # noqa: TRY400 - its text may quote it
            fault = f"verifying it failed ({type(error).__name__})"
        self.last = Verified(report=report, fault=fault, began=began, took_s=self._clock.monotonic() - started)
        if report is not None and not report.ok:
            await self._note(len(report.faults))

    def _step(self, done: int, total: int) -> None:
        if self._stop:
            raise _Stopped
        self.done, self.total = done, total


class _Stopped(Exception):  # noqa: N818 - no error: the gateway is being left
    pass
