"""Whose credentials a source is called with: those that the policy gives to a role, in place of the source's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from toolgen.model.call import Principal

__all__ = ["Assignment", "assigned"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One entry of `credentials:`. `use` is what `auth:` of the source would say: references by the security scheme's name.

    `exchanges`: some of it is had for the token that the caller came with.
    """

    source: str
    roles: frozenset[str]
    use: Mapping[str, object]
    exchanges: bool


def assigned(entries: tuple[Assignment, ...], source: str, principal: Principal) -> Mapping[str, object] | None:
    """What the first entry for this source gives to a caller, or None: then the source's own credentials are used.

    Somebody who acts for another has to have one of the entry's roles, and so has the other: nobody borrows credentials through whoever
    it acts for.
    """
    for entry in entries:
        if entry.source == source and _has(principal, entry.roles):
            return entry.use
    return None


def _has(principal: Principal, roles: frozenset[str]) -> bool:
    party: Principal | None = principal
    while party is not None:
        if roles.isdisjoint(party.roles):
            return False
        party = party.on_behalf_of
    return True
