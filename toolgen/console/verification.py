"""Whether the log is what was written: verified again now and then when somebody looks, and never twice at once."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from pathlib import Path

from toolgen.audit.verify import Report, verify
from toolgen.clock import Clock
from toolgen.errors import AuditError, place_of

__all__ = ["Verification", "Verified"]

_logger = logging.getLogger("toolgen.console")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """What verifying came to: a report, or why there is none; when it began, and how many seconds it took."""

    report: Report | None
    fault: str
    began: float
    took_s: float


class Verification:
    """Verifies in a thread when asked to. `done` and `total` are how many bytes of how many are behind it while it runs."""

    def __init__(self, directory: Path, clock: Clock) -> None:
        self._directory = directory
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self._stop = False
        self.last: Verified | None = None
        self.done = self.total = 0

    @property
    def running(self) -> bool:
        """Whether it is under way."""
        return self._task is not None and not self._task.done()

    def begin(self) -> bool:
        """Begins; False where it is under way already."""
        if self.running:
            return False
        self.done = self.total = 0
        self._task = asyncio.create_task(self._run())
        return True

    async def close(self) -> None:
        """Breaks off what is under way."""
        self._stop = True
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

    def _step(self, done: int, total: int) -> None:
        if self._stop:
            raise _Stopped
        self.done, self.total = done, total


class _Stopped(Exception):  # noqa: N818 - no error: the gateway is being left
    pass
