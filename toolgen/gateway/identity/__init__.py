"""Who calls: a credential in, a verified principal out, or why there is none."""

from toolgen.gateway.identity.key_sets import KeySets
from toolgen.gateway.identity.outcome import Told, Unaccepted
from toolgen.gateway.identity.principals import Identity

__all__ = ["Identity", "KeySets", "Told", "Unaccepted"]
