"""Access tokens that the gateway issued itself, after the company's identity provider identified the person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import Struct

from toolgen.gateway.identity.jwt import SignedToken
from toolgen.model.call import CredentialProof
from toolgen.model.secret import Secret

__all__ = ["IssuedToken", "IssuedTokens"]


class IssuedToken(Struct, frozen=True, kw_only=True):
    """Access token that is valid now. `claims` are those of the person's id token, with the client as `client_id`.

    `expires` is the time until which it need not be read again, in seconds since the epoch. `toolsets` narrow the caller. `principal` is
    the principal of the policy that the client itself is, "" if it acts for a person. `id_token` is that of the person, while it is valid
    and some source needs it.
    """

    claims: Mapping[str, Any]
    proof: CredentialProof
    expires: float
    toolsets: frozenset[str] = frozenset()
    principal: str = ""
    id_token: Secret | None = None

    def __repr__(self) -> str:
        return "IssuedToken(***)"


class IssuedTokens(Protocol):
    """Access tokens of one issuer, which is the gateway. A protocol, because gateway/sign_in implements it and imports identity."""

    @property
    def issuer(self) -> str:
        """Issuer of the tokens."""

    async def read(self, token: SignedToken) -> IssuedToken:
        """Return the content of a valid token. Raises `RefusedTokenError`."""

    def principal_of(self, client: str) -> str:
        """Return the principal of the policy that a client is when it acts for itself; "" for any other client."""
