"""How one gateway is doing: why it takes no calls, what an operator should know all the same, and what it counted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from toolgen.audit.log import AuditLog
from toolgen.background import Background, FaultLog
from toolgen.errors import AuditError
from toolgen.execute.base import FunctionCounts
from toolgen.gateway.audit_reader import ProjectRecords
from toolgen.gateway.metrics import Metrics
from toolgen.gateway.policy_reloader import PolicyReloader
from toolgen.gateway.tracing import Spans

__all__ = ["Status"]

_CLOSING_S = 5.0


class Functions(Protocol):
    """What runs the functions of a project."""

    @property
    def counts(self) -> FunctionCounts: ...

    def give_up(self) -> None: ...


class Status:
    """One process (`Operations`). `troubles` says what may be wrong with what gateways share, `functions` what runs functions,
    `cut_off` ends the calls under way."""

    def __init__(  # noqa: PLR0913 - all that a process is made of
        self,
        *,
        log: AuditLog,
        background: Background,
        troubles: Callable[[], tuple[FaultLog, ...]],
        functions: Functions,
        cut_off: Callable[[], None],
        drain_s: float,
        spans: Spans | None,
        records: ProjectRecords,
    ) -> None:
        self._log = log
        self._background = background
        self._troubles = troubles
        self._functions = functions
        self._cut_off = cut_off
        self._leaving: asyncio.TimerHandle | None = None
        self.drain_s = drain_s
        self.metrics = Metrics()
        self.spans = spans
        self.records = records
        self.reloader: PolicyReloader | None = None
        self._uncounted = ""  # what is wrong with where limits are counted
        self._notes: set[asyncio.Task[None]] = set()

    def ready(self) -> tuple[str, ...]:
        """Why the gateway does not take calls; empty when it does."""
        stopping = "the gateway is stopping" if self._leaving is not None else ""
        found = (
            stopping,
            self._log.fault,
            *(trouble.lasting for trouble in self._troubles()),
            *self._background.faults(),
        )
        return tuple(fault for fault in found if fault)

    def warnings(self) -> tuple[str, ...]:
        """What an operator should know while calls are taken all the same: an edit of the policy that cannot be used, limits uncounted."""
        passing = (trouble.fault for trouble in self._troubles() if not trouble.lasting)
        found = (
            self.reloader.unread if self.reloader is not None else "",
            self._uncounted,
            *passing,
            *self._log.warnings(),
        )
        return tuple(warning for warning in found if warning)

    async def reload(self) -> bool:
        """Reads the policy again and puts it in force whole. False when it cannot be used: then what was in force stays so.

        Either is in the log and in the audit; `warnings` has what is wrong until a later reading succeeds.
        """
        return self.reloader is not None and await self.reloader.reload()

    def measured(self) -> bytes:
        """What this process counted, for Prometheus."""
        return self.metrics.rendered(
            worker=self._log.stream,
            ready=not self.ready(),
            functions=self._functions.counts,
            restarts=self._background.restarts,
        )

    def leave(self) -> Callable[[], None]:
        """From now on functions have the drain time to end, but for what it takes to record and answer their calls, and to close. Returns
        what cuts off all calls."""
        if self._leaving is None:
            seconds = self.drain_s - min(_CLOSING_S, 0.75 * self.drain_s)
            self._leaving = asyncio.get_running_loop().call_later(seconds, self._functions.give_up)
        return self._end

    def _end(self) -> None:
        self._functions.give_up()
        self._cut_off()

    def state_changed(self, reachable: bool) -> None:
        """Records that what counts limits was lost or found: in between, limits refuse, or are shares of this process."""
        self._uncounted = (
            "" if reachable else "what counts limits (Redis, or the process above the workers) cannot be reached"
        )
        note = asyncio.create_task(self.note({"event": "state", "status": "ok" if reachable else "error"}))
        self._notes.add(note)
        note.add_done_callback(self._notes.discard)

    async def note(self, fields: Mapping[str, Any]) -> None:
        """Records what happened to the gateway itself. What cannot be recorded now shows in `ready`, as for any call."""
        with contextlib.suppress(AuditError):
            await self._log.append(fields)

    async def close(self) -> None:
        """Returns when everything is recorded."""
        if self._leaving is not None:
            self._leaving.cancel()
        if self._notes:
            await asyncio.wait(self._notes)
