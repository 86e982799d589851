"""Page of API keys and other credentials: made, used, about to expire, expired or revoked. It never shows a key itself."""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct

from toolgen.core.errors import ConfigError
from toolgen.frontends.console.http import ActionResult, Visit
from toolgen.frontends.http.request import Response
from toolgen.gateway.identity.key_revocation import revoke_key
from toolgen.policy.credentials import ApiKey, PolicyCredentials

__all__ = ["ApiKeyView", "keys_of", "listed", "revoke"]

_SOON_S = 14 * 86_400.0
_ORDER = ("expiring", "accepted", "expired", "revoked")


class ApiKeyView(Struct, frozen=True, kw_only=True):
    """API key as the console shows it. Times are seconds since the epoch, None if unknown or absent."""

    id: str
    principal: str
    state: str
    created: float | None
    expires: float | None
    used: float | None
    where: str


async def listed(visit: Visit) -> Response:
    """GET /console/keys"""
    given = visit.request.parameters("done", "principal")
    return await _page(visit, only=given.get("principal", ""), notice=visit.done_notice(given.get("done", "")))


async def revoke(visit: Visit) -> Response:
    """POST /console/keys/revoke: revokes a key, for all gateways."""
    visit.request.parameters()
    key_id = visit.form.get("key", "")
    try:
        owner = await revoke_key(visit.gateway, key_id, by=visit.person.principal.id, client="console")
    except ConfigError as error:
        return await _page(visit, status=409, notice=ActionResult("Not revoked", error.message, kind="bad"))
    return visit.done("/console/keys", "revoked", f"key {key_id} of {owner}")


async def _page(visit: Visit, *, status: int = 200, only: str = "", notice: ActionResult | None = None) -> Response:
    await visit.gateway.monitoring.history.note()
    credentials = visit.gateway.policy.credentials
    found = keys_of(credentials, await visit.gateway.monitoring.history.seen.uses(), visit.now)
    found = tuple(key for key in found if only in {"", key.principal})
    return visit.page(
        "keys.html",
        at="keys",
        status=status,
        notice=notice,
        only=only,
        keys=found,
        counts={state: sum(key.state == state for key in found) for state in _ORDER},
        others=_others(credentials),
        revoked_principals={
            name: None if before == math.inf else before for name, before in credentials.revoked_principals.items()
        },
        revoked_tokens=credentials.revocations,
        revoked_certificates=credentials.revoked_certificates,
    )


def keys_of(credentials: PolicyCredentials, uses: Mapping[str, float], now: float) -> tuple[ApiKeyView, ...]:
    """Return all keys; those that need attention come first."""
    revoked = credentials.keys_revoked()
    found = [
        ApiKeyView(
            id=key.id,
            principal=name,
            state=_state(key.sha256 in revoked, key.expires, now),
            created=key.created,
            expires=key.expires,
            used=uses.get(key.id),
            where=key.where,
        )
        for name, entry in credentials.principals.items()
        for key in entry.keys
    ]
    gone = {ApiKey(sha256=text).id: text for text in credentials.revoked_keys}
    listed_ids = {key.id for key in found}
    found += [
        ApiKeyView(
            id=name,
            principal=credentials.revoked_owners.get(text, ""),
            state="revoked",
            created=None,
            expires=None,
            used=uses.get(name),
            where="",
        )
        for name, text in gone.items()
        if name not in listed_ids
    ]
    return tuple(
        sorted(found, key=lambda key: (_ORDER.index(key.state), key.expires or math.inf, key.principal, key.id))
    )


def _state(revoked: bool, expires: float | None, now: float) -> str:
    if revoked:
        return "revoked"
    if expires is None or expires > now + _SOON_S:
        return "accepted"
    return "expiring" if expires > now else "expired"


def _others(credentials: PolicyCredentials) -> tuple[tuple[str, str], ...]:
    """Return the principals with another credential than a key, and its kind."""
    found = []
    for name, entry in sorted(credentials.principals.items()):
        if entry.token is not None:
            found.append((name, f"a token of {entry.token.issuer} with the subject {entry.subject}"))
        if entry.certificate is not None:
            what = entry.certificate.subject or f"one of {len(entry.certificate.fingerprints)} fingerprints"
            found.append((name, f"a client certificate: {what}"))
    issuers = sorted(credentials.issuers.values(), key=lambda issuer: issuer.name)
    found += [(f"{issuer.name}:…", f"a token of {issuer.token.issuer}") for issuer in issuers]
    return tuple(found)
