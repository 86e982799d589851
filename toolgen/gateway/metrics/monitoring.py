"""Monitoring data of a running gateway: policies that were in force, uses of keys, systems, limits, approvals, and webhook faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from toolgen.connectors.health import SystemHealth
from toolgen.core.background import FaultLog
from toolgen.gateway.metrics.prometheus import NotificationCounts, TelemetryCounts
from toolgen.gateway.policies.policy_history import PolicyHistory
from toolgen.state.rate_limits import Buckets, Charge, Level

if TYPE_CHECKING:
    from toolgen.gateway.audit.entry_shipper import EntryShipper
    from toolgen.gateway.notify.notifier import Notifier
    from toolgen.gateway.telemetry.exporter import Families, Telemetry

__all__ = ["Monitoring"]


class Monitoring:
    """`monitoring` of the gateway. `history` is of policies and keys, `systems` returns the health of the systems behind sources, and
    `notifier` sends webhooks, if there are any."""

    def __init__(
        self,
        *,
        history: PolicyHistory,
        buckets: Buckets,
        systems: Callable[[], Mapping[str, Sequence[SystemHealth]]],
        notifier: Notifier | None,
        telemetry: Telemetry | None = None,
        shippers: Sequence[EntryShipper] = (),
    ) -> None:
        self.history = history
        self._buckets, self._systems, self._notifier = buckets, systems, notifier
        self._telemetry, self.shippers = telemetry, shippers

    def start(self, families: Families) -> None:
        """Start the background tasks. `families` returns the metrics of this worker, without names."""
        self.history.start()
        if self._notifier is not None:
            self._notifier.start()
        if self._telemetry is not None:
            self._telemetry.start(families)
        for shipper in self.shippers:
            shipper.start()

    async def stop(self) -> None:
        """Stop the background tasks."""
        await self.history.stop()
        if self._notifier is not None:
            await self._notifier.stop()
        for shipper in self.shippers:
            await shipper.stop()
        if self._telemetry is not None:
            await self._telemetry.stop()

    @property
    def troubles(self) -> tuple[FaultLog, ...]:
        """Return possible faults of webhook delivery."""
        return () if self._notifier is None else self._notifier.troubles

    @property
    def notifications(self) -> NotificationCounts | None:
        """Return counts of webhook notifications; None without webhooks."""
        return None if self._notifier is None else self._notifier.counts

    @property
    def telemetry_counts(self) -> TelemetryCounts | None:
        """Return the numbers of what this worker sent to a collector, failed to send, and dropped; None without a collector."""
        return None if self._telemetry is None else self._telemetry.counts

    def systems(self) -> Mapping[str, Sequence[SystemHealth]]:
        """Return the state of the systems behind each source that has circuit breakers."""
        return self._systems()

    async def levels(self, charges: Sequence[Charge]) -> Sequence[Level] | None:
        """Return the levels of the buckets of these charges, without taking tokens; None while they cannot be read."""
        return await self._buckets.levels(charges)
