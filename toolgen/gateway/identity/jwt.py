"""JSON Web Tokens, read strictly: an ambiguous token is refused, and nothing in a token decides how the token is checked (RFC 8725)."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping
from enum import Enum, auto
from typing import Any

from msgspec import Struct

from toolgen.core.units import in_words

__all__ = [
    "LEEWAY_S",
    "DisclosedReason",
    "RefusedTokenError",
    "SignedToken",
    "TokenRejected",
    "check_claims",
    "read_token",
]


class DisclosedReason(Enum):
    """Reason of a refusal that the sender of a credential may know. Whether a credential was once valid is not disclosed, because a thief
    could use that."""

    NOTHING = auto()
    UNAVAILABLE = auto()  # it could not be checked now
    SCOPES = auto()  # it is valid, but lacks scopes: its client can request them (RFC 6750, section 3.1)


class TokenRejected(Struct, frozen=True):
    """Refusal of a credential. `reason` is for the operator's log: a fixed sentence, without any part of the credential. `scopes` are the
    required ones, if they may be disclosed."""

    reason: str
    told: DisclosedReason = DisclosedReason.NOTHING
    scopes: frozenset[str] = frozenset()


class RefusedTokenError(Exception):
    """A token that is not accepted; caught where it is verified."""

    def __init__(
        self, reason: str, told: DisclosedReason = DisclosedReason.NOTHING, scopes: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(reason)
        self.unaccepted = TokenRejected(reason, told, scopes)


LEEWAY_S = 60.0
"""Maximum difference between two clocks."""

_SHAPE = re.compile(r"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\Z")
_MAX_LENGTH = 16_384
_MAX_KEY_ID_LENGTH = 256
_TYPES = frozenset(
    {"jwt", "at+jwt", "application/jwt", "application/at+jwt"}
)  # RFC 7519 section 5.1, RFC 9068 section 4
_LATEST = 253_402_300_800  # the year 10000


class SignedToken(Struct, frozen=True, kw_only=True):
    """Token as it was written. Nothing in it is trusted before the signature over `signed` is verified."""

    algorithm: str
    key_id: str
    claims: Mapping[str, Any]
    signed: bytes
    signature: bytes


def read_token(text: str, types: frozenset[str] = _TYPES) -> SignedToken:
    """Read a signed JWT of one of `types` in its compact form (RFC 7515 section 7.1). Raises `RefusedTokenError`.

    Headers with a key (`jwk`, `jku`, `x5c`, `x5u`) are ignored.
    """
    found = _SHAPE.match(text) if len(text) <= _MAX_LENGTH else None
    if found is None:
        raise RefusedTokenError("it is neither a key nor a token")
    header, claims = _object(found[1], "header"), _object(found[2], "payload")
    if "crit" in header or "b64" in header:
        raise RefusedTokenError("its header demands extensions")
    kind = header.get("typ", "JWT")
    if not isinstance(kind, str) or kind.lower() not in types:
        raise RefusedTokenError("its type is not that of such a token")
    key_id = header.get("kid", "")
    if not isinstance(key_id, str) or len(key_id) > _MAX_KEY_ID_LENGTH:
        raise RefusedTokenError("its key id is not a short text")
    algorithm = header.get("alg")
    return SignedToken(
        algorithm=algorithm if isinstance(algorithm, str) else "",
        key_id=key_id,
        claims=claims,
        signed=text[: found.end(2)].encode("ascii"),
        signature=_bytes(found[3]),
    )


def check_claims(claims: Mapping[str, Any], now: float) -> float:
    """Check verified claims against the time, and return their expiry (seconds since the epoch). Raises `RefusedTokenError`."""
    expires = _time(claims, "exp")
    if expires is None:
        raise RefusedTokenError("it never expires")
    if expires + LEEWAY_S <= now:
        raise RefusedTokenError(f"it has expired ({in_words(now - expires)} ago by this machine's clock)")
    for name in ("nbf", "iat"):
        begins = _time(claims, name)
        if begins is not None and begins - LEEWAY_S > now:
            raise RefusedTokenError(
                f"it is not valid yet ({in_words(begins - now)} ahead of this machine's clock, so one of two clocks is wrong)"
            )
    if "cnf" in claims:  # RFC 9449 section 7.1, RFC 8705 section 3: such a token is not a bearer token
        raise RefusedTokenError("it is bound to a key whose possession is not proven here")
    return expires + LEEWAY_S


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if name not in claims:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise RefusedTokenError("one of its times is not a number")
    if not 0 <= value < _LATEST or not math.isfinite(value):
        raise RefusedTokenError("one of its times is not a valid time")
    return float(value)


def _object(text: str, part: str) -> dict[str, Any]:
    """Decode strict JSON: duplicate names are ambiguous, and NaN is no number."""
    try:
        value = json.loads(_bytes(text).decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise RefusedTokenError(f"its {part} is not unambiguous JSON") from error
    if not isinstance(value, dict):
        raise RefusedTokenError(f"its {part} is not a JSON object")
    return value


def _bytes(text: str) -> bytes:
    """Decode base64url without padding, in its canonical form."""
    try:
        found = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except ValueError as error:
        raise RefusedTokenError("it is not base64url") from error
    if base64.urlsafe_b64encode(found).rstrip(b"=") != text.encode("ascii"):
        raise RefusedTokenError("it is not canonical base64url")
    return found


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _refuse_constant(text: str) -> float:
    raise ValueError(text)
