"""Identity assertions (ID-JAG, draft-ietf-oauth-identity-assertion-authz-grant): the company's identity provider gives them to clients,
about people who signed in there, and the gateway gives an access token for each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from toolgen.config.sign_in import SignInSettings
from toolgen.core.clock import Clock
from toolgen.gateway.identity.jwt import (
    LEEWAY_S,
    DisclosedReason,
    RefusedTokenError,
    SignedToken,
    check_claims,
    read_token,
)
from toolgen.gateway.sign_in.errors import OAuthError
from toolgen.gateway.sign_in.records import SCOPE
from toolgen.gateway.sign_in.resources import Resources

__all__ = ["IdentityAssertion", "IdentityAssertions", "Verify"]

Verify = Callable[[SignedToken], Awaitable[None]]
"""Function that verifies a signature by the keys of the token's issuer in the policy. Raises `RefusedTokenError`."""

_TYPES = frozenset({"oauth-id-jag+jwt", "application/oauth-id-jag+jwt"})
_LONGEST_S = 3600.0
_MAX_TEXT_LENGTH = 256
# Claims about the assertion itself. The others are about the person, like those of an id token.
_OWN = frozenset({"aud", "client_id", "exp", "jti", "nbf", "resource", "scope"})


class IdentityAssertion(Struct, frozen=True, kw_only=True):
    """Valid assertion. `claims` are those that an id token of the person for the gateway would have. `id` is unique at its issuer."""

    id: str
    claims: Mapping[str, Any]
    resource: str
    issued: float
    expires: float

    def __repr__(self) -> str:
        return "IdentityAssertion(***)"


class IdentityAssertions:
    """Reader of the assertions for the authorization server `issuer`."""

    def __init__(
        self, issuer: str, settings: SignInSettings, resources: Resources, verify: Verify, clock: Clock
    ) -> None:
        self._issuer = issuer
        self._settings = settings
        self._resources = resources
        self._verify = verify
        self._clock = clock

    async def read(self, text: str, client: str, asked: Sequence[str]) -> IdentityAssertion:
        """Return the content of an assertion that this client may use; `asked` are the resources of its request. Raises `OAuthError`.

        Whether it was used before is for the caller to find out.
        """
        claims, expires = await self._verified(text)
        if claims.get("aud") not in (self._issuer, [self._issuer]):
            raise _refused(f"its audience is not this authorization server; expected {self._issuer}")
        if claims.get("client_id") != client:
            raise _refused("it was given to another client")
        issued = claims.get("iat")
        if isinstance(issued, bool) or not isinstance(issued, int | float):
            raise _refused("it has no time of issue (iat)")
        if expires - LEEWAY_S > self._clock.now() + _LONGEST_S + LEEWAY_S:
            raise _refused("it is valid for more than an hour")
        scope = claims.get("scope", SCOPE)
        if not isinstance(scope, str) or SCOPE not in scope.split():
            raise OAuthError("invalid_scope", f"the identity assertion has not the scope {SCOPE}")
        return IdentityAssertion(
            id=_text(claims, "jti"),
            claims={
                **{name: value for name, value in claims.items() if name not in _OWN},
                "sub": _text(claims, "sub"),
                "aud": self._settings.client_id,
            },
            resource=self._resource(claims.get("resource"), asked),
            issued=float(issued),
            expires=expires,
        )

    async def _verified(self, text: str) -> tuple[Mapping[str, Any], float]:
        """Return the claims of an assertion that the identity provider signed, and its end. Raises `OAuthError`."""
        try:
            token = read_token(text, _TYPES)
            self._check_issuer(token)
            await self._verify(token)
            return token.claims, check_claims(token.claims, self._clock.now())
        except RefusedTokenError as error:
            found = error.unaccepted
            if found.told is DisclosedReason.UNAVAILABLE:
                raise OAuthError("temporarily_unavailable", found.reason, status=503) from None
            raise _refused(found.reason) from None

    def _check_issuer(self, token: SignedToken) -> None:
        if token.claims.get("iss") != self._settings.issuer:
            raise RefusedTokenError(f"its issuer is not the identity provider of the gateway, {self._settings.issuer}")

    def _resource(self, named: object, asked: Sequence[str]) -> str:
        one = named[0] if isinstance(named, list) and len(named) == 1 else named
        if not isinstance(one, str):
            raise OAuthError(
                "invalid_target", f"the identity assertion has not one resource; expected {self._resources.main}"
            )
        found = self._resources.chosen([one])
        if asked and self._resources.chosen(asked) != found:
            raise OAuthError("invalid_target", f"the identity assertion is for another resource; expected {found}")
        return found


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_TEXT_LENGTH:
        raise _refused(f"its {name} is not a short text")
    return value


def _refused(reason: str) -> OAuthError:
    return OAuthError("invalid_grant", f"the identity assertion is refused: {reason}")
