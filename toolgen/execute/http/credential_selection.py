"""Whose credentials a call is made with: the source's own, or those that the policy gives to its caller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from toolgen.clock import Clock, SystemClock
from toolgen.execute.http.credentials import Credentials, Signed
from toolgen.execute.http.request_builder import Request
from toolgen.execute.oauth import Grants
from toolgen.execute.secrets import Secrets
from toolgen.model.call import Principal
from toolgen.model.manifest import SecurityScheme

__all__ = ["Assigned", "CredentialSelector", "Provision"]

Assigned: TypeAlias = Callable[[Principal], Mapping[str, object] | None]
"""What the policy in force gives to a caller in place of a source's `auth:`; the same object each time, and None where it gives nothing."""

_MAX_COUNT = 256
_CLOCK = SystemClock()
Security: TypeAlias = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provision:
    """What a gateway gives the credentials of a source besides its secrets: tokens that are asked for, and those of its callers."""

    grants: Grants
    assigned: Assigned


class CredentialSelector:
    """The credentials of one source, for each of its callers."""

    def __init__(
        self,
        *,
        schemes: Mapping[str, SecurityScheme],
        auth: Mapping[str, object],
        secrets: Secrets,
        provision: Provision | None = None,
        clock: Clock = _CLOCK,
    ) -> None:
        self._schemes = schemes
        self._secrets = secrets
        self._grants = provision.grants if provision is not None else None
        self._assigned = provision.assigned if provision is not None else None
        self._clock = clock
        self._own = self._made(auth)
        self._others: dict[int, tuple[Mapping[str, object], Credentials]] = {}

    async def sign(self, request: Request, security: Security, principal: Principal) -> Signed:
        """The request with the caller's credentials for the first alternative that they suffice for. Raises as `Credentials.sign` does."""
        credentials = self._of(principal)
        return await credentials.sign(request, credentials.choose(security), principal)

    def mask(self, request: Request, security: Security, principal: Principal) -> Request:
        """The same, with `***` for every secret."""
        credentials = self._of(principal)
        return credentials.mask(request, credentials.choose(security))

    async def close(self) -> None:
        """Gives up what is being asked for."""
        if self._grants is not None:
            await self._grants.close()

    def _of(self, principal: Principal) -> Credentials:
        given = None if self._assigned is None else self._assigned(principal)
        if given is None:
            return self._own
        # By identity, which is what the policy promises: what a mapping holds would have to be hashed at every call.
        found = self._others.get(id(given))
        if found is None:
            if len(self._others) >= _MAX_COUNT:
                self._others.clear()
            found = self._others[id(given)] = (given, self._made(given))
        return found[1]

    def _made(self, auth: Mapping[str, object]) -> Credentials:
        return Credentials(
            schemes=self._schemes,
            auth=auth,
            secrets=self._secrets,
            grants=self._grants,
            clock=self._clock,
        )
