"""Logs for the tests of audit/: written by the real log, closed and signed by the real maintenance thread."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from msgspec.structs import replace

from toolgen.audit.config import AuditPlan
from toolgen.audit.keys import PRIVATE, make_key
from toolgen.audit.log import AuditLog
from toolgen.core.clock import FixedClock

PLAIN = AuditPlan(compress=False)


def with_key(directory: Path) -> Path:
    """Makes a key beside the log of a directory; returns the public file."""
    return make_key(directory / PRIVATE, directory)[1]


def opened(directory: Path, plan: AuditPlan | None = None, clock: FixedClock | None = None) -> AuditLog:
    """A log after its first round of maintenance, so that the next is the test's own. Where that round records something, it needs the loop
    that this blocks: see `looked_after`."""
    log = AuditLog(directory, clock or FixedClock(), plan)
    log.open()
    while log._maintenance is not None and not log._maintenance.rounds:
        os.sched_yield()
    return log


async def looked_after(directory: Path, plan: AuditPlan, clock: FixedClock) -> AuditLog:
    """The same where the first round finds something to let go of, and records it."""
    log = AuditLog(directory, clock, plan)
    log.open()
    while log._maintenance is not None and not log._maintenance.rounds:  # noqa: ASYNC110 - the round is another thread's
        await asyncio.sleep(0)
    return log


async def add(log: AuditLog, first: int, last: int) -> None:
    """Two entries a call, for the calls of these numbers."""
    for number in range(first, last + 1):
        call = {"call_id": f"call_{number}", "principal": "bot", "tool": "pets__get_pet"}
        await log.append({"event": "intent", **call, "arguments": {"petId": number}})
        await log.append({"event": "outcome", **call, "status": "ok", "duration_ms": 1.5})


def write(directory: Path, calls: int, plan: AuditPlan | None = None, clock: FixedClock | None = None) -> None:
    """A log of that many calls, opened and closed."""

    async def scenario() -> None:
        log = opened(directory, plan, clock)
        await add(log, 1, calls)
        await log.close()

    asyncio.run(scenario())


def in_segments(
    directory: Path, *, segments: int, calls: int, plan: AuditPlan = PLAIN, clock: FixedClock | None = None
) -> None:
    """A log of that many closed segments and one that is written, each of that many calls."""
    now = clock or FixedClock()

    async def scenario() -> None:
        log = opened(directory, replace(plan, segment_s=10.0), now)
        for number in range(segments + 1):
            await add(log, number * calls + 1, (number + 1) * calls)
            now.advance(20)
        await log.close()

    asyncio.run(scenario())


def names(directory: Path, pattern: str = "*.jsonl*") -> list[str]:
    return sorted(path.name for path in directory.glob(pattern))
