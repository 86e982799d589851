"""Why a credential leads to nobody."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

__all__ = ["RefusedTokenError", "Told", "Unaccepted"]


class Told(Enum):
    """What whoever showed a credential may know of it. That one was good once is worth knowing to whoever found it somewhere."""

    NOTHING = auto()
    UNAVAILABLE = auto()  # it could not be checked now, whether it is good or not


@dataclass(frozen=True, slots=True)
class Unaccepted:
    """No principal. `reason` is for the operator's log: a fixed sentence, with nothing in it that came with the credential."""

    reason: str
    told: Told = Told.NOTHING


class RefusedTokenError(Exception):
    """A token that is not accepted; caught where it is verified."""

    def __init__(self, reason: str, told: Told = Told.NOTHING) -> None:
        super().__init__(reason)
        self.unaccepted = Unaccepted(reason, told)
