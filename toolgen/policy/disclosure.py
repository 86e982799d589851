"""Disclosure of closed tools: who is told that a tool exists and is not open, in place of being told that there is no such tool."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from msgspec import Struct
from msgspec.structs import replace

from toolgen.model.call import Principal
from toolgen.model.verdict import Deny

__all__ = ["Disclosure", "closed", "disclosed", "not_open", "without_toolsets"]

_ELSEWHERE = "do not look for another way to do it, and say that it is not open to you"


class Disclosure(Struct, frozen=True, kw_only=True):
    """An entry of `disclose:`. `tools` are patterns of names, and `text` says where to ask for access.
    `where` is its place in the policy."""

    roles: frozenset[str]
    tools: tuple[str, ...]
    text: str = ""
    where: str = ""


def disclosed(entries: Iterable[Disclosure], principal: Principal, name: str) -> Disclosure | None:
    """The first entry about a tool that is for this principal; None unless there is one for each whom it acts for, too."""
    fitting = [entry for entry in entries if any(fnmatchcase(name, pattern) for pattern in entry.tools)]
    own: Disclosure | None = None
    party: Principal | None = principal
    while party is not None:
        roles = party.roles
        found = next((entry for entry in fitting if not entry.roles.isdisjoint(roles)), None)
        if found is None:
            return None
        own, party = own or found, party.on_behalf_of
    return own


def closed(name: str, entry: Disclosure) -> Deny:
    """The refusal of a tool that is not open, for a principal that is told so."""
    return Deny(
        rule="default", code="forbidden", reason=f"{name} is not open to this caller", suggestion=not_open(entry)
    )


def not_open(entry: Disclosure) -> str:
    """Return the suggestion for a caller whose tool is not open."""
    return f"{_ELSEWHERE}; {entry.text}" if entry.text else _ELSEWHERE


def without_toolsets(principal: Principal) -> Principal:
    """A principal that did not ask for toolsets, nor did those that it acts for: what these leave out is not closed to it."""
    user = principal.on_behalf_of
    return replace(principal, toolsets=frozenset(), on_behalf_of=None if user is None else without_toolsets(user))
