"""Refresh tokens: the id of a grant, a number that grows with every use, and a MAC over both with the key of the grant.

A token with a used number is a copy (RFC 9700 section 4.14.2). No list of former tokens is needed for that, and a
token that the gateway never made does not count as one.
"""

from __future__ import annotations

import base64
import hmac
import re

from msgspec import Struct

from toolgen.gateway.sign_in.records import SignInGrant

__all__ = ["ReadRefreshToken", "read_refresh_token", "refresh_token"]

_SHAPE = re.compile(r"tgr_([A-Za-z0-9_-]{20,40})\.([0-9]{1,9})\.([A-Za-z0-9_-]{43})\Z")


class ReadRefreshToken(Struct, frozen=True, kw_only=True):
    """Parts of a refresh token. Nothing in it is trusted before it fits a grant."""

    grant: str
    turn: int
    mac: str

    def fits(self, grant: SignInGrant) -> bool:
        """Return True if the gateway made this token, even if it was used already."""
        return hmac.compare_digest(self.mac, _mac(grant, self.turn)) and self.turn <= grant.turn

    def __repr__(self) -> str:
        return "ReadRefreshToken(***)"


def refresh_token(grant: SignInGrant) -> str:
    """Return the current refresh token of a grant."""
    return f"tgr_{grant.id}.{grant.turn}.{_mac(grant, grant.turn)}"


def read_refresh_token(text: str) -> ReadRefreshToken | None:
    """Return the parts of a refresh token; None for any other text."""
    found = _SHAPE.match(text)
    return None if found is None else ReadRefreshToken(grant=found[1], turn=int(found[2]), mac=found[3])


def _mac(grant: SignInGrant, turn: int) -> str:
    made = hmac.digest(grant.key.encode("ascii"), f"{grant.id}.{turn}".encode("ascii"), "sha256")
    return base64.urlsafe_b64encode(made).rstrip(b"=").decode("ascii")
