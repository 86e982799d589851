"""Token, revocation and introspection endpoints: Authlib judges a request, and its changes are made in one step or not at all."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from toolgen.config.sign_in import JWT_BEARER, SignInSettings
from toolgen.core.clock import Clock
from toolgen.gateway.identity.jwt import RefusedTokenError, TokenRejected, read_token
from toolgen.gateway.sign_in.access_tokens import AccessTokens
from toolgen.gateway.sign_in.authorization import use_code
from toolgen.gateway.sign_in.clients import Clients
from toolgen.gateway.sign_in.errors import OAuthError
from toolgen.gateway.sign_in.identity_assertions import IdentityAssertion, IdentityAssertions
from toolgen.gateway.sign_in.records import (
    SCOPE,
    HostedClient,
    IssuedCode,
    SignInGrant,
    TokenSigningKey,
    UsedAssertion,
)
from toolgen.gateway.sign_in.refresh_tokens import read_refresh_token, refresh_token
from toolgen.gateway.sign_in.resources import Resources
from toolgen.gateway.sign_in.sign_in_log import SignInLog
from toolgen.gateway.sign_in.signing_keys import SigningKeys
from toolgen.model.call import Principal
from toolgen.state.sign_in import Kept, SignInStore

__all__ = ["TokenEndpoint", "TokenEndpointDependencies"]

_MAX_GRANTS_EACH = 100
Answer = tuple[int, Mapping[str, Any]]
Admit = Callable[[SignInGrant], "Principal | TokenRejected"]
"""Function that returns the principal of a grant's person under the policy in force."""


class TokenEndpointDependencies(Struct, frozen=True, kw_only=True):
    """Dependencies of the endpoint. `audiences` are those of assertions of clients."""

    settings: SignInSettings
    audiences: tuple[str, ...]
    clients: Clients
    resources: Resources
    keys: SigningKeys
    tokens: AccessTokens
    store: SignInStore
    log: SignInLog
    clock: Clock
    admit: Admit
    assertions: IdentityAssertions


class _Asked(Struct, frozen=True, kw_only=True):
    """Token request. The name of the client is not verified yet."""

    form: Mapping[str, str]
    authorization: str
    client: str

    def __repr__(self) -> str:
        return f"_Asked({self.client})"


