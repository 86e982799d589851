"""Entries of the audit log about sign-ins through the gateway. None of them contains a token, a code or a secret."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from toolgen.core.clock import Clock
from toolgen.model.excerpt import bounded

__all__ = ["MAX_REFUSALS", "SignInLog"]

_WINDOW_S = 60.0
MAX_REFUSALS = 120
"""Maximum number of recorded refusals per minute of requests without any proof. Anybody can cause them, and could fill the disk."""


class SignInLog:
    """Writer of the entries. `append` raises `AuditError`: then the recorded action is not executed."""

    def __init__(self, append: Callable[[Mapping[str, Any]], Awaitable[object]], clock: Clock) -> None:
        self._append = append
        self._clock = clock
        self._window = float("-inf")
        self._refusals = self._unrecorded = 0

    async def note(
        self, code: str, *, principal: str = "", client: str = "", address: str = "", **details: str
    ) -> None:
        """Record an event with the person and the OAuth client. Codes with `denied` or `replayed` are refusals."""
        refused = any(word in code for word in ("refused", "denied", "replayed"))
        arguments = {"client_id": bounded(client, 300)} if client else {}
        arguments |= {name: bounded(value, 300) for name, value in details.items() if value}
        await self._append(
            {
                "event": "sign_in",
                "status": "refused" if refused else "ok",
                "code": code,
                **({"principal": principal} if principal else {}),
                **({"client": address} if address else {}),
                **({"arguments": arguments} if arguments else {}),
            }
        )

    async def refused(self, code: str, *, client: str = "", address: str = "", **details: str) -> None:
        """Record a request that proved nothing, at a limited rate; the next entry says how many were left out."""
        now = self._clock.monotonic()
        if now - self._window >= _WINDOW_S:
            self._window, self._refusals = now, 0
        self._refusals += 1
        if self._refusals > MAX_REFUSALS:
            self._unrecorded += 1
            return
        left_out, self._unrecorded = self._unrecorded, 0
        more = {"left_out": str(left_out)} if left_out else {}
        await self.note(code, client=client, address=address, **details, **more)
