"""How one gateway is doing: why it takes no calls, what an operator should know all the same, and what it counted."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from toolgen.audit.log import AuditLog
from toolgen.background import Background, FaultLog
from toolgen.errors import AuditError

__all__ = ["Status"]


class Status:
    """`troubles` says what may be wrong with what gateways share, `unread` what is wrong with the policy's files."""

    def __init__(
        self,
        *,
        log: AuditLog,
        background: Background,
        troubles: Callable[[], tuple[FaultLog, ...]],
        unread: Callable[[], str],
    ) -> None:
        self._log = log
        self._background = background
        self._troubles = troubles
        self._unread = unread
        self._uncounted = ""  # what is wrong with where limits are counted
        self._notes: set[asyncio.Task[None]] = set()

    def ready(self) -> tuple[str, ...]:
        """Why the gateway does not take calls; empty when it does."""
        found = (self._log.fault, *(trouble.lasting for trouble in self._troubles()), *self._background.faults())
        return tuple(fault for fault in found if fault)

    def warnings(self) -> tuple[str, ...]:
        """What an operator should know while calls are taken all the same: an edit of the policy that cannot be used, limits uncounted."""
        passing = (trouble.fault for trouble in self._troubles() if not trouble.lasting)
        found = (self._unread(), self._uncounted, *passing, *self._log.warnings())
        return tuple(warning for warning in found if warning)

    def state_changed(self, reachable: bool) -> None:
        """Records that Redis was lost or found: in between, limits refuse, or are shares of this process."""
        self._uncounted = "" if reachable else "Redis, where limits are counted, cannot be reached"
        note = asyncio.create_task(self.note({"event": "state", "status": "ok" if reachable else "error"}))
        self._notes.add(note)
        note.add_done_callback(self._notes.discard)

    async def note(self, fields: Mapping[str, Any]) -> None:
        """Records what happened to the gateway itself. What cannot be recorded now shows in `ready`, as for any call."""
        with contextlib.suppress(AuditError):
            await self._log.append(fields)

    async def close(self) -> None:
        """Returns when everything is recorded."""
        if self._notes:
            await asyncio.wait(self._notes)
