"""Disclosure of closed tools: some callers are told that a tool exists but is closed to them, instead of "there is no such tool"."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

from msgspec import Struct
from msgspec.structs import replace

from toolgen.model.call import Principal
from toolgen.model.verdict import Deny

__all__ = ["Disclosure", "closed", "disclosed", "not_open", "without_toolsets"]

_ELSEWHERE = "do not try to reach the same result in another way; report that this tool is closed to you"


class Disclosure(Struct, frozen=True, kw_only=True):
    """Entry of `disclose:`. `tools` are patterns of names, and `text` says where to ask for access. `where` is its place in the policy."""

    roles: frozenset[str]
    tools: tuple[str, ...]
    text: str = ""
    where: str = ""


def disclosed(entries: Iterable[Disclosure], principal: Principal, name: str) -> Disclosure | None:
    """Return the first entry about a tool that covers this principal; None unless an entry covers each user that it acts for, too."""
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
    """Return the refusal of a closed tool for a principal to which the policy discloses it."""
    return Deny(
        rule="default", code="forbidden", reason=f"{name} is not open to this caller", suggestion=not_open(entry)
    )


def not_open(entry: Disclosure) -> str:
    """Return the suggestion for a caller whose tool is not open."""
    return f"{_ELSEWHERE}; {entry.text}" if entry.text else _ELSEWHERE


def without_toolsets(principal: Principal) -> Principal:
    """Return the principal without toolsets, also for the users it acts for: tools that only its own choice of toolsets leaves out are not
    closed to it."""
    user = principal.on_behalf_of
    return replace(principal, toolsets=frozenset(), on_behalf_of=None if user is None else without_toolsets(user))
