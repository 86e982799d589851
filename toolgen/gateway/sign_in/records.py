"""Records of the authorization server. Each is encrypted in the store, and its printed form does not show its content."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from toolgen.state.sign_in import StoredRecord

__all__ = [
    "KINDS",
    "SCOPE",
    "AuthorizationAttempt",
    "ConsentQuestion",
    "HostedClient",
    "IssuedCode",
    "RememberedConsent",
    "SignInGrant",
    "TokenSigningKey",
    "TokenSigningKeys",
    "UsedAssertion",
]

SCOPE = "mcp"
"""Only scope: to call tools, as far as the policy permits the person."""


class HostedClient(StoredRecord, frozen=True, kw_only=True):
    """Client of the authorization server. `secrets` are the SHA-256 of those that it may use now, and `secret` that of a client that
    registered itself; both are empty for a public client.

    `document`: its id is the address of its metadata, and `host` the host of that address. `configured`: the settings have it, and
    `jwks_uri` may be a path. `principal` is the principal of the policy that it is when it acts for itself, "" for none.
    """

    id: str
    name: str
    redirects: tuple[str, ...]
    method: str
    secret: str = ""
    grants: tuple[str, ...] = ("authorization_code",)
    jwks: dict[str, Any] | None = None
    jwks_uri: str = ""
    document: bool = False
    host: str = ""
    configured: bool = False
    secrets: tuple[str, ...] = ()
    principal: str = ""


class AuthorizationAttempt(StoredRecord, frozen=True, kw_only=True):
    """Valid authorization request of a client, while the person is at the identity provider.

    `idp_state`, `nonce` and `verifier` are of the gateway's own request there. `max_age` is the time in seconds since which the person must
    have authenticated, -1 for any.
    """

    client: str
    redirect: str
    state: str
    challenge: str
    resource: str
    idp_state: str
    nonce: str
    verifier: str
    max_age: int = -1


class ConsentQuestion(StoredRecord, frozen=True, kw_only=True):
    """Question to a person who has signed in: may this client act as them? `form_token` is the token of the form."""

    attempt: AuthorizationAttempt
    principal: str
    claims: dict[str, Any]
    form_token: str
    at: float
    id_token: str = ""


class SignInGrant(StoredRecord, frozen=True, kw_only=True):
    """Permission of a person for a client, for one resource. All tokens of one sign-in belong to one grant.

    `claims` are those of the id token. `key` authenticates refresh tokens, of which the one with the number `turn` is the current one;
    it became that at the time `turned`.
    `at` is the time of the sign-in, `expires` its end. `id_token` is what the person proves themselves with at systems that accept
    assertions of the identity provider, "" if no source needs it.
    """

    id: str
    client: str
    client_name: str
    principal: str
    claims: dict[str, Any]
    resource: str
    at: float
    expires: float
    key: str
    turn: int = 0
    turned: float = 0.0
    id_token: str = ""

    @property
    def person(self) -> str:
        """Return the issuer and subject of the person."""
        return f"{self.claims.get('iss', '')}\0{self.claims.get('sub', '')}"

    def is_over(self, now: float) -> bool:
        """Return True if the person has to sign in again."""
        return self.expires <= now


class IssuedCode(StoredRecord, frozen=True, kw_only=True):
    """Authorization code, found by its digest. `used` is the id of the grant that it was exchanged for, "" before."""

    client: str
    redirect: str
    challenge: str
    resource: str
    principal: str
    claims: dict[str, Any]
    at: float
    used: str = ""
    id_token: str = ""


class RememberedConsent(StoredRecord, frozen=True, kw_only=True):
    """Consent of a person to one client, redirect URI and resource. The last two are empty in those of former versions."""

    client: str
    at: float
    redirect: str = ""
    resource: str = ""


class UsedAssertion(StoredRecord, frozen=True, kw_only=True):
    """Assertion of a client (RFC 7523) that was used."""

    client: str


class TokenSigningKey(Struct, frozen=True, kw_only=True):
    """Key that tokens are signed with, as PKCS #8 in PEM. It signs from `begins` on, and is published until `ends` (0: no end yet)."""

    id: str
    pem: str
    begins: float
    ends: float = 0.0

    def __repr__(self) -> str:
        return f"TokenSigningKey({self.id})"


class TokenSigningKeys(StoredRecord, frozen=True, kw_only=True):
    """Signing keys, the newest last."""

    keys: tuple[TokenSigningKey, ...]


KINDS: tuple[type[StoredRecord], ...] = (
    HostedClient,
    AuthorizationAttempt,
    ConsentQuestion,
    SignInGrant,
    IssuedCode,
    RememberedConsent,
    UsedAssertion,
    TokenSigningKeys,
)
"""Kinds of records, for the rotation of key-encryption keys."""
