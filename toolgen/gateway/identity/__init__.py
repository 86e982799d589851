"""Identity of callers: verification of credentials, which returns a principal or the reason for a refusal."""

from toolgen.gateway.identity.jwks import KeySets
from toolgen.gateway.identity.jwt import DisclosedReason, TokenRejected
from toolgen.gateway.identity.principals import NO_CLAIMS, Claims, Identity

__all__ = ["NO_CLAIMS", "Claims", "DisclosedReason", "Identity", "KeySets", "TokenRejected"]
