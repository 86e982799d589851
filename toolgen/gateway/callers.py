"""Who calls, by the policy in force: credentials accepted or refused, and whom a caller acts for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

from toolgen.gateway.compiled_policy import Governance
from toolgen.gateway.identity import NO_CLAIMS, Claims, Unaccepted
from toolgen.model.call import Principal
from toolgen.model.secret import Secret
from toolgen.policy.credentials import TokenRule

__all__ = ["REVIEWER", "Callers"]

REVIEWER = "reviewer"
"""The role whose principals may read the audit over REST."""


class Callers:
    """`in_force` is the policy by now, `note` records what happened to the gateway itself. With `exchanges`, tokens of callers are
    exchanged for others upstream, and are kept for the length of a call."""

    def __init__(
        self,
        in_force: Callable[[], Governance],
        note: Callable[[Mapping[str, Any]], Awaitable[None]],
        *,
        exchanges: bool,
    ) -> None:
        self._in_force = in_force
        self._note = note
        self._exchanges = exchanges

    @property
    def has_credentials(self) -> bool:
        """Whether anybody at all could authenticate."""
        return self._in_force().identity.has_credentials

    @property
    def issuers(self) -> tuple[str, ...]:
        """The names of the issuers whose users the policy knows."""
        return tuple(self._in_force().policy.credentials.issuers)

    @property
    def providers(self) -> tuple[TokenRule, ...]:
        """What a token must be, of each identity provider whose users are principals."""
        return self._in_force().identity.issuers

    @property
    def principals(self) -> tuple[str, ...]:
        """The ids of the policy's principals."""
        return self._in_force().identity.names

    def recognised(self, credential: str) -> Principal | None:
        """The principal behind a bearer credential that was accepted before and still is; None for any other."""
        principal = self._in_force().identity.recognised(credential)
        if principal is None or principal.proof is None:
            return principal
        return self._bearing(principal, credential)

    async def authenticate(self, credential: str) -> Principal | Unaccepted:
        """The principal behind a bearer credential, or why there is none."""
        answer = await self._in_force().identity.authenticate(credential)
        return answer if isinstance(answer, Unaccepted) else self._bearing(answer, credential)

    async def signed_in(self, token: str) -> Principal | Unaccepted:
        """Whom an id token of the console's client signs in to the console, or why nobody."""
        return await self._in_force().identity.signed_in(token)

    def certified(self, value: str) -> Principal | Unaccepted:
        """The principal behind a client certificate, given as the header of a proxy that is trusted to have verified it."""
        return self._in_force().identity.certified(value)

    def named(
        self, name: str, on_behalf_of: str | None = None, *, claims: Claims = NO_CLAIMS, user_claims: Claims = NO_CLAIMS
    ) -> Principal:
        """As `Gateway.principal`."""
        return self._in_force().identity.named(name, on_behalf_of, claims=claims, user_claims=user_claims)

    def current(self, principal: Principal) -> Principal | None:
        """The same principal as the policy in force has it, or None when that has it no more: for whoever keeps one for long."""
        return self._in_force().current(principal)

    def acting_for(self, principal: Principal, user: Principal | str) -> Principal | None:
        """The principal as it acts for a user, by name or as a token of its own proved it; None when the policy does not let it."""
        return self._in_force().identity.acting_for(principal, user)

    def narrowed(self, principal: Principal, toolset: str) -> Principal | None:
        """The principal with nothing in sight but what is in this toolset too, or None when the policy has no such toolset."""
        if toolset not in self._in_force().policy.toolsets:
            return None
        return replace(principal, toolsets=principal.toolsets | {toolset})

    def may_review(self, principal: Principal) -> bool:
        """Whether this principal may read the audit."""
        return principal.on_behalf_of is None and REVIEWER in principal.roles

    async def note_refusal(self, code: str, client: str) -> None:
        """Records a request that was refused before anybody was known. `client` is an address."""
        await self._note({"event": "refusal", "status": "refused", "code": code, "client": client})

    async def note_session(self, code: str, principal: str, client: str) -> None:
        """Records that somebody signed in to the console, or out of it, from an address."""
        status = "refused" if code.endswith("_refused") else "ok"
        await self._note({"event": "session", "status": status, "code": code, "principal": principal, "client": client})

    def _bearing(self, principal: Principal, credential: str) -> Principal:
        """The caller with its token, where something is had for it; keys are exchanged for nothing, and kept nowhere."""
        if principal.proof is None or not principal.proof.issuer:
            return principal
        if self._exchanges or any(entry.exchanges for entry in self._in_force().policy.assignments):
            return replace(principal, token=Secret(credential))
        return principal
