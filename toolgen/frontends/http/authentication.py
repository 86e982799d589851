"""Sender of a request: its credential, the number of its failed attempts, and the user that it says it acts for.

How often an address may fail to say who it is. Kept in memory, bounded, and forgotten with time.

What an OAuth client is told, so that it finds where its user signs in: the metadata of RFC 9728, and challenges of RFC 6750.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import OrderedDict
from collections.abc import Iterable
from typing import NoReturn

from toolgen.config.settings import ClientCertificates
from toolgen.core.clock import Clock, SystemClock
from toolgen.frontends.http.connections import counted_as
from toolgen.frontends.http.request import Rejected, Request, Response, json_response, too_crowded
from toolgen.gateway.identity import DisclosedReason, TokenRejected
from toolgen.gateway.protocol import Facade
from toolgen.model.call import Principal

__all__ = ["MCP", "WELL_KNOWN", "Authentication", "FailureBuckets", "ProtectedResource", "TurnQueue"]

_BURST = 30
_PER_SECOND = 1.0
_MAX_PEERS = 4096


class FailureBuckets:
    """A bucket of failures for each peer, as `counted_as` counts them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._peers: OrderedDict[str, tuple[float, float]] = OrderedDict()  # failures, and the time they are as of

    def wait(self, peer: str) -> float:
        """Seconds until this peer may fail again; 0.0 when it may now."""
        if not self._peers:
            return 0.0
        return max(0.0, (self._failures(counted_as(peer)) - _BURST + 1) / _PER_SECOND)

    def failed(self, peer: str) -> None:
        """Counts a failure."""
        name = counted_as(peer)
        failures = min(self._failures(name) + 1, float(_BURST))
        self._peers[name] = (failures, self._clock.monotonic())
        self._peers.move_to_end(name)
        if len(self._peers) > _MAX_PEERS:
            self._peers.popitem(last=False)

    def _failures(self, name: str) -> float:
        known = self._peers.get(name)
        if known is None:
            return 0.0
        return max(0.0, known[0] - (self._clock.monotonic() - known[1]) * _PER_SECOND)


MCP = "/mcp"
WELL_KNOWN = "/.well-known/oauth-protected-resource"


class ProtectedResource:
    """/mcp as a protected resource. `url` is the gateway's public origin, "" where nobody said it: then nothing is told, because an
    address taken from a request is one that its sender chose."""

    def __init__(self, gateway: Facade, url: str) -> None:
        self._gateway = gateway
        self._url = url

    def metadata(self, request: Request) -> Response:
        """The metadata, for anybody: at the resource's own well-known address, and at the one without a path, where older clients look.

        Raises `Rejected` where there is none, as no user of an identity provider is known.
        """
        request.take("GET")
        issuers = sorted({rule.issuer for rule in self._gateway.callers.providers})
        if not self._told():
            raise Rejected(404, "not_found", "no identity provider is announced here", suggestion="use an API key")
        scopes = _scopes(self._gateway)
        return json_response(
            {
                "resource": self._url + MCP,
                "resource_name": "toolgen",
                "authorization_servers": issuers,
                **({"scopes_supported": scopes} if scopes else {}),
                "bearer_methods_supported": ["header"],
            }
        )

    def challenge(self, request: Request, error: str = "", scopes: Iterable[str] = ()) -> tuple[bytes, bytes]:
        """The `WWW-Authenticate` header of a refusal (RFC 6750 section 3, RFC 9728 section 5.1).

        `scopes` are what a token must have; of a request without a good one, every provider's.
        """
        told = (request.path == MCP or request.path.startswith(f"{MCP}/")) and self._told()
        wanted = sorted(scopes) or (_scopes(self._gateway) if told else [])
        parts = {
            "error": error,
            "scope": " ".join(wanted),
            "resource_metadata": f"{self._url}{WELL_KNOWN}{MCP}" if told else "",
        }
        said = ", ".join(f'{name}="{value}"' for name, value in parts.items() if value)
        return b"www-authenticate", f"Bearer {said}".strip().encode("ascii")

    def _told(self) -> bool:
        return bool(self._url and self._gateway.callers.providers)


