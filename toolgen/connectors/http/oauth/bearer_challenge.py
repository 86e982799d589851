"""Challenge of a server that refuses a token: its parameters (RFC 6750 section 3, RFC 9449 section 7.1), and what it asks for beyond the
token."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from toolgen.model.account_need import NO_DEMAND, AccountDemand

__all__ = ["challenge_error", "challenge_parameters", "demand_of", "missing_scopes"]

_MAX_LENGTH: Final = 4096
_MAX_SCOPES: Final = 20
_MAX_CLASSES: Final = 10
_MAX_AGE_S: Final = 366 * 86_400
# A parameter: a token, or a quoted string with its escapes (RFC 9110, section 11.2).
_PARAMETER = re.compile(r'(?<![^\s,])([A-Za-z_]{1,40})\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))')
_SCHEME = re.compile(r"(?:\A|,)\s*(?:bearer|dpop)(?=\s)", re.IGNORECASE)
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,128}\Z")  # RFC 6749, section 3.3


def challenge_parameters(header: str) -> Mapping[str, str] | None:
    """Return the parameters of the Bearer or DPoP challenge of a `WWW-Authenticate` header; None if there is none that can be read."""
    if len(header) > _MAX_LENGTH or not header.isprintable() or (scheme := _SCHEME.search(header)) is None:
        return None
    return {
        name.lower(): re.sub(r"\\(.)", r"\1", quoted) if quoted else plain
        for name, quoted, plain in _PARAMETER.findall(header[scheme.end() :])
    }


def challenge_error(header: str) -> str:
    """Return the error code of a challenge, "" without one."""
    return (challenge_parameters(header) or {}).get("error", "")


def missing_scopes(header: str) -> tuple[str, ...]:
    """Return the scopes that a request needed and its token did not have (`insufficient_scope`); () if the header reports
    another error, or has too many or invalid scopes."""
    found = challenge_parameters(header)
    if found is None or found.get("error") != "insufficient_scope":
        return ()
    scopes = tuple(dict.fromkeys(found.get("scope", "").split()))
    return scopes if len(scopes) <= _MAX_SCOPES and all(_SCOPE.match(one) for one in scopes) else ()


def demand_of(header: str) -> AccountDemand:
    """Return what a challenge asks for: scopes, or another authentication of the person (RFC 9470 section 3); nothing if it reports another
    error, or cannot be read."""
    found = challenge_parameters(header)
    if found is None or found.get("error") != "insufficient_user_authentication":
        return AccountDemand(scopes=missing_scopes(header))
    classes = tuple(dict.fromkeys(found.get("acr_values", "").split()))
    if len(classes) > _MAX_CLASSES or not all(_SCOPE.match(one) for one in classes):
        return NO_DEMAND
    age = found.get("max_age", "" if classes else "0")  # without either, a new authentication is all that may help
    if age and not (age.isascii() and age.isdigit() and len(age) <= 9 and int(age) <= _MAX_AGE_S):
        return NO_DEMAND
    return AccountDemand(acr_values=classes, max_age=int(age) if age else -1)
