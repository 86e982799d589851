"""Rate limits: token buckets and limits of calls in flight, bounded queues of waiting calls, and the quotas of upstreams."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from toolgen.core.clock import Clock
from toolgen.model.schema import Json

__all__ = [
    "FREE",
    "MAX_DURATION_S",
    "MAX_LINE_LENGTH",
    "RETRY_IN_FLIGHT_S",
    "Buckets",
    "Charge",
    "Hold",
    "Key",
    "Level",
    "LimitRefusal",
    "LimitTerms",
    "MemoryBuckets",
    "Upstreams",
    "WaitingBuckets",
]

Key: TypeAlias = tuple[str, ...]

RETRY_IN_FLIGHT_S = 1.0
"""Seconds until a retry if too many calls are in flight, because the end of a call is unknown."""
_SWEEP_EVERY = 10_000
_MAX_WAIT_S = 31_536_000.0
_SLACK = 1e-9  # rounding error of fractions
_STEP_BACK_S = 60.0  # a larger step back of the clock is taken as a correction


class LimitTerms(Protocol):
    """Terms of a limit: a bucket with `burst` tokens (0: none) that gains `per_second`, and at most `concurrency` in flight (0: any
    number). `wait_s` is the maximum waiting time of a call.
    """

    @property
    def id(self) -> str: ...
    @property
    def per_second(self) -> float: ...
    @property
    def burst(self) -> float: ...
    @property
    def concurrency(self) -> int: ...
    @property
    def wait_s(self) -> float: ...
    @property
    def on_failure(self) -> Literal["refuse", "share"]: ...


class Charge(Protocol):
    """Charge of a call against the bucket of this key, in addition to its place in flight. Charges of one call have different keys."""

    @property
    def limit(self) -> LimitTerms: ...
    @property
    def key(self) -> Key: ...
    @property
    def cost(self) -> float: ...


class LimitRefusal(Struct, frozen=True, kw_only=True):
    """Limit that refused, the reason, and the seconds until a retry may succeed."""

    limit: str
    retry_after_s: float
    reason: Literal["spent", "crowded", "unreachable"] = "spent"


class Hold(Struct, frozen=True, kw_only=True):
    """Places in flight of a call until their release. `id` is their id in a shared store."""

    keys: tuple[Key, ...] = ()
    id: str = ""


Level: TypeAlias = tuple[float, int]
"""Remaining tokens of a bucket, and the calls in flight under its limit."""

FREE = Hold()
"""Hold of a call without a limit on calls in flight."""


_Kept: TypeAlias = tuple[float, float, LimitTerms]
"""Tokens of a bucket, their time, and the terms that filled it."""


class Buckets(Protocol):
    """Counter of calls by limit: of this process, or of all of them together."""

    async def acquire(self, charges: Sequence[Charge]) -> Hold | LimitRefusal:
        """Take every charge, or none and return the limit that refused. In memory this needs no waiting."""

    def take_now(self, charges: Sequence[Charge]) -> bool:
        """Take every charge if that needs no waiting. Returns False if nothing was taken: then `acquire` decides.

        No charge may be of a limit on calls in flight, because nothing gives such a place back.
        """

    def release(self, hold: Hold) -> None:
        """Return the places in flight, never the tokens."""

    async def levels(self, charges: Sequence[Charge]) -> Sequence[Level] | None:
        """Return the level of the bucket of each charge, without taking any; None while the store is unreachable."""

    async def close(self) -> None: ...


class MemoryBuckets:
    """Buckets by key. A full bucket is forgotten, so that memory follows the traffic."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._levels: dict[Key, _Kept] = {}
        self._flying: dict[Key, int] = {}
        self._sweep_at = _SWEEP_EVERY

    async def acquire(self, charges: Sequence[Charge]) -> Hold | LimitRefusal:
        refusal = self.take(charges)
        if refusal is not None:
            return refusal
        keys: tuple[Key, ...] = ()
        for charge in charges:
            if charge.limit.concurrency:
                keys += (charge.key,)
        return Hold(keys=keys) if keys else FREE

    def take_now(self, charges: Sequence[Charge]) -> bool:
        return self.take(charges) is None

    def take(self, charges: Sequence[Charge]) -> LimitRefusal | None:
        """Take charges like `acquire`, for callers that do not wait. Places in flight are released by their keys."""
        now = self._clock.monotonic()
        levels = self._levels
        refusal: LimitRefusal | None = None
        counted = False
        taken: dict[Key, _Kept] = {}
        for charge in charges:
            limit, key = charge.limit, charge.key
            if limit.concurrency:
                counted = True
                if self._flying.get(key, 0) >= limit.concurrency:
                    crowded = LimitRefusal(limit=limit.id, retry_after_s=RETRY_IN_FLIGHT_S, reason="crowded")
                    refusal = _longer(refusal, crowded)
            burst = limit.burst
            if not burst:
                continue
            level = levels.get(key)
            if level is None:
                tokens, at = burst, now
            else:
                tokens, at, _ = level
                if now >= at:
                    tokens += (now - at) * limit.per_second
                    at = now
                    tokens = min(tokens, burst)
                elif at - now > _STEP_BACK_S:
                    at = now
            left = tokens - charge.cost
            if not left >= -_SLACK:  # NaN is too much as well
                spent = LimitRefusal(limit=limit.id, retry_after_s=_until(-left / limit.per_second))
                refusal = _longer(refusal, spent)
            taken[key] = (left, at, limit)
        if refusal is not None:
            return refusal
        levels.update(taken)
        if counted:
            for charge in charges:
                if charge.limit.concurrency:
                    self._flying[charge.key] = self._flying.get(charge.key, 0) + 1
        if len(levels) > self._sweep_at:
            self._sweep(now)
        return None

    def release(self, hold: Hold) -> None:
        for key in hold.keys:
            left = self._flying.get(key, 0) - 1
            if left > 0:
                self._flying[key] = left
            else:
                self._flying.pop(key, None)

    async def levels(self, charges: Sequence[Charge]) -> Sequence[Level]:
        return tuple(self.level(charge) for charge in charges)

    def level(self, charge: Charge) -> Level:
        """Return the level of one bucket."""
        limit, now = charge.limit, self._clock.monotonic()
        kept, at, _ = self._levels.get(charge.key, (limit.burst, now, limit))
        tokens = min(limit.burst, kept + max(0.0, now - at) * limit.per_second)
        return tokens, self._flying.get(charge.key, 0)

    async def close(self) -> None:
        """Do nothing, because no resource is open."""

    def _sweep(self, now: float) -> None:
        self._levels = {
            key: (tokens, at, limit)
            for key, (tokens, at, limit) in self._levels.items()
            if at + (limit.burst - tokens) / limit.per_second > now
        }
        self._sweep_at = max(_SWEEP_EVERY, 2 * len(self._levels))


