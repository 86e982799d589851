"""Grants of values for tokens: which tools receive which values in place of their tokens, and for which callers. The default is none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

from msgspec import Struct

from toolgen.model.call import Principal
from toolgen.model.tool import Tool

__all__ = ["TokenGrant", "may_have"]


class TokenGrant(Struct, frozen=True, kw_only=True):
    """Grant: values of these kinds are put into calls of these tools by callers with one of the roles: into these arguments (names of the
    top level), or into any if there are none. `where` is its place in the policy."""

    tools: tuple[str, ...]
    kinds: frozenset[str]
    roles: frozenset[str]
    arguments: frozenset[str] = frozenset()
    where: str = ""

    def covers(self, tool: Tool) -> bool:
        """Return True if the grant covers a tool."""
        return any(fnmatchcase(tool.name, pattern) for pattern in self.tools)

    def said(self) -> Mapping[str, list[str]]:
        """Return the grant as data: kinds, roles and arguments."""
        return {"kinds": sorted(self.kinds), "roles": sorted(self.roles), "arguments": sorted(self.arguments)}


def may_have(grants: Iterable[TokenGrant], principal: Principal, tool: Tool, argument: str, kind: str) -> bool:
    """Return True if an argument of a call may have a value of this kind: for its caller, and for everyone that the caller acts for."""
    fitting = [
        grant
        for grant in grants
        if kind in grant.kinds and (not grant.arguments or argument in grant.arguments) and grant.covers(tool)
    ]
    party: Principal | None = principal
    while party is not None:
        if not any(grant.roles & party.roles for grant in fitting):
            return False
        party = party.on_behalf_of
    return True
