"""Monitoring data of a running gateway: policies that were in force, uses of keys, systems, limits, approvals, and webhook faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from toolgen.config.settings import Settings
from toolgen.connectors.executor import SystemHealth
from toolgen.core.background import Background, FaultLog
from toolgen.core.clock import Clock
from toolgen.gateway.approvals import Approvals
from toolgen.gateway.compiled_policy import CurrentPolicy
from toolgen.gateway.policy_history import PolicyHistory
from toolgen.gateway.prometheus import NotificationCounts, Snapshot
from toolgen.gateway.shared_state import outbox_of
from toolgen.state.rate_limits import Buckets, Charge, Level
from toolgen.state.seen import SeenPolicies

if TYPE_CHECKING:
    from toolgen.gateway.notify.notifier import Notifier

__all__ = ["Monitoring"]


class Monitoring:
    """`monitoring` of the gateway. `history` is of policies and keys; webhooks are told of `approvals`."""

    def __init__(
        self,
        settings: Settings,
        current: CurrentPolicy,
        clock: Clock,
        background: Background,
        buckets: Buckets,
        standing: Callable[[], Snapshot],
        approvals: Approvals,
    ) -> None:
        self.history = PolicyHistory(SeenPolicies(settings.state_dir / "seen.db"), current, clock, background)
        self._buckets = buckets
        self._standing = standing
        self._notifier = None if not settings.notify else _notifier(settings, current, clock, background, approvals)

    def start(self) -> None:
        """Begins what goes on beside calls."""
        self.history.start()
        if self._notifier is not None:
            self._notifier.start()

    async def stop(self) -> None:
        """Ends it."""
        await self.history.stop()
        if self._notifier is not None:
            await self._notifier.stop()

    @property
    def troubles(self) -> tuple[FaultLog, ...]:
        """Possible faults of webhook delivery."""
        return () if self._notifier is None else self._notifier.troubles

    @property
    def notifications(self) -> NotificationCounts | None:
        """Counts of webhook notifications; None without webhooks."""
        return None if self._notifier is None else self._notifier.counts

    def systems(self) -> Mapping[str, Sequence[SystemHealth]]:
        """How this process finds the systems behind each source that has breakers."""
        return self._standing().systems

    async def levels(self, charges: Sequence[Charge]) -> Sequence[Level] | None:
        """How the buckets of these charges stand, which takes nothing; None while that cannot be asked."""
        return await self._buckets.levels(charges)


def _notifier(
    settings: Settings, current: CurrentPolicy, clock: Clock, background: Background, approvals: Approvals
) -> Notifier:
    from toolgen.gateway.notify.notifier import Notifier  # noqa: PLC0415 - where there are webhooks

    return Notifier(
        settings=settings.notify,
        outbox=outbox_of(settings, clock),
        approvals=approvals,
        permit=current.permit,
        clock=clock,
        background=background,
    )
