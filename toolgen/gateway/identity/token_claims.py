"""What the claims of a verified token say: whether it is meant for what it is shown for, and what it can be revoked by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolgen.gateway.identity.jwt import DisclosedReason, RefusedTokenError
from toolgen.model.call import CredentialProof
from toolgen.policy.credentials import TokenRule, audience_fits, scopes_of

__all__ = ["accepts", "proof_of"]


def accepts(rule: TokenRule, claims: Mapping[str, Any], *, sign_in: bool) -> bool:
    """Whether a token is meant for what it is shown for. Raises `RefusedTokenError` for one that lacks a scope."""
    if not audience_fits(rule.sign_in if sign_in else rule.audience, claims):
        return False
    # An id token is for its client alone, which was given no scope of ours by it.
    if not sign_in and not rule.scopes <= scopes_of(claims):
        raise RefusedTokenError("it lacks a scope that the policy asks for", DisclosedReason.SCOPES, rule.scopes)
    return True


def proof_of(claims: Mapping[str, Any]) -> CredentialProof:
    """What a verified token can be revoked by."""
    issued, jwt_id = claims.get("iat"), claims.get("jti")
    return CredentialProof(
        issuer=str(claims.get("iss", "")),
        subject=str(claims.get("sub", "")),
        jwt_id=jwt_id if isinstance(jwt_id, str) else "",
        issued=float(issued) if isinstance(issued, int | float) else None,
    )