def _until(seconds: float) -> float:
    """Return seconds in whole milliseconds, at most a year if that never ends."""
    return math.ceil(seconds * 1000) / 1000 if seconds < _MAX_WAIT_S else _MAX_WAIT_S


def _longer(one: LimitRefusal | None, other: LimitRefusal) -> LimitRefusal:
    return other if one is None or other.retry_after_s > one.retry_after_s else one


MAX_LINE_LENGTH = 100
_MAX_WAITING = 1_000
_POLL_S = 0.1  # another process may release a place in flight without a notification


class WaitingBuckets:
    """Buckets with a queue of waiting calls, for limits with a `wait_s`.

    The first call in a queue tries again when there may be enough; a later call to the same bucket waits behind it, whatever its cost. A
    call that cannot be served in time is refused at once. Each process has its own queues.
    """

    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets
        self._lines: dict[Key, deque[asyncio.Event]] = {}
        self._waiting = 0

    @property
    def waiting(self) -> int:
        """Number of waiting calls of this process."""
        return self._waiting

    async def acquire(self, charges: Sequence[Charge]) -> Hold | LimitRefusal:
        for charge in charges if self._lines else ():
            if charge.key in self._lines:
                return await self._wait(charges, charge, None)
        answer = await self._buckets.acquire(charges)
        if isinstance(answer, Hold):
            return answer
        charge = _refuser(answer, charges)
        return await self._wait(charges, charge, answer) if _worth(answer, charge.limit.wait_s) else answer

    def take_now(self, charges: Sequence[Charge]) -> bool:
        buckets = self._buckets
        if isinstance(buckets, MemoryBuckets):
            return not self._lines and buckets.take(charges) is None
        return not charges

    def release(self, hold: Hold) -> None:
        self._buckets.release(hold)
        for key in hold.keys:
            if line := self._lines.get(key):
                line[0].set()

    async def levels(self, charges: Sequence[Charge]) -> Sequence[Level] | None:
        return await self._buckets.levels(charges)

    async def close(self) -> None:
        await self._buckets.close()

    async def _wait(
        self, charges: Sequence[Charge], charge: Charge, refusal: LimitRefusal | None
    ) -> Hold | LimitRefusal:
        """Wait in the queue of one bucket after the other, until every charge is taken or the shortest maximum waiting time is over."""
        began = asyncio.get_running_loop().time()
        deadline = began + charge.limit.wait_s
        while True:
            answer = await self._wait_in_queue(charges, charge, refusal, deadline)
            if isinstance(answer, Hold):
                return answer
            other = _refuser(answer, charges)
            deadline = min(deadline, began + other.limit.wait_s)
            if other is charge or not _worth(answer, deadline - asyncio.get_running_loop().time()):
                return answer
            charge, refusal = other, answer

    async def _wait_in_queue(
        self, charges: Sequence[Charge], charge: Charge, refusal: LimitRefusal | None, deadline: float
    ) -> Hold | LimitRefusal:
        """Wait in one queue until the charges are taken. Return a refusal of this bucket if the queue is full or the deadline is too early,
        or a refusal of another bucket.
        """
        late = refusal or LimitRefusal(limit=charge.limit.id, retry_after_s=charge.limit.wait_s)
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
                if not (first and pause == 0.0) and not await _wait_for_wakeup(
                    turn, deadline, pause if first else None
                ):
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


