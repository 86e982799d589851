"""What the systems behind the sources said they will still take, heeded before they refuse."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from toolgen.clock import Clock
from toolgen.model.schema import Json

__all__ = ["MAX_DURATION_S", "Upstreams"]

MAX_DURATION_S = 3600.0
"""How long one answer can hold calls up. Then one more is tried, and may say so again."""
_SAME_WINDOW_S = 2.0  # whole seconds, rounded by whoever sends them


@dataclass(slots=True)
class _Budget:
    """`left` calls until `resets`; none at all until `resumes`. Times are the clock's monotonic ones."""

    left: float = math.inf
    resets: float = 0.0
    resumes: float = 0.0


class Upstreams:
    """Budgets by source, as its answers told this process. They only ever hold up calls of their own source: the policy's limits are
    counted elsewhere, and nothing that a system says changes those."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._budgets: dict[str, _Budget] = {}

    def take(self, source: str) -> float | None:
        """Takes one call of the source's budget, or says in how many seconds there might be one. Without a budget every call passes."""
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
        """Heeds one answer: `{"retry_after_s", "remaining", "reset_s"}`, numbers not below 0, as far as it said them.

        Of what is said of the same time, the least counts: answers overtake each other. A pause is never cut short.
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


def _until(seconds: float) -> float:
    return math.ceil(seconds * 1000) / 1000
