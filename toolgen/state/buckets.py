"""Token buckets in this process's memory: all of a call's charges are taken, or none."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from toolgen.clock import Clock

__all__ = ["Bucket", "MemoryBuckets", "Refusal"]

_SWEEP_EVERY = 10_000


class Bucket(Protocol):
    """One bucket as a limit describes it: which one, what to take, and how it fills (tokens a second, up to `burst`)."""

    @property
    def limit(self) -> str: ...
    @property
    def key(self) -> tuple[str, ...]: ...
    @property
    def cost(self) -> int: ...
    @property
    def per_second(self) -> float: ...
    @property
    def burst(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The limit that said no, and in how many seconds it would say yes."""

    limit: str
    retry_after_s: float


class MemoryBuckets:
    """Buckets keyed by limit and dimensions. A bucket that has filled up again is forgotten, so memory follows the traffic."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._levels: dict[tuple[str, ...], tuple[float, float, float]] = {}  # key -> (tokens, at, full again at)
        self._sweep_at = _SWEEP_EVERY

    def take(self, charges: Sequence[Bucket]) -> Refusal | None:
        """Takes every charge, or none and says which limit refused and for how long."""
        now = self._clock.monotonic()
        left: list[float] = []
        refusal: Refusal | None = None
        for charge in charges:
            level = self._levels.get(charge.key)
            tokens = float(charge.burst)
            if level is not None:
                tokens = min(tokens, level[0] + (now - level[1]) * charge.per_second)
            missing = charge.cost - tokens
            if missing > 1e-9:
                wait = math.ceil(missing / charge.per_second * 1000) / 1000
                if refusal is None or wait > refusal.retry_after_s:
                    refusal = Refusal(limit=charge.limit, retry_after_s=wait)
            left.append(tokens - charge.cost)
        if refusal is not None:
            return refusal
        for charge, tokens in zip(charges, left, strict=True):
            self._levels[charge.key] = (tokens, now, now + (charge.burst - tokens) / charge.per_second)
        if len(self._levels) > self._sweep_at:
            self._sweep(now)
        return None

    def _sweep(self, now: float) -> None:
        self._levels = {key: level for key, level in self._levels.items() if level[2] > now}
        self._sweep_at = max(_SWEEP_EVERY, 2 * len(self._levels))
