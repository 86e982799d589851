"""Entries of the audit log about sign-ins through the gateway. None of them holds a token, a code or a secret."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from toolgen.model.excerpt import bounded

__all__ = ["SignInLog"]


class SignInLog:
    """Writer of the entries. `append` raises `AuditError`: what cannot be recorded is not done."""

    def __init__(self, append: Callable[[Mapping[str, Any]], Awaitable[object]]) -> None:
        self._append = append

    async def note(
        self, code: str, *, principal: str = "", client: str = "", address: str = "", **details: str
    ) -> None:
        """Record what happened: who signed in, and the OAuth client. Codes with `refused`, `denied` or `replayed` are refusals."""
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
