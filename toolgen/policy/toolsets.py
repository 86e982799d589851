"""Toolsets: named sets of tools that limit what some roles can see, and that a caller may select to narrow its own view. A set grants
nothing."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

__all__ = ["NO_TOOLSETS", "Toolset", "audience"]


class Toolset(Struct, frozen=True, kw_only=True):
    """Names of the tools in a set, and the roles that see only the tools in their sets. `context` are the reads of its prompts and
    resources."""

    tools: frozenset[str]
    roles: frozenset[str]
    context: frozenset[str] = frozenset()


def audience(toolsets: Mapping[str, Toolset], roles: frozenset[str]) -> frozenset[str] | None:
    """Return the tools that principals with these roles may see at most, or None if no set limits them."""
    mine = [toolset.tools for toolset in toolsets.values() if toolset.roles & roles]
    return frozenset().union(*mine) if mine else None


NO_TOOLSETS: Mapping[str, Toolset] = MappingProxyType({})
