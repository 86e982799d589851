"""Claims of a verified token: check that the token is meant for its use, and derive the values by which it can be revoked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolgen.gateway.identity.jwt import DisclosedReason, RefusedTokenError
from toolgen.model.call import CredentialProof
from toolgen.policy.credentials import TokenRule, audience_fits, scopes_of

__all__ = ["accepts", "proof_of"]


def accepts(rule: TokenRule, claims: Mapping[str, Any], *, sign_in: bool) -> bool:
    """Return True if a token is meant for its use (audience). Raises `RefusedTokenError` if it lacks a scope."""
    if not audience_fits(rule.sign_in if sign_in else rule.audience, claims):
        return False
    # An id token is only for its client, and has no scopes of this gateway.
    if not sign_in and not rule.scopes <= scopes_of(claims):
        raise RefusedTokenError("it lacks a scope that the policy requires", DisclosedReason.SCOPES, rule.scopes)
    return True


def proof_of(claims: Mapping[str, Any]) -> CredentialProof:
    """Return the values by which a verified token can be revoked."""
    issued, jwt_id = claims.get("iat"), claims.get("jti")
    return CredentialProof(
        issuer=str(claims.get("iss", "")),
        subject=str(claims.get("sub", "")),
        jwt_id=jwt_id if isinstance(jwt_id, str) else "",
        issued=float(issued) if isinstance(issued, int | float) else None,
    )
