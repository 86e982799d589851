"""Accounts of principals that an edit of the policy removed: revoked at the systems and deleted, on record."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Collection

from msgspec import Struct

from toolgen.core.background import Background, cancel
from toolgen.core.errors import AuditError, StateError
from toolgen.gateway.accounts.accounts import Accounts
from toolgen.gateway.calls.call_service import Callers
from toolgen.gateway.policies.compiled_policy import CurrentPolicy

__all__ = ["RemovedPrincipals"]

_RETRY_S = 30.0
_LOOK_S = 0.5
log = logging.getLogger("toolgen.accounts")


class _KnownPrincipals(Struct, frozen=True):
    """Principals and issuers of a policy."""

    principals: frozenset[str]
    issuers: frozenset[str]

    def has(self, name: str) -> bool:
        """Return True for a principal of the policy, or a user of one of its issuers."""
        return name in self.principals or name.partition(":")[0] in self.issuers


class RemovedPrincipals:
    """Task that compares each policy with the one before it. `unsettled` returns True while an edit is not in force as a whole: a file that
    is half written removes nobody.

    Only principals that this process knew are removed: a gateway with an older policy keeps the accounts of newer principals.
    """

    def __init__(
        self, accounts: Accounts, callers: Callers, current: CurrentPolicy, unsettled: Callable[[], bool]
    ) -> None:
        self._accounts, self._callers, self._current, self._unsettled = accounts, callers, current, unsettled
        self._watch: asyncio.Task[None] | None = None
        self._seen: _KnownPrincipals | None = None
        self._gone: set[str] = set()

    def start(self, background: Background) -> None:
        """Begin to compare, if any source is called with accounts."""
        if self._accounts.sources:
            self._seen = self._now()
            self._watch = background.start("removing the accounts of removed principals", self._run)

    async def stop(self) -> None:
        """End comparing."""
        if self._watch is not None:
            await cancel(self._watch)

    async def _run(self) -> None:
        while True:
            changed = asyncio.create_task(self._current.changed())
            try:
                while self._unsettled():  # noqa: ASYNC110 - an event would come with every step of the edit
                    await asyncio.sleep(_LOOK_S)
                await self._compare()
                await asyncio.wait((changed,), timeout=_RETRY_S if self._gone else None)
            finally:
                changed.cancel()

    async def _compare(self) -> None:
        """Remove the accounts of principals that this policy has no more."""
        before, self._seen = self._seen or self._now(), self._now()
        self._gone = {*self._gone, *before.principals - self._seen.principals}
        self._gone |= {f"{issuer}:" for issuer in before.issuers - self._seen.issuers}
        if self._gone:
            await self._remove(self._seen)

    async def _remove(self, known: _KnownPrincipals) -> None:
        """Remove the accounts of principals that are gone; what fails is tried again."""
        try:
            left = False
            for account in await self._accounts.all():
                if not known.has(account.principal) and _is_of(account.principal, self._gone):
                    left |= not await self._accounts.remove(account.key, by="policy", holder=secrets.token_hex(16))
            if not left:  # others are looked for again: their token was being refreshed
                self._gone = set()
        except (StateError, AuditError) as error:
            log.error("accounts of removed principals are not removed yet: %s", error)  # noqa: TRY400 - it says all there is

    def _now(self) -> _KnownPrincipals:
        return _KnownPrincipals(frozenset(self._callers.principals), frozenset(self._callers.issuers))


def _is_of(name: str, gone: Collection[str]) -> bool:
    return name in gone or f"{name.partition(':')[0]}:" in gone
