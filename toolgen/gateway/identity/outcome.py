"""Why a credential leads to nobody."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

__all__ = ["RefusedTokenError", "Told", "Unaccepted"]


class Told(Enum):
    """What whoever showed a credential may know of it. That one was good once is worth knowing to whoever found it somewhere."""

    NOTHING = auto()
    UNAVAILABLE = auto()  # it could not be checked now, whether it is good or not
    SCOPES = auto()  # it is good, but for the scopes it lacks: its client can ask for them (RFC 6750, section 3.1)


@dataclass(frozen=True, slots=True)
class Unaccepted:
    """No principal. `reason` is for the operator's log: a fixed sentence, with nothing in it that came with the credential. `scopes` are
    what it would have had to have, where that is told."""

    reason: str
    told: Told = Told.NOTHING
    scopes: frozenset[str] = frozenset()


class RefusedTokenError(Exception):
    """A token that is not accepted; caught where it is verified."""

    def __init__(self, reason: str, told: Told = Told.NOTHING, scopes: frozenset[str] = frozenset()) -> None:
        super().__init__(reason)
        self.unaccepted = Unaccepted(reason, told, scopes)
