"""What an operator looks up of a gateway at work: policies that were in force, uses of keys, systems behind sources, and limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from toolgen.background import Background
from toolgen.clock import Clock
from toolgen.config.settings import Settings
from toolgen.execute.base import SystemHealth
from toolgen.gateway.compiled_policy import CurrentPolicy
from toolgen.gateway.policy_history import PolicyHistory
from toolgen.gateway.prometheus import Snapshot
from toolgen.state.rate_limits import Buckets, Charge, Level
from toolgen.state.seen import Seen

__all__ = ["Monitoring"]


class Monitoring:
    """`monitoring` of the gateway. `history` is of policies and keys."""

    def __init__(
        self,
        settings: Settings,
        current: CurrentPolicy,
        clock: Clock,
        background: Background,
        buckets: Buckets,
        standing: Callable[[], Snapshot],
    ) -> None:
        self.history = PolicyHistory(Seen(settings.state_dir / "seen.db"), current, clock, background)
        self._buckets = buckets
        self._standing = standing

    def systems(self) -> Mapping[str, Sequence[SystemHealth]]:
        """How this process finds the systems behind each source that has breakers."""
        return self._standing().systems

    async def levels(self, charges: Sequence[Charge]) -> Sequence[Level] | None:
        """How the buckets of these charges stand, which takes nothing; None while that cannot be asked."""
        return await self._buckets.levels(charges)
