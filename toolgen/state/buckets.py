"""Token buckets and ceilings: all that a call takes is taken, or none. Here what they are, and those of this process's memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from toolgen.clock import Clock

__all__ = ["FREE", "RETRY_IN_FLIGHT_S", "Buckets", "Charge", "Hold", "Key", "MemoryBuckets", "Refusal", "Terms"]

Key: TypeAlias = tuple[str, ...]

RETRY_IN_FLIGHT_S = 1.0
"""When to try again where too many calls are in flight: nobody knows when one ends."""
_SWEEP_EVERY = 10_000
_MAX_DURATION_S = 31_536_000.0
_SLACK = 1e-9  # what adding and subtracting fractions may lose
_STEP_BACK_S = 60.0  # a clock that went back further than this is taken to be right


class Terms(Protocol):
    """One limit: a bucket that holds `burst` tokens (0: there is none) and gains `per_second`, and at most `concurrency` in flight
    (0: any number). `wait_s` is how long a call may wait for its turn."""

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
    """What a call takes from the bucket of this key, beside its place in flight. No two charges of a call have the same key."""

    @property
    def limit(self) -> Terms: ...
    @property
    def key(self) -> Key: ...
    @property
    def cost(self) -> float: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The limit that said no, why, and in how many seconds it might say yes."""

    limit: str
    retry_after_s: float
    reason: Literal["spent", "crowded", "unreachable"] = "spent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """The places in flight that a call holds until they are released. `id` is theirs where they are kept elsewhere."""

    keys: tuple[Key, ...] = ()
    id: str = ""


FREE = Hold()
"""What a call holds that no ceiling counts."""


_Level: TypeAlias = tuple[float, float, Terms]
"""What is left in a bucket, at which time, and what filled it."""


class Buckets(Protocol):
    """Whatever counts: this process, or all of them together."""

    async def acquire(self, charges: Sequence[Charge]) -> Hold | Refusal:
        """Takes every charge, or none and says which limit refused. What is counted in memory answers without waiting."""
        ...

    def release(self, hold: Hold) -> None:
        """Gives back the places in flight, never the tokens."""
        ...

    async def close(self) -> None: ...


class MemoryBuckets:
    """Buckets by key. One that has filled up again is forgotten, so memory follows the traffic."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._levels: dict[Key, _Level] = {}
        self._flying: dict[Key, int] = {}
        self._sweep_at = _SWEEP_EVERY

    async def acquire(self, charges: Sequence[Charge]) -> Hold | Refusal:
        refusal = self.take(charges)
        if refusal is not None:
            return refusal
        keys: tuple[Key, ...] = ()
        for charge in charges:
            if charge.limit.concurrency:
                keys += (charge.key,)
        return Hold(keys=keys) if keys else FREE

    def take(self, charges: Sequence[Charge]) -> Refusal | None:
        """`acquire` for callers that do not wait. Places in flight are released by their keys."""
        now = self._clock.monotonic()
        levels = self._levels
        refusal: Refusal | None = None
        counted = False
        taken: dict[Key, _Level] = {}
        for charge in charges:
            limit, key = charge.limit, charge.key
            if limit.concurrency:
                counted = True
                if self._flying.get(key, 0) >= limit.concurrency:
                    crowded = Refusal(limit=limit.id, retry_after_s=RETRY_IN_FLIGHT_S, reason="crowded")
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
            if not left >= -_SLACK:  # NaN, too, is too much
                spent = Refusal(limit=limit.id, retry_after_s=_until(-left / limit.per_second))
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

    async def close(self) -> None:
        """There is nothing to close."""

    def _sweep(self, now: float) -> None:
        self._levels = {
            key: (tokens, at, limit)
            for key, (tokens, at, limit) in self._levels.items()
            if at + (limit.burst - tokens) / limit.per_second > now
        }
        self._sweep_at = max(_SWEEP_EVERY, 2 * len(self._levels))


def _until(seconds: float) -> float:
    """Whole milliseconds, and no more than a year for what will never be."""
    return math.ceil(seconds * 1000) / 1000 if seconds < _MAX_DURATION_S else _MAX_DURATION_S


def _longer(one: Refusal | None, other: Refusal) -> Refusal:
    return other if one is None or other.retry_after_s > one.retry_after_s else one