def _scopes(gateway: Facade) -> list[str]:
    return sorted(frozenset[str]().union(*(rule.scopes for rule in gateway.callers.providers)))


_BEARER = re.compile(r"bearer +([\x21-\x7e]{1,16384})\Z", re.IGNORECASE)
_TOKEN = re.compile(r"[\w-]+\.[\w-]+\.[\w-]+\Z", re.ASCII)
_EVERYBODY = "everybody"
_MAX_WAITING = 1_024
_CLOCK = SystemClock()

log = logging.getLogger("toolgen.gateway")


class Authentication:
    """Authenticates requests. `certificates` says whose word on a client's certificate is believed; nobody's where it is None. `url` is
    the gateway's public address, at which clients are told where their users sign in.

    An address that was wrong too often waits, but only with what is wrong: others may share it, so a credential is looked up or verified
    first. Its tokens are then verified one after the other, between the requests of everybody else.
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
        self.resource = ProtectedResource(gateway, url)
        self._certificates = certificates
        self._header = b"" if certificates is None else certificates.header.encode("ascii")
        self._attempts = FailureBuckets(clock)
        self._turns = TurnQueue()

    async def enter(self, request: Request) -> Principal:
        """Sender of a request, and its user. Raises `Rejected`: 401, 429 after too many of those, 503 when a token cannot be checked now.

        RFC 6750: a token is taken from the Authorization header and from no other place.
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
            self._refuse(request, TokenRejected("the Authorization header holds no bearer token"))
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
        """Says in the log and in the audit that somebody sent one, as often as that can be of use, and never what it was."""
        if self._attempts.wait(request.client) or self._attempts.wait(_EVERYBODY):
            return
        self._attempts.failed(request.client)
        self._attempts.failed(_EVERYBODY)
        log.warning("a request from %s had a credential in its URL; whatever it was should be replaced", request.client)
        await self._gateway.callers.note_refusal("credential_in_url", request.client)

    def _certificate(self, request: Request, certificates: ClientCertificates) -> str:
        """The client's certificate, where the connection comes from a proxy that is trusted to have verified it."""
        if self._header not in request.headers:
            return ""
        if not certificates.trusts(request.peer):
            self._hold_back(request)
            log.warning("%s sent the header of client certificates, and is no proxy of ours", request.peer)
            self._attempts.failed(request.client)
            raise Rejected(400, "bad_request", "the header of client certificates is taken from trusted proxies alone")
        if self._header in request.repeated:
            raise Rejected(400, "bad_request", "the header of client certificates was sent more than once")
        return request.text(self._header)

    async def admit(self, request: Request, credential: str) -> Principal:
        """Whose credential this is, however it came. Raises `Rejected` as `enter` does."""
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
        """The principal that a credential led to. Raises `Rejected` as `enter` does where it led to nobody."""
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
                "this token lacks a scope that the policy asks for",
                suggestion="ask the identity provider for the scopes that WWW-Authenticate names",
                headers=(self.resource.challenge(request, "insufficient_scope", why.scopes),),
            )
        raise _unauthenticated("this credential is not accepted", self.resource.challenge(request, "invalid_token"))

    def _narrowed(self, principal: Principal, toolset: str) -> Principal:
        """The caller with the toolset it asks for, which can only take tools away."""
        narrowed = self._gateway.callers.narrowed(principal, toolset)
        if narrowed is None:
            raise Rejected(404, "not_found", "X-Toolset names no toolset of the policy")
        return narrowed

    async def _acting(self, request: Request, principal: Principal, user: str) -> Principal:
        """Whom the caller says it acts for, by name, or proves with a token of theirs, as far as the policy lets it."""
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
        """Waits for a turn; False, at once, where too many wait already."""
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
