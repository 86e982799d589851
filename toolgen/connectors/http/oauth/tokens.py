"""Cache of tokens: one request for all calls that need a token, replacement before it expires, and a pause after a failure."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from toolgen.connectors.executor import Destination, Permit
from toolgen.connectors.http.oauth.dpop import ProofKey, ask_with_proof
from toolgen.connectors.http.oauth.identity_assertion import (
    ExpectedAssertion,
    assertion_request,
    read_assertion,
    subject_of,
)
from toolgen.connectors.http.oauth.rotation import Rotation
from toolgen.connectors.http.oauth.server_metadata import discover_token_url
from toolgen.connectors.http.oauth.token_endpoint import Issued, ResolvedSecrets, read_answer, request
from toolgen.connectors.http.outbound.client import ask
from toolgen.connectors.http.outbound.request import OutboundError, OutboundRequest, TlsMaterial, Via
from toolgen.connectors.resolver import Resolver, system_resolver
from toolgen.connectors.secrets import Secret, SecretReference, SecretResolver
from toolgen.core.background import cancel
from toolgen.core.clock import Clock
from toolgen.core.errors import SecretError
from toolgen.model.auth import OAuth, ResourceAuthorizationServer
from toolgen.model.secret import Unprinted

__all__ = ["BearerToken", "OAuthClient", "OAuthClients"]

_MAX_GRANTS = 256
_MAX_TOKENS = 10_000
_AHEAD = (
    0.75,
    0.9,
)  # share of a token's lifetime after which it is replaced; random, so that processes do not ask together
_SPARE_S = 10.0  # seconds before its end at which a token is not sent any more: for the way, and for clocks that differ
_FAILED_S = (1.0, 60.0)
_MENDED_S = 30.0
_METADATA_S = 3600.0

log = logging.getLogger("toolgen.secrets")

Jitter = Callable[[float, float], float]


class BearerToken(Unprinted, frozen=True, kw_only=True):
    """Token that a request is sent with. It may be sent until `until`, and should be replaced from `ahead` on (monotonic seconds)."""

    value: str
    ahead: float
    until: float

    def __repr__(self) -> str:
        return "Token(***)"


class _Slot(Struct, kw_only=True):
    """State of one token: available, being requested, or not available for a while after a failure.

    `key` is the one that it is bound to, if it is no bearer token.
    """

    token: BearerToken | None = None
    asking: asyncio.Task[BearerToken] | None = None
    fault: str = ""
    wait: float = 0.0
    faults: int = 0
    mended: float = -_MENDED_S
    key: ProofKey | None = None


class OAuthClients:
    """OAuth clients of one source. `folder` stores refresh tokens that services rotate; `permit` decides about every endpoint."""

    def __init__(
        self,
        *,
        secrets: SecretResolver,
        permit: Permit,
        clock: Clock,
        source: str = "",
        folder: Path | None = None,
        resolver: Resolver = system_resolver,
        jitter: Jitter = random.uniform,
    ) -> None:
        self.secrets = secrets
        self.permit = permit
        self.source = source
        self.clock = clock
        self.rotation = Rotation(folder, source)
        self.resolver = resolver
        self.jitter = jitter
        self._grants: OrderedDict[tuple[OAuth, str], OAuthClient] = OrderedDict()

    def grant(self, form: OAuth, endpoint: str) -> OAuthClient:
        """Return the client for one form at one endpoint: the same object each time, also after a policy was read again."""
        key = (form, endpoint)
        found = self._grants.get(key)
        if found is None:
            found = self._grants[key] = OAuthClient(self, form, endpoint)
            if len(self._grants) > _MAX_GRANTS:
                self._grants.popitem(last=False)
        return found

    async def close(self) -> None:
        """Cancel all token requests in progress."""
        for grant in self._grants.values():
            await grant.close()


class OAuthClient:
    """Tokens of one client at one endpoint: a single token, or, for a token exchange, one for each caller and its token."""

    def __init__(self, grants: OAuthClients, form: OAuth, endpoint: str) -> None:
        self._grants = grants
        self._clock = grants.clock
        self.form = form
        self._endpoint = endpoint
        self._own = self._made_slot()
        self._exchanged: OrderedDict[tuple[str, bytes], _Slot] = OrderedDict()
        self._found: tuple[str, float] | None = None

    def known(self, who: str, subject: Secret | None) -> str | None:
        """Return a token that can be sent at once, or None. A token near its end is replaced in the background."""
        slot = self._slot(who, subject)
        token = slot.token
        if token is None:
            return None
        now = self._clock.monotonic()
        if now >= token.ahead:
            if now >= token.until:
                return None
            if slot.asking is None and now >= slot.wait:
                self._ask(slot, subject)
        return token.value

    async def fetch(self, who: str, subject: Secret | None) -> str:
        """Return a token, and request one if there is none. Raises `SecretError`."""
        known = self.known(who, subject)
        if known is not None:
            return known
        slot = self._slot(who, subject)
        if slot.asking is None:
            if self._clock.monotonic() < slot.wait:
                raise self._failure(slot.fault)
            self._ask(slot, subject)
        asking = slot.asking
        if asking is None:  # never: the request was started above
            raise self._failure(slot.fault)
        try:
            return (await asyncio.shield(asking)).value
        except asyncio.CancelledError:
            if asking.cancelled():
                raise self._failure("the gateway is closing") from None
            raise

    def reject(self, who: str, subject: Secret | None, value: str) -> bool:
        """Report that the system did not accept a token. Return True if a new one may help.

        Returns False if a new one did not help a moment ago: then the token is not the cause, and no other is requested.
        """
        slot = self._slot(who, subject)
        if slot.token is None or slot.token.value != value:
            return True  # another call has replaced it already
        now = self._clock.monotonic()
        if now < slot.mended + _MENDED_S:
            return False
        slot.mended = now
        slot.token = None
        return True

    def proof_key(self, who: str, subject: Secret | None) -> ProofKey | None:
        """Return the key that a token is bound to; None for bearer tokens. Each caller whose token is exchanged has another."""
        return self._slot(who, subject).key

    async def close(self) -> None:
        """Cancel token requests in progress."""
        slots = (self._own, *self._exchanged.values())
        await cancel(*(slot.asking for slot in slots if slot.asking is not None))

    def _made_slot(self) -> _Slot:
        return _Slot(key=ProofKey.generate() if self.form.dpop else None)

    def _slot(self, who: str, subject: Secret | None) -> _Slot:
        if self.form.grant != "token_exchange":
            return self._own
        if subject is None:
            raise ValueError("a token exchange needs the caller's token")
        # The key has the caller and its token, so no caller gets a token that was exchanged for another caller's.
        key = (who, hashlib.sha256(subject.reveal().encode()).digest())
        slot = self._exchanged.get(key)
        if slot is None:
            slot = self._exchanged[key] = self._made_slot()
            while len(self._exchanged) > _MAX_TOKENS:
                self._exchanged.popitem(last=False)
        else:
            self._exchanged.move_to_end(key)
        return slot

    def _ask(self, slot: _Slot, subject: Secret | None) -> None:
        task = slot.asking = asyncio.get_running_loop().create_task(self._renewed(slot, subject))

        def done(finished: asyncio.Task[BearerToken]) -> None:
            slot.asking = None
            if not finished.cancelled():
                finished.exception()  # it was logged already, and there may be no waiter

        task.add_done_callback(done)

    async def _renewed(self, slot: _Slot, subject: Secret | None) -> BearerToken:
        began = self._clock.monotonic()
        try:
            issued = await self._issued(subject, slot.key)
        except (OutboundError, SecretError) as error:
            why = error.message if isinstance(error, SecretError) else str(error)
            slot.fault, slot.faults = why, slot.faults + 1
            longest = min(_FAILED_S[0] * 2 ** min(slot.faults, 10), _FAILED_S[1])
            slot.wait = self._clock.monotonic() + self._grants.jitter(longest / 2, longest)
            log.warning("no token for %s from %s: %s", self._grants.source, self._host, why)
            raise self._failure(why) from None
        slot.fault, slot.faults, slot.wait = "", 0, 0.0
        spare = min(_SPARE_S, issued.seconds / 10)
        slot.token = BearerToken(
            value=issued.token,
            ahead=began + issued.seconds * self._grants.jitter(*_AHEAD),
            until=began + issued.seconds - spare,
        )
        return slot.token

    async def _issued(self, subject: Secret | None, key: ProofKey | None) -> Issued:
        form = self.form
        held = ResolvedSecrets(
            client_id=await self._value(form.client_id),
            client_secret=await self._value(form.client_secret),
            private_key=await self._value(form.private_key),
            subject_token=subject.reveal() if subject is not None else "",
            assertion=await self._value(form.assertion),
        )
        if form.authorization_server is not None:
            return await self._asserted(form.authorization_server, held, key)
        if form.refresh_token is None:
            return await self._post(held, key)
        configured = await self._value(form.refresh_token)
        async with self._grants.rotation.held(self._endpoint, held.client_id, configured) as place:
            given = place.read()
            used = ResolvedSecrets(
                client_id=held.client_id,
                client_secret=held.client_secret,
                private_key=held.private_key,
                refresh_token=given,
            )
            issued = await self._post(used, key)
            if issued.refresh_token and issued.refresh_token != given:
                place.keep(issued.refresh_token)
            return issued

    async def _asserted(
        self, server: ResourceAuthorizationServer, held: ResolvedSecrets, key: ProofKey | None
    ) -> Issued:
        """Exchange the caller's token for an assertion, and that for a token of the API's authorization server. The assertion is presented
        once and kept nowhere."""
        own = ResolvedSecrets(
            client_id=await self._value(server.client_id),
            client_secret=await self._value(server.client_secret),
            private_key=await self._value(server.private_key),
        )
        expected = ExpectedAssertion(
            issuer=self.form.issuer,
            audience=server.issuer,
            subject=subject_of(held.subject_token),
            client_id=own.client_id,
            resource=self.form.resource,
        )
        via = self._via(TlsMaterial())
        try:
            endpoint = server.token_url or await self._discovered(server.issuer, via)
        except OutboundError as error:
            raise _at(server, error) from None
        asked = request(self.form, self._endpoint, held, self._clock.now())
        reply = await ask(asked, self._via(await self._tls()))
        assertion = read_assertion(reply, expected, self._clock.now())

        def presented() -> OutboundRequest:
            return assertion_request(server, endpoint, own, assertion, self._clock.now())

        try:
            return read_answer(await ask_with_proof(presented, via, key, self._clock), self.form.scopes, key)
        except OutboundError as error:
            raise _at(server, error) from None

    async def _discovered(self, issuer: str, via: Via) -> str:
        now = self._clock.monotonic()
        if self._found is None or self._found[1] <= now:
            self._found = (await discover_token_url(issuer, via), now + _METADATA_S)
        return self._found[0]

    async def _post(self, held: ResolvedSecrets, key: ProofKey | None) -> Issued:
        def asked() -> OutboundRequest:
            return request(self.form, self._endpoint, held, self._clock.now())

        reply = await ask_with_proof(asked, self._via(await self._tls()), key, self._clock)
        return read_answer(reply, self.form.scopes, key)

    def _via(self, tls: TlsMaterial) -> Via:
        return Via(
            permit=self._grants.permit,
            destination=Destination(host="", port=0, service="http"),
            resolver=self._grants.resolver,
            tls=tls,
        )

    async def _tls(self) -> TlsMaterial:
        given = self.form.tls
        if given is None:
            return TlsMaterial()
        return TlsMaterial(
            certificate=await self._value(given.certificate),
            key=await self._value(given.key),
            authorities=await self._value(given.authorities),
        )

    async def _value(self, reference: SecretReference | None) -> str:
        return "" if reference is None else (await self._grants.secrets.fetch(reference)).reveal()

    @property
    def _host(self) -> str:
        return urlsplit(self._endpoint).hostname or ""

    def _failure(self, why: str) -> SecretError:
        return SecretError(
            f"no token can be had from {self._host}: {why}",
            suggestion="tell the operator of the gateway; trying again at once does not help",
        )


def _at(server: ResourceAuthorizationServer, error: OutboundError) -> OutboundError:
    """Return an error that names the authorization server of the API, which is not the place that was asked first."""
    return OutboundError(f"{urlsplit(server.issuer).hostname}, the authorization server of the API, gave none: {error}")