class TokenEndpoint:
    """Endpoints for requests of clients about tokens."""

    def __init__(self, dependencies: TokenEndpointDependencies) -> None:
        self._dependencies = dependencies

    async def token(self, form: Mapping[str, str], resources: list[str], authorization: str, address: str) -> Answer:
        """Answer a token request (RFC 6749 sections 4.1.3 and 6). Raises `AuditError` and `StateError`."""
        client_id = ""
        try:
            client_id = claimed_client(form, authorization)
            return await self._issued(form, resources, authorization)
        except OAuthError as error:
            await self._dependencies.log.refused(
                "token_refused", client=client_id, address=address, error=error.code, why=error.text
            )
            return error.status, {"error": error.code, "error_description": error.text}

    async def revoke(self, form: Mapping[str, str], authorization: str, address: str) -> Answer:
        """Revoke all tokens of the sign-in that a token belongs to (RFC 7009). Raises `AuditError` and `StateError`."""
        from toolgen.gateway.sign_in.oauth_protocol import judge_revocation  # noqa: PLC0415 - behind the extra sign-in

        client_id = ""
        try:
            client_id = claimed_client(form, authorization)
            known = await self._known(client_id, grant=await self._grant_of(form.get("token", "")), form=form)
        except OAuthError as error:
            return error.status, {"error": error.code, "error_description": error.text}
        judgement, revoked = judge_revocation(known, form, authorization)
        await self._use_assertion(judgement.assertion, client_id)
        if revoked and known.grant is not None:
            await self._dependencies.log.note(
                "revoked", principal=known.grant.principal, client=client_id, address=address, by="client"
            )
            await self._dependencies.store.take(SignInGrant, known.grant.id)
        return judgement.status, judgement.body

    async def introspect(self, token: str) -> Mapping[str, Any]:
        """Return the content of an access token (RFC 7662); a refresh token, or one that is not valid, is `active: false`."""
        try:
            claims = await self._dependencies.tokens.verified(read_token(token))
            grant = await self._dependencies.tokens.grant(claims)
        except RefusedTokenError:
            return {"active": False}
        if grant is None or isinstance(self._dependencies.admit(grant), TokenRejected):
            return {"active": False}
        return {**claims, "active": True, "token_type": "Bearer", "username": grant.principal}

    async def _issued(self, form: Mapping[str, str], resources: list[str], authorization: str) -> Answer:
        offered, kind = self._dependencies.settings.grant_types, form.get("grant_type")
        match kind if kind in offered else None:
            case "authorization_code":
                return await self._by_code(form, resources, authorization)
            case "refresh_token":
                return await self._by_refresh_token(form, resources, authorization)
            case "client_credentials":
                return await self._by_itself(form, resources, authorization)
            case grant_type if grant_type == JWT_BEARER:
                return await self._by_assertion(form, resources, authorization)
        raise OAuthError("unsupported_grant_type", f"expected a grant_type of {', '.join(offered)}")

    async def _by_code(self, form: Mapping[str, str], resources: list[str], authorization: str) -> Answer:
        from toolgen.gateway.sign_in.oauth_protocol import judge_token_request  # noqa: PLC0415 - behind the extra sign-in

        parts, code = self._dependencies, form.get("code", "")
        kept = await parts.store.get(IssuedCode, code)
        client_id = claimed_client(form, authorization)
        if kept is not None and kept.value.used:
            await self._replayed(kept.value.used, kept.value)
            raise _invalid_grant()
        known = await self._known(client_id, code=None if kept is None else kept.value, form=form)
        grant, key = None if kept is None else self._new_grant(kept.value, known.client), await parts.keys.signer()
        judgement = judge_token_request(
            known, form, authorization, lambda refresh: self._answer(key, grant, refresh=refresh)
        )
        if judgement.status != 200 or grant is None or kept is None:
            raise _error_of(judgement.status, judgement.body)
        self._check_resource(resources, grant.resource)
        self._check_principal(grant)
        await self._use_assertion(judgement.assertion, client_id)
        await parts.log.note(
            "token_issued", principal=grant.principal, client=client_id, resource=grant.resource, grant=grant.id
        )
        # The grant is stored before the code is marked as used, so that a second use of the code finds the grant to revoke.
        seconds = self._lasts(grant, refreshed="refresh_token" in judgement.body)
        await parts.store.put(grant, grant.id, seconds=seconds, group=grant.person, most=_MAX_GRANTS_EACH)
        if not await use_code(parts.store, code, grant.id):
            await parts.store.take(SignInGrant, grant.id)
            again = await parts.store.get(IssuedCode, code)
            if again is not None and again.value.used:
                await self._replayed(again.value.used, again.value)
            raise _invalid_grant()
        return 200, judgement.body

    async def _by_refresh_token(self, form: Mapping[str, str], resources: list[str], authorization: str) -> Answer:
        from toolgen.gateway.sign_in.oauth_protocol import judge_token_request  # noqa: PLC0415 - behind the extra sign-in

        parts, shown = self._dependencies, read_refresh_token(form.get("refresh_token", ""))
        kept: Kept[SignInGrant] | None = None if shown is None else await parts.store.get(SignInGrant, shown.grant)
        client_id = claimed_client(form, authorization)
        if shown is None or kept is None or not shown.fits(kept.value) or kept.value.is_over(parts.clock.now()):
            kept = None
        elif shown.turn != kept.value.turn and not self._is_retry(kept.value, shown.turn + 1):
            await self._reused(kept.value)
            raise _invalid_grant()
        retried = shown is not None and kept is not None and shown.turn != kept.value.turn
        grant = None if kept is None else kept.value
        if grant is not None and not retried:
            grant = replace(grant, turn=grant.turn + 1, turned=parts.clock.now())
        known, key = await self._known(client_id, grant=grant, form=form), await parts.keys.signer()
        judgement = judge_token_request(
            known, form, authorization, lambda refresh: self._answer(key, grant, refresh=refresh)
        )
        if judgement.status != 200 or grant is None or kept is None:
            if retried and kept is not None:  # a used token, and not of its client
                await self._reused(kept.value)
            raise _error_of(judgement.status, judgement.body)
        self._check_resource(resources, grant.resource)
        self._check_principal(grant)
        await self._use_assertion(judgement.assertion, client_id)
        code = "refresh_retried" if retried else "token_refreshed"
        await parts.log.note(code, principal=grant.principal, client=client_id, resource=grant.resource, grant=grant.id)
        if retried:
            return 200, judgement.body
        seconds = self._lasts(grant, refreshed=True)
        version = kept.version
        while not await parts.store.put(grant, grant.id, seconds=seconds, version=version, group=grant.person):
            now_kept = await parts.store.get(SignInGrant, grant.id)
            if (
                now_kept is not None
                and now_kept.value.turn >= grant.turn
                and self._is_retry(now_kept.value, grant.turn)
            ):
                return 200, judgement.body  # another request of the client was faster: its refresh token is the same
            if now_kept is None or now_kept.value.turn >= grant.turn:  # another request used the token meanwhile
                await self._reused(grant)
                raise _invalid_grant()
            version = now_kept.version  # its data key was wrapped again
        return 200, judgement.body

    def _is_retry(self, grant: SignInGrant, turn: int) -> bool:
        """Return True if a client may have lost the answer with the refresh token number `turn`: nobody used that one, and it is new."""
        grace = self._dependencies.settings.refresh_grace_s
        return grant.turn == turn and grace > 0 and self._dependencies.clock.now() - grant.turned <= grace

    async def _by_itself(self, form: Mapping[str, str], resources: list[str], authorization: str) -> Answer:
        """Answer a client that acts for itself (RFC 6749 section 4.4): it is a principal of the policy."""
        client_id = claimed_client(form, authorization)
        known = await self._known(client_id, form=form)
        try:
            made: SignInGrant | OAuthError = self._own_grant(known.client, resources)
        except OAuthError as error:
            made = error
        return await self._single_token(_Asked(form=form, authorization=authorization, client=client_id), known, made)

    async def _by_assertion(self, form: Mapping[str, str], resources: list[str], authorization: str) -> Answer:
        """Answer a client that the identity provider gave an assertion about a person (RFC 7523 section 2.1)."""
        client_id = claimed_client(form, authorization)
        known = await self._known(client_id, form=form)
        assertion: IdentityAssertion | None = None
        try:
            assertion = await self._dependencies.assertions.read(form.get("assertion", ""), client_id, resources)
            made: SignInGrant | OAuthError = self._asserted_grant(assertion, known.client)
        except OAuthError as error:
            made = error
        asked = _Asked(form=form, authorization=authorization, client=client_id)
        return await self._single_token(asked, known, made, assertion)

    async def _single_token(
        self, asked: _Asked, known: Any, made: SignInGrant | OAuthError, assertion: IdentityAssertion | None = None
    ) -> Answer:
        """Answer with an access token alone. A client that does not prove who it is does not learn why no grant could be `made`."""
        from toolgen.gateway.sign_in.oauth_protocol import judge_token_request  # noqa: PLC0415 - behind the extra sign-in

        parts = self._dependencies
        grant, key = made if isinstance(made, SignInGrant) else None, await parts.keys.signer()
        judgement = judge_token_request(
            known, asked.form, asked.authorization, lambda _: self._answer(key, grant, refresh=False)
        )
        if judgement.status != 200:
            raise _error_of(judgement.status, judgement.body)
        if isinstance(made, OAuthError):
            raise made
        made = replace(made, principal=self._check_principal(made).id)
        await self._use_assertion(judgement.assertion, asked.client)
        if assertion is not None:
            await self._use_identity_assertion(assertion, asked.client)
        await parts.log.note(
            "token_issued",
            principal=made.principal,
            client=asked.client,
            resource=made.resource,
            grant=made.id,
            by=asked.form["grant_type"],
        )
        seconds = self._lasts(made, refreshed=False)
        await parts.store.put(made, made.id, seconds=seconds, group=made.person, most=_MAX_GRANTS_EACH)
        return 200, judgement.body

    def _own_grant(self, client: HostedClient | None, resources: list[str]) -> SignInGrant:
        """Return the grant of a client to itself. Raises `OAuthError`."""
        if client is None or not client.principal:
            raise OAuthError("unauthorized_client", "the client does not act for itself")
        parts, now = self._dependencies, self._dependencies.clock.now()
        return SignInGrant(
            id=secrets.token_urlsafe(18),
            client=client.id,
            client_name=client.name,
            principal=client.principal,
            claims={"iss": parts.tokens.issuer, "sub": client.id},
            resource=parts.resources.own(resources),
            at=now,
            expires=now + parts.settings.access_s,
            key=secrets.token_urlsafe(32),
        )

    def _asserted_grant(self, assertion: IdentityAssertion, client: HostedClient | None) -> SignInGrant:
        """Return the grant of a person to a client, without the name of the principal."""
        if client is None:
            raise OAuthError("invalid_client", "the client is unknown", status=401)
        return SignInGrant(
            id=secrets.token_urlsafe(18),
            client=client.id,
            client_name=client.name,
            principal="",
            claims=dict(assertion.claims),
            resource=assertion.resource,
            at=assertion.issued,
            expires=self._dependencies.clock.now() + self._dependencies.settings.access_s,
            key=secrets.token_urlsafe(32),
        )

    def _new_grant(self, code: IssuedCode, client: HostedClient | None) -> SignInGrant:
        now = self._dependencies.clock.now()
        return SignInGrant(
            id=secrets.token_urlsafe(18),
            client=code.client,
            client_name="" if client is None else client.name,
            principal=code.principal,
            claims=code.claims,
            id_token=code.id_token,
            resource=code.resource,
            at=code.at,
            expires=now + self._dependencies.settings.expires_s,
            key=secrets.token_urlsafe(32),
        )

    def _answer(self, key: TokenSigningKey, grant: SignInGrant | None, *, refresh: bool) -> Mapping[str, Any]:
        if grant is None:
            return {}
        token, lasts = self._dependencies.tokens.issue(key, grant)
        return {
            "access_token": token,
            "token_type": "Bearer",
            "expires_in": lasts,
            "scope": SCOPE,
            **({"refresh_token": refresh_token(grant)} if refresh else {}),
        }

    def _lasts(self, grant: SignInGrant, *, refreshed: bool) -> float:
        """Return the time for which a grant is stored: while a refresh token of it is valid, or its only access token."""
        longest = self._dependencies.settings.idle_s if refreshed else self._dependencies.settings.access_s + 60.0
        return max(1.0, min(longest, grant.expires - self._dependencies.clock.now()))

    def _check_resource(self, asked: list[str], granted: str) -> None:
        if asked and self._dependencies.resources.chosen(asked) != granted:
            raise OAuthError("invalid_target", f"the person agreed to another resource; expected {granted}")

    def _check_principal(self, grant: SignInGrant) -> Principal:
        found = self._dependencies.admit(grant)
        if isinstance(found, TokenRejected):
            raise OAuthError("invalid_grant", "the policy of the gateway does not know this person or client any more")
        return found

    async def _known(
        self,
        client_id: str,
        *,
        form: Mapping[str, str],
        code: IssuedCode | None = None,
        grant: SignInGrant | None = None,
    ) -> Any:
        from toolgen.gateway.sign_in.oauth_protocol import KnownRecords  # noqa: PLC0415 - behind the extra sign-in

        client = await self._dependencies.clients.find(client_id) if client_id else None
        keys = None
        if client is not None and client.method == "private_key_jwt" and "client_assertion" in form:
            keys = await self._dependencies.clients.key_set(client, _key_id(form["client_assertion"]))
        return KnownRecords(client=client, keys=keys, code=code, grant=grant, audiences=self._dependencies.audiences)

    async def _grant_of(self, token: str) -> SignInGrant | None:
        """Return the grant of a token that this gateway made, also of used refresh tokens."""
        if (shown := read_refresh_token(token)) is not None:
            kept = await self._dependencies.store.get(SignInGrant, shown.grant)
            return kept.value if kept is not None and shown.fits(kept.value) else None
        try:
            return await self._dependencies.tokens.grant(await self._dependencies.tokens.verified(read_token(token)))
        except RefusedTokenError:
            return None

    async def _use_assertion(self, assertion: tuple[str, float] | None, client_id: str) -> None:
        if assertion is None:
            return
        seconds = assertion[1] - self._dependencies.clock.now() + 120.0
        if seconds > 3720.0:
            raise OAuthError("invalid_client", "the assertion is valid for more than an hour", status=401)
        record = UsedAssertion(client=client_id)
        if not await self._dependencies.store.put(record, f"{client_id}\0{assertion[0]}", seconds=max(seconds, 1.0)):
            raise OAuthError("invalid_client", "the assertion was used before", status=401)

    async def _use_identity_assertion(self, assertion: IdentityAssertion, client_id: str) -> None:
        seconds = max(1.0, assertion.expires - self._dependencies.clock.now() + 60.0)
        key = f"id-jag\0{assertion.claims['iss']}\0{assertion.id}"
        if not await self._dependencies.store.put(UsedAssertion(client=client_id), key, seconds=seconds):
            raise OAuthError("invalid_grant", "the identity assertion was used before")

    async def _replayed(self, grant: str, code: IssuedCode) -> None:
        await self._dependencies.log.note("code_replayed", principal=code.principal, client=code.client, grant=grant)
        await self._dependencies.store.take(SignInGrant, grant)

    async def _reused(self, grant: SignInGrant) -> None:
        await self._dependencies.log.note(
            "refresh_replayed", principal=grant.principal, client=grant.client, grant=grant.id
        )
        await self._dependencies.store.take(SignInGrant, grant.id)


