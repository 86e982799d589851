"""Identity of callers: a credential in, a verified principal out, or why there is none."""

from toolgen.gateway.identity.jwks import KeySets
from toolgen.gateway.identity.jwt import DisclosedReason, TokenRejected
from toolgen.gateway.identity.principals import NO_CLAIMS, Claims, Identity

__all__ = ["NO_CLAIMS", "Claims", "DisclosedReason", "Identity", "KeySets", "TokenRejected"]
