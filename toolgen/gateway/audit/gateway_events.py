"""Events of the gateway itself: refusals before the caller is known, and losses of shared state. They are recorded and remembered."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Any

from toolgen.audit.log import AuditLog
from toolgen.core.errors import AuditError

__all__ = ["GatewayEvents"]

_LOSS_TOLD_S = 3600.0
_logger = logging.getLogger(__name__)


class GatewayEvents:
    """Recorder of events of the gateway itself, in the audit log `log`."""

    def __init__(self, log: AuditLog) -> None:
        self._log = log
        self.counted = True
        """True while limits can be counted."""
        self.state_losses = 0
        self._loss, self._lost_at = "", 0.0
        self._notes: set[asyncio.Task[None]] = set()

    async def note(self, fields: Mapping[str, Any]) -> None:
        """Record an event. If it cannot be recorded now, the gateway is not ready, as for any call."""
        with contextlib.suppress(AuditError):
            await self._log.append(fields)

    def state_changed(self, reachable: bool) -> None:
        """Record that the counter of limits was lost or found: in between, limits refuse calls, or count shares of this process."""
        self.counted = reachable
        note = asyncio.create_task(self.note({"event": "state", "status": "ok" if reachable else "error"}))
        self._notes.add(note)
        note.add_done_callback(self._notes.discard)

    async def store_lost(self, what: str) -> None:
        """Report that the shared state lost data: in the log, the metrics, the warnings of the next hour, and the audit log."""
        self.state_losses += 1
        self._lost_at, self._loss = asyncio.get_running_loop().time(), what
        _logger.error("the shared state has lost data: %s; limits and histories start as used up", what)
        await self.note({"event": "state", "status": "error", "code": "state_lost", "arguments": {"what": what}})

    def recent_loss(self) -> str:
        """Return the warning about a loss within the last hour; "" without one."""
        if not self._loss or asyncio.get_running_loop().time() - self._lost_at > _LOSS_TOLD_S:
            return ""
        return f"the shared state has lost data within the last hour: {self._loss}"

    async def close(self) -> None:
        """Return when every event is recorded."""
        if self._notes:
            await asyncio.wait(self._notes)
