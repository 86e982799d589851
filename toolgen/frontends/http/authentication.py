"""Authentication of a request: its credential, its failed attempts, and the user that it says it acts for."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import NoReturn

from toolgen.config.settings import ClientCertificates
from toolgen.core.clock import Clock, SystemClock
from toolgen.frontends.http.failure_buckets import FailureBuckets
from toolgen.frontends.http.protected_resource import OwnIssuer, ProtectedResource
from toolgen.frontends.http.request import Rejected, Request, too_crowded
from toolgen.gateway.identity import DisclosedReason, TokenRejected
from toolgen.gateway.protocol import Facade
from toolgen.model.call import Principal

__all__ = ["Authentication", "TurnQueue"]


_BEARER = re.compile(r"bearer +([\x21-\x7e]{1,16384})\Z", re.IGNORECASE)
_TOKEN = re.compile(r"[\w-]+\.[\w-]+\.[\w-]+\Z", re.ASCII)
_EVERYBODY = "everybody"
_MAX_WAITING = 1_024
_CLOCK = SystemClock()

log = logging.getLogger("toolgen.gateway")


class Authentication:
    """Authenticates requests. `certificates` names the proxies that are trusted to state a client's certificate; None if there are none.
    `url` is the gateway's public address, which challenges contain.

    An address with too many failed attempts is delayed, but only for wrong credentials: other clients may share the address, so a
    credential is looked up or verified first. Tokens from such an address are verified one at a time, between the requests of other
    clients.
    """

    def __init__(
        self,
        gateway: Facade,
        *,
        certificates: ClientCertificates | None = None,
        url: str = "",
        clock: Clock = _CLOCK,
    ) -> None:
        self._gateway = gateway
        self._url = url
        self.resource = ProtectedResource(gateway, url)
        self._certificates = certificates
        self._header = b"" if certificates is None else certificates.header.encode("ascii")
        self._attempts = FailureBuckets(clock)
        self._turns = TurnQueue()

    def announce(self, own: OwnIssuer) -> None:
        """Name the gateway itself as the authorization server in metadata and challenges."""
        self.resource = ProtectedResource(self._gateway, self._url, own)

    async def enter(self, request: Request) -> Principal:
        """Return the sender of a request, and its user. Raises `Rejected`: 401, 429 after too many of those, 503 if a token cannot be
        checked now.

        A token is only accepted in the Authorization header (RFC 6750).
        """
        certificate = "" if self._certificates is None else self._certificate(request, self._certificates)
        value = request.headers.get(b"authorization")
        if value is None:
            if not certificate and request.crowded is not None:
                raise too_crowded(request.crowded)
            if not certificate:
                raise _unauthenticated("this needs a credential", self.resource.challenge(request))
            return await self._entered(request, self._certified(request, certificate))
        found = _BEARER.match(value.decode("latin-1"))
        if found is None:
            self._refuse(request, TokenRejected("the Authorization header has no bearer token"))
        principal = self._gateway.callers.recognised(found[1]) or await self.admit(request, found[1])
        if b"x-on-behalf-of" in request.headers or b"x-toolset" in request.headers:
            return await self._entered(request, principal)
        request.accepted = True
        return principal

    async def _entered(self, request: Request, principal: Principal) -> Principal:
        request.accepted = True
        if (user := request.headers.get(b"x-on-behalf-of")) is not None:
            principal = await self._acting(request, principal, user.decode("latin-1"))
        if (toolset := request.headers.get(b"x-toolset")) is not None:
            principal = self._narrowed(principal, toolset.decode("latin-1"))
        return principal

    async def credential_in_url(self, request: Request) -> None:
        """Log and audit that a credential was sent in a URL, at a limited rate and without its value."""
        if self._attempts.wait(request.client) or self._attempts.wait(_EVERYBODY):
            return
        self._attempts.failed(request.client)
        self._attempts.failed(_EVERYBODY)
        log.warning("a request from %s had a credential in its URL; replace that credential", request.client)
        await self._gateway.callers.note_refusal("credential_in_url", request.client)

    def _certificate(self, request: Request, certificates: ClientCertificates) -> str:
        """Return the client's certificate, if the connection comes from a proxy that is trusted to have verified it."""
        if self._header not in request.headers:
            return ""
        if not certificates.trusts(request.peer):
            self._hold_back(request)
            log.warning("%s sent the header of client certificates, but is not a trusted proxy", request.peer)
            self._attempts.failed(request.client)
            raise Rejected(
                400, "bad_request", "the header of client certificates is accepted only from trusted proxies"
            )
        if self._header in request.repeated:
            raise Rejected(400, "bad_request", "the header of client certificates was sent more than once")
        return request.text(self._header)

    async def admit(self, request: Request, credential: str) -> Principal:
        """Return the principal of a credential from any source. Raises `Rejected` as `enter` does."""
        principal = self._gateway.callers.recognised(credential)
        if principal is not None:
            return principal
        if request.crowded is not None:
            raise too_crowded(request.crowded)
        if _TOKEN.match(credential) and self._attempts.wait(request.client) and not await self._turns.take():
            self._hold_back(request)
        answer = await self._gateway.callers.authenticate(credential)
        if isinstance(answer, TokenRejected):
            self._refuse(request, answer)
        return answer

    def _certified(self, request: Request, certificate: str) -> Principal:
        return self.accepted(request, self._gateway.callers.certified(certificate))

    def accepted(self, request: Request, answer: Principal | TokenRejected) -> Principal:
        """Return the principal of an accepted credential. Raises `Rejected`, like `enter`, if there is none."""
        if isinstance(answer, TokenRejected):
            self._refuse(request, answer)
        return answer

    def _hold_back(self, request: Request) -> None:
        wait = self._attempts.wait(request.client)
        if wait:
            raise Rejected(
                429,
                "rate_limited",
                "too many credentials from this address were not accepted",
                suggestion="check the credential",
                retry_after_s=wait,
            )

    def _refuse(self, request: Request, why: TokenRejected) -> NoReturn:
        if why.told is DisclosedReason.UNAVAILABLE:
            log.warning("a token from %s could not be checked: %s", request.client, why.reason)
            raise Rejected(
                503,
                "identity_unavailable",
                "this token cannot be checked now",
                retry_after_s=10,
            )
        self._hold_back(request)
        self._attempts.failed(request.client)
        log.warning("a credential from %s was not accepted: %s", request.client, why.reason)
        if why.told is DisclosedReason.SCOPES:
            raise Rejected(
                403,
                "forbidden",
                "this token lacks a scope that the policy requires",
                suggestion="ask the identity provider for the scopes that WWW-Authenticate names",
                headers=(self.resource.challenge(request, "insufficient_scope", why.scopes),),
            )
        raise _unauthenticated("this credential is not accepted", self.resource.challenge(request, "invalid_token"))

    def _narrowed(self, principal: Principal, toolset: str) -> Principal:
        """Return the caller narrowed to the toolset that it selects, which can only remove tools."""
        narrowed = self._gateway.callers.narrowed(principal, toolset)
        if narrowed is None:
            raise Rejected(404, "not_found", "X-Toolset names no toolset of the policy")
        return narrowed

    async def _acting(self, request: Request, principal: Principal, user: str) -> Principal:
        """Return the user that the caller acts for: named, or proved by a token of that user. The policy must permit it."""
        acting = self._gateway.callers.acting_for(principal, user)
        if acting is None and _TOKEN.match(user):
            acting = self._gateway.callers.acting_for(principal, await self.admit(request, user))
        if acting is None:
            raise Rejected(
                403,
                "forbidden",
                "this credential may not act for whom X-On-Behalf-Of names",
                suggestion="a reviewer can list the user under acts_for in the policy",
            )
        return acting


class TurnQueue:
    """Queue that serves waiters in order and lets the event loop run other tasks between two of them."""

    def __init__(self, most: int = _MAX_WAITING) -> None:
        self._most = most
        self._waiting = 0
        self._lock = asyncio.Lock()

    async def take(self) -> bool:
        """Wait for a turn; returns False at once if too many wait already."""
        if self._waiting >= self._most:
            return False
        self._waiting += 1
        try:
            async with self._lock:
                await asyncio.sleep(0)
        finally:
            self._waiting -= 1
        return True


def _unauthenticated(message: str, challenge: tuple[bytes, bytes]) -> Rejected:
    return Rejected(
        401,
        "unauthenticated",
        message,
        suggestion="send `Authorization: Bearer KEY` with a key or token of a principal in policies/ that has not expired",
        headers=(challenge,),
    )