def claimed_client(form: Mapping[str, str], authorization: str) -> str:
    """Return the client that a request names as its sender; "" for none. The name is not verified yet. Raises `OAuthError` for two
    clients."""
    from toolgen.gateway.sign_in.oauth_protocol import basic_credentials  # noqa: PLC0415 - behind the extra sign-in

    basic = basic_credentials(authorization)
    named = {form.get("client_id", ""), "" if basic is None else basic[0], _subject(form.get("client_assertion", ""))}
    named.discard("")
    if len(named) > 1:
        raise OAuthError("invalid_request", "the request names two clients")
    return named.pop() if named else ""


def _invalid_grant() -> OAuthError:
    return OAuthError("invalid_grant", "the code or the refresh token is not valid; the person has to sign in again")


def _subject(assertion: str) -> str:
    try:
        payload = assertion.split(".")[1]
        claims = msgspec.json.decode(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        subject = claims["sub"]
    except (ValueError, IndexError, KeyError, TypeError, msgspec.MsgspecError):
        return ""
    return subject if isinstance(subject, str) else ""


def _key_id(assertion: str) -> str:
    """Return the key id in the header of an assertion; "" for none. It is not verified, and names nothing but what to look for."""
    try:
        header = assertion.split(".", maxsplit=1)[0]
        key_id = msgspec.json.decode(base64.urlsafe_b64decode(header + "=" * (-len(header) % 4)))["kid"]
    except (ValueError, KeyError, TypeError, msgspec.MsgspecError):
        return ""
    return key_id if isinstance(key_id, str) else ""


def _error_of(status: int, body: Mapping[str, Any]) -> OAuthError:
    if status == 200:
        return _invalid_grant()
    return OAuthError(str(body.get("error", "invalid_request")), str(body.get("error_description", "")), status=status)
