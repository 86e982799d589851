"""Calls that wait for their turn at a limit instead of being refused: first come, first served, in lines that are bounded."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from toolgen.state.buckets import Buckets, Charge, Hold, Key, Refusal

__all__ = ["MAX_LINE_LENGTH", "WaitingBuckets"]

MAX_LINE_LENGTH = 100
_MAX_WAITING = 1_000
_POLL_S = 0.1  # a place in flight may be given back by another process, which tells nobody


class WaitingBuckets:
    """Buckets in front of which calls wait, where the limit that refused has a `wait_s`.

    The first of a line asks again when there may be enough; whoever comes later to the same bucket stands behind, whatever it costs.
    Who cannot be served in time is refused at once. Processes have lines of their own.
    """

    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets
        self._lines: dict[Key, deque[asyncio.Event]] = {}
        self._waiting = 0

    async def acquire(self, charges: Sequence[Charge]) -> Hold | Refusal:
        for charge in charges if self._lines else ():
            if charge.key in self._lines:
                return await self._wait(charges, charge, None)
        answer = await self._buckets.acquire(charges)
        if isinstance(answer, Hold):
            return answer
        charge = _refuser(answer, charges)
        return await self._wait(charges, charge, answer) if _worth(answer, charge.limit.wait_s) else answer

    def release(self, hold: Hold) -> None:
        self._buckets.release(hold)
        for key in hold.keys:
            if line := self._lines.get(key):
                line[0].set()

    async def close(self) -> None:
        await self._buckets.close()

    async def _wait(self, charges: Sequence[Charge], charge: Charge, refusal: Refusal | None) -> Hold | Refusal:
        """Stands in the line of one bucket after the other, until every charge is taken or the shortest wait of them is over."""
        began = asyncio.get_running_loop().time()
        deadline = began + charge.limit.wait_s
        while True:
            answer = await self._stand(charges, charge, refusal, deadline)
            if isinstance(answer, Hold):
                return answer
            other = _refuser(answer, charges)
            deadline = min(deadline, began + other.limit.wait_s)
            if other is charge or not _worth(answer, deadline - asyncio.get_running_loop().time()):
                return answer
            charge, refusal = other, answer

    async def _stand(
        self, charges: Sequence[Charge], charge: Charge, refusal: Refusal | None, deadline: float
    ) -> Hold | Refusal:
        """Waits in one line. Ends with a refusal of this bucket when it is too late for it, or with one of another bucket."""
        late = refusal or Refusal(limit=charge.limit.id, retry_after_s=charge.limit.wait_s)
        line = self._lines.get(charge.key)
        if self._waiting >= _MAX_WAITING or (line is not None and len(line) >= MAX_LINE_LENGTH):
            return late
        if line is None:
            line = self._lines[charge.key] = deque()
        turn = asyncio.Event()
        line.append(turn)
        self._waiting += 1
        pause = _pause(refusal) if refusal is not None else 0.0
        try:
            while True:
                first = line[0] is turn
                if not (first and pause == 0.0) and not await _until(turn, deadline, pause if first else None):
                    return late
                turn.clear()
                if line[0] is not turn:
                    continue
                answer = await self._buckets.acquire(charges)
                left = deadline - asyncio.get_running_loop().time()
                if isinstance(answer, Hold) or answer.limit != charge.limit.id or not _worth(answer, left):
                    return answer
                late, pause = answer, _pause(answer)
        finally:
            self._waiting -= 1
            line.remove(turn)
            if line:
                line[0].set()
            else:
                del self._lines[charge.key]


async def _until(turn: asyncio.Event, deadline: float, pause: float | None) -> bool:
    """Waits to be woken, or for a while; False when the deadline came first."""
    now = asyncio.get_running_loop().time()
    if now >= deadline:
        return False
    ends = deadline if pause is None else min(deadline, now + pause)
    try:
        async with asyncio.timeout_at(ends):
            await turn.wait()
    except TimeoutError:
        return pause is not None and now + pause <= deadline
    return True


def _refuser(refusal: Refusal, charges: Sequence[Charge]) -> Charge:
    return next(charge for charge in charges if charge.limit.id == refusal.limit)


def _worth(refusal: Refusal, left_s: float) -> bool:
    """Whether waiting so long could help."""
    match refusal.reason:
        case "spent":
            return 0 < refusal.retry_after_s <= left_s
        case "crowded":
            return left_s > 0
        case "unreachable":
            return False


def _pause(refusal: Refusal) -> float:
    return refusal.retry_after_s if refusal.reason == "spent" else _POLL_S