async def _wait_for_wakeup(turn: asyncio.Event, deadline: float, pause: float | None) -> bool:
    """Wait for a wake-up, or for a pause; return False when the deadline came first."""
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


def _refuser(refusal: LimitRefusal, charges: Sequence[Charge]) -> Charge:
    return next(charge for charge in charges if charge.limit.id == refusal.limit)


def _worth(refusal: LimitRefusal, left_s: float) -> bool:
    """Return True if the refused charge may succeed within this time."""
    match refusal.reason:
        case "spent":
            return 0 < refusal.retry_after_s <= left_s
        case "crowded":
            return left_s > 0
        case "unreachable":
            return False


def _pause(refusal: LimitRefusal) -> float:
    return refusal.retry_after_s if refusal.reason == "spent" else _POLL_S


MAX_DURATION_S = 3600.0
"""Maximum seconds that one answer can delay calls. Then one more call is sent, and its answer may delay again."""
_SAME_WINDOW_S = 2.0  # the service rounds to seconds


class _Budget(Struct):
    """Budget of `left` calls until `resets`; none until `resumes`. Times are the clock's monotonic ones."""

    left: float = math.inf
    resets: float = 0.0
    resumes: float = 0.0


class Upstreams:
    """Budgets by source, from the answers that this process received. They only delay calls of their own source: the policy's limits are
    counted separately, and no answer of a system changes those.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._budgets: dict[str, _Budget] = {}

    def take(self, source: str) -> float | None:
        """Take one call of the source's budget, or return the seconds until there may be one. Without a budget every call passes."""
        budget = self._budgets.get(source)
        if budget is None:
            return None
        now = self._clock.monotonic()
        if now < budget.resumes:
            return _until(budget.resumes - now)
        if now >= budget.resets:
            del self._budgets[source]
            return None
        if budget.left < 1:
            return _until(budget.resets - now)
        budget.left -= 1
        return None

    def hear(self, source: str, rates: Mapping[str, Json]) -> None:
        """Apply one answer: `{"retry_after_s", "remaining", "reset_s"}`, numbers not below 0, as far as present.

        For the same reset time the smallest number counts, because answers may arrive out of order. A pause is never shortened.
        """
        now = self._clock.monotonic()
        budget = self._budgets.get(source) or _Budget()
        pause, left, reset = (rates.get(name) for name in ("retry_after_s", "remaining", "reset_s"))
        if isinstance(pause, int | float) and pause > 0:
            budget.resumes = max(budget.resumes, now + min(pause, MAX_DURATION_S))
        if isinstance(left, int | float) and isinstance(reset, int | float) and reset > 0:
            resets = now + min(reset, MAX_DURATION_S)
            if now >= budget.resets or resets > budget.resets + _SAME_WINDOW_S:
                budget.left, budget.resets = left, resets
            else:
                budget.left = min(budget.left, left)
        if now < max(budget.resumes, budget.resets):
            self._budgets[source] = budget
