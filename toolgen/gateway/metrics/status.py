"""State of one gateway: reasons for not accepting calls, warnings for operators, and its counters."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Protocol

from toolgen.audit.log import AuditLog
from toolgen.connectors.health import FunctionCounts
from toolgen.core.background import Background, FaultLog, cancel
from toolgen.core.errors import ConfigError, StateError
from toolgen.gateway.audit.gateway_events import GatewayEvents
from toolgen.gateway.audit.reader import ProjectRecords
from toolgen.gateway.catalog.catalog_reloader import CatalogReloader
from toolgen.gateway.metrics.metrics import Metrics
from toolgen.gateway.metrics.monitoring import Monitoring
from toolgen.gateway.metrics.prometheus import ApprovalCounts, Snapshot, families_of, rendered
from toolgen.gateway.metrics.prometheus_format import Family
from toolgen.gateway.metrics.tracing import Spans
from toolgen.gateway.metrics.worker_metrics import WorkerMetrics, merged
from toolgen.gateway.policies.compiled_policy import CurrentPolicy
from toolgen.gateway.policies.policy_reloader import PolicyReloader
from toolgen.gateway.state.shared_state import UNCOUNTED, Shared

__all__ = ["Functions", "Status", "load_spans"]

_CLOSING_S = 5.0
_LOOK_S = 1.0
_FRESH_S = 1.0
_logger = logging.getLogger(__name__)


class Functions(Protocol):
    """Runner of the functions of a project.

    A protocol, because the connector of functions implements it, which the gateway must not import.
    """

    @property
    def counts(self) -> FunctionCounts: ...

    def give_up(self) -> None: ...


class Status:
    """Status of a process. `troubles` are possible faults of state shared by gateways, `functions` runs functions, `cut_off` ends the
    running calls, `stop_asking` their questions to callers, and `waiting` counts approvals. `workers` exchanges the counters of several
    workers. `tenant` names the gateway beside others of the process."""

    def __init__(  # noqa: PLR0913 - all that a process is made of
        self,
        *,
        log: AuditLog,
        background: Background,
        events: GatewayEvents,
        metrics: Metrics,
        troubles: tuple[FaultLog, ...],
        functions: Functions,
        cut_off: Callable[[], None],
        stop_asking: Callable[[], None],
        waiting: Callable[[], Awaitable[ApprovalCounts]],
        shared: Shared,
        current: CurrentPolicy,
        reloader: PolicyReloader,
        catalog: CatalogReloader,
        monitoring: Monitoring,
        workers: WorkerMetrics | None,
        drain_s: float,
        spans: Spans | None,
        records: ProjectRecords,
        tenant: str,
    ) -> None:
        self._events, self._shared, self._current = events, shared, current
        self._catalog, self._monitoring = catalog, monitoring
        self._log = log
        self._background = background
        self._troubles = troubles
        self._functions = functions
        self._cut_off, self._stop_asking = cut_off, stop_asking
        self._workers = workers
        self._waiting = waiting
        self._asked: tuple[float, ApprovalCounts] = (-_FRESH_S, ApprovalCounts())
        self._leaving: asyncio.TimerHandle | None = None
        self.drain_s = drain_s
        self.metrics = metrics
        self.spans = spans
        self.records = records
        self.tenant = tenant
        self.reloader = reloader
        self._watching: asyncio.Task[None] | None = None

    def ready(self) -> tuple[str, ...]:
        """Return the reasons why the gateway does not accept calls; empty if it does."""
        stopping = "the gateway is stopping" if self._leaving is not None else ""
        found = (
            stopping,
            self._log.fault,
            *(trouble.lasting for trouble in self._troubles),
            *self._background.faults(),
            *self._refusing(),
        )
        return tuple(dict.fromkeys(fault for fault in found if fault))

    def warnings(self) -> tuple[str, ...]:
        """Return warnings while calls are still accepted: an edit of the policy that cannot be used, limits that are not counted."""
        passing = (trouble.fault for trouble in self._troubles if not trouble.lasting)
        found = (
            self.reloader.unread,
            self.reloader.held,
            self._catalog.unread,
            "" if self._events.counted else UNCOUNTED,
            self._events.recent_loss(),
            *passing,
            *self._log.warnings(),
            *(shipper.warning for shipper in self._monitoring.shippers),
        )
        reasons = self.ready()
        return tuple(warning for warning in found if warning and warning not in reasons)

    def _refusing(self) -> tuple[str, ...]:
        """Return the reason why shared state would refuse every call now."""
        compiled_policy = self._current.compiled_policy
        return self._shared.refusing(
            tolerant=compiled_policy.tolerant,
            counted=self._events.counted or not compiled_policy.policy.limits,
            asks_history=compiled_policy.earlier.histories is self._shared.histories,
        )

    @property
    def state_losses(self) -> int:
        """Number of losses of the shared state."""
        return self._events.state_losses

    async def reload(self, *, complete: bool = True) -> bool:
        """Read the policy again, and put it in force as a whole if the caller declares its files `complete`; otherwise as a change that was
        just noticed. Returns False if it cannot be used: then nothing changes.

        Both outcomes are logged and recorded; `warnings` has the error until a later reading succeeds.
        """
        return await self.reloader.reload(complete=complete)

    def start(self) -> None:
        """Start checking whether calls can be accepted, even without calls, and log changes."""
        self._watching = self._background.start("watching whether calls can be taken", self._watch)

    async def _watch(self) -> None:
        said: tuple[str, ...] = ()
        while self._leaving is None:
            await asyncio.sleep(_LOOK_S)
            self._log.probe()
            if self._workers is not None and (detail := self._workers.wanted()) is not None:
                self._workers.put(self._log.stream, await self._own(detail))
            reasons = self.ready()
            if reasons == said or self._leaving is not None:
                continue
            said = reasons
            if reasons:
                _logger.error("not ready, no call is accepted: %s", "; ".join(reasons))
            else:
                _logger.warning("ready again")

    async def measured(self, detail: Collection[str] = ()) -> bytes:
        """Return the metrics of this process and of the other workers in Prometheus's text format.

        They are without names, for all. `detail` has members of `DETAILS` that are added by name, for principals that may review.
        """
        own = await self._own(detail)
        if self._workers is None:
            return own
        self._workers.asked(detail)
        return merged(own, self._workers.others(self._log.stream))

    async def _own(self, detail: Collection[str]) -> bytes:
        labels = {"worker": self._log.stream, **({"tenant": self.tenant} if self.tenant else {})}
        return rendered(self.metrics, await self._snapshot(), labels=labels, detail=detail)

    async def families(self) -> Sequence[Family]:
        """Return the metrics of this process, without names."""
        return families_of(self.metrics, await self._snapshot())

    async def _snapshot(self) -> Snapshot:
        return Snapshot(
            policy_digest=self._current.compiled_policy.policy.digest,
            systems=self._monitoring.systems(),
            limit_waiting=self._shared.buckets.waiting,
            notifications=self._monitoring.notifications,
            telemetry=self._monitoring.telemetry_counts,
            streams={one.name: one.counts for one in self._monitoring.shippers},
            policy=self.reloader.counts(),
            approvals=await self._approvals(),
            ready=not self.ready(),
            warnings=len(self.warnings()),
            limits_counted=self._events.counted,
            audit=self._log.counts(),
            index=self.records.filler.counts(),
            functions=self._functions.counts,
            restarts=self._background.restarts,
            tasks=None if self.tenant else len(asyncio.all_tasks()),
            state_losses=self.state_losses,
        )

    async def _approvals(self) -> ApprovalCounts:
        """Return the number of waiting approvals, read at most once a second, because anyone may request metrics. While it cannot be read,
        the last known number."""
        now = asyncio.get_running_loop().time()
        if now - self._asked[0] >= _FRESH_S:
            known = self._asked[1]
            with contextlib.suppress(StateError):
                known = await self._waiting()
            self._asked = (now, known)
        return self._asked[1]

    def leave(self) -> Callable[[], None]:
        """Prepare the shutdown: the process is no longer ready, and functions must end within the drain time, less the time to record
        their calls, to answer them, and to close. Nobody answers questions of its calls any more, which go on as if nobody had.

        Return a function that ends the calls still running; each is recorded.
        """
        if self._leaving is None:
            seconds = self.drain_s - min(_CLOSING_S, 0.75 * self.drain_s)
            self._leaving = asyncio.get_running_loop().call_later(seconds, self._functions.give_up)
            self._stop_asking()
        return self._end

    def _end(self) -> None:
        self._functions.give_up()
        self._cut_off()

    async def close(self) -> None:
        """Close the status after everything was recorded."""
        if self._leaving is not None:
            self._leaving.cancel()
        if self._watching is not None:
            await cancel(self._watching)
        await self._events.close()


def load_spans() -> Spans:
    """Load the OpenTelemetry tracer of requests. Raises `ConfigError` if the extra is not installed."""
    try:
        from toolgen.gateway.metrics.opentelemetry import OpenTelemetry  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ConfigError("gateway.spans: needs OpenTelemetry's API", suggestion="install toolgen[otel]") from error
    return OpenTelemetry()
