"""Access tokens of the gateway: JWTs (RFC 9068) for one resource, valid for minutes, and only as long as their grant exists."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from toolgen.config.sign_in import SignInSettings
from toolgen.core.clock import Clock
from toolgen.core.errors import StateError
from toolgen.gateway.identity.issued_tokens import IssuedToken
from toolgen.gateway.identity.jwt import LEEWAY_S, DisclosedReason, RefusedTokenError, SignedToken, check_claims
from toolgen.gateway.sign_in.records import SCOPE, SignInGrant, TokenSigningKey
from toolgen.gateway.sign_in.resources import Resources
from toolgen.gateway.sign_in.signing_keys import ALGORITHM, SigningKeys
from toolgen.model.call import CredentialProof
from toolgen.model.secret import Secret
from toolgen.state.sign_in import SignInStore

__all__ = ["AccessTokens"]

_LOOK_AGAIN_S = 30.0
"""Time for which a token is accepted without reading its grant: a revocation takes effect within this time."""


class AccessTokens:
    """Tokens that `issuer` issues for `resources`."""

    def __init__(
        self,
        issuer: str,
        settings: SignInSettings,
        resources: Resources,
        keys: SigningKeys,
        store: SignInStore,
        clock: Clock,
    ) -> None:
        self._issuer = issuer
        self._settings = settings
        self._resources = resources
        self._keys = keys
        self._store = store
        self._clock = clock

    @property
    def issuer(self) -> str:
        """Issuer of the tokens."""
        return self._issuer

    def issue(self, key: TokenSigningKey, grant: SignInGrant) -> tuple[str, int]:
        """Return a new access token, and its lifetime in seconds."""
        import jwt  # noqa: PLC0415 - where people sign in through the gateway

        now = int(self._clock.now())
        lasts = int(min(self._settings.access_s, max(1.0, grant.expires - now)))
        claims = {
            **{name: grant.claims[name] for name in self._settings.claims if name in grant.claims},
            "iss": self._issuer,
            "sub": grant.claims["sub"],
            "idp": grant.claims["iss"],
            "aud": grant.resource,
            "client_id": grant.client,
            "scope": SCOPE,
            "iat": now,
            "exp": now + lasts,
            **({"auth_time": int(at)} if (at := _authenticated(grant)) is not None else {}),
            "jti": secrets.token_urlsafe(16),
            "sid": grant.id,
        }
        headers = {"typ": "at+jwt", "kid": key.id}
        return jwt.encode(claims, self._keys.pem_of(key), algorithm=ALGORITHM, headers=headers), lasts

    async def read(self, token: SignedToken) -> IssuedToken:
        """Return the content of a token of this gateway for one of its resources. Raises `RefusedTokenError`."""
        claims = await self.verified(token)
        toolsets = self._resources.toolsets(claims.get("aud"))
        if toolsets is None:
            raise RefusedTokenError("it is for another resource than this gateway")
        grant = await self.grant(claims)
        if grant is None:
            raise RefusedTokenError("its sign-in was revoked, or has ended")
        expires = min(check_claims(claims, self._clock.now()), grant.expires, self._clock.now() + _LOOK_AGAIN_S)
        jwt_id = claims.get("jti")
        found = replace(self.identified(grant), expires=expires, toolsets=toolsets)
        return replace(found, proof=replace(found.proof, jwt_id=jwt_id if isinstance(jwt_id, str) else ""))

    def identified(self, grant: SignInGrant) -> IssuedToken:
        """Return the content of a token of a grant, as far as it does not depend on the token. Raises `RefusedTokenError` for a client
        that acted for itself, and may not any more."""
        principal = grant.principal if grant.claims.get("iss") == self._issuer else ""
        if principal and self.principal_of(grant.client) != principal:
            raise RefusedTokenError("the settings do not let its client act for itself any more")
        proof = CredentialProof(
            issuer=str(grant.claims.get("iss", "")),
            subject=str(grant.claims.get("sub", "")),
            issued=grant.at,  # after a refresh too, so that no token is newer than a revocation
            client=grant.client,
        )
        known = {**grant.claims, "client_id": grant.client}
        return IssuedToken(
            claims=known,
            proof=proof,
            expires=grant.expires,
            principal=principal,
            id_token=Secret(grant.id_token) if grant.id_token and self._is_valid(grant.claims) else None,
        )

    def _is_valid(self, claims: Mapping[str, Any]) -> bool:
        """Return True if the id token with these claims has not expired."""
        try:
            check_claims(claims, self._clock.now() + LEEWAY_S)
        except RefusedTokenError:
            return False
        return True

    def principal_of(self, client: str) -> str:
        """Return the principal of the policy that a client of the settings is when it acts for itself; "" for any other client."""
        known = self._settings.clients.registered.get(client)
        return "" if known is None else known.principal

    async def verified(self, token: SignedToken) -> Mapping[str, Any]:
        """Return the claims of a token that this gateway signed and that has not expired. Raises `RefusedTokenError`."""
        if token.algorithm != ALGORITHM:
            raise RefusedTokenError("its algorithm is not that of the gateway")
        if token.claims.get("iss") != self._issuer:
            raise RefusedTokenError(f"its issuer is not {self._issuer}")
        try:
            signed = await self._keys.verifies(token.key_id, token.signed, token.signature)
        except StateError as error:
            raise RefusedTokenError(f"the signing keys cannot be read: {error}", DisclosedReason.UNAVAILABLE) from error
        if not signed:
            raise RefusedTokenError("its signature is not that of a key of the gateway")
        check_claims(token.claims, self._clock.now())
        return token.claims

    async def grant(self, claims: Mapping[str, Any]) -> SignInGrant | None:
        """Return the grant of a verified token. Raises `RefusedTokenError` if it does not exist, or is of another person or client."""
        try:
            kept = await self._store.get(SignInGrant, str(claims.get("sid", "")))
        except StateError as error:
            raise RefusedTokenError(f"sign-ins cannot be read: {error}", DisclosedReason.UNAVAILABLE) from error
        if kept is None or kept.value.is_over(self._clock.now()):
            return None
        grant = kept.value
        same = (grant.client, grant.resource, grant.claims.get("sub"), grant.claims.get("iss"))
        said = tuple(claims.get(name) for name in ("client_id", "aud", "sub", "idp"))
        return grant if same == said else None


def _authenticated(grant: SignInGrant) -> float | None:
    """Return the time at which the person authenticated, as the identity provider says; None if it does not. The time of the sign-in here
    may be hours later, in a session that the provider still had."""
    at = grant.claims.get("auth_time")
    return at if isinstance(at, int | float) and not isinstance(at, bool) and 0 < at <= grant.at + LEEWAY_S else None
