"""Toolsets: named sets of tools that bound what an audience may see, and to which a caller may narrow itself. A set grants nothing."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

__all__ = ["NO_TOOLSETS", "Toolset", "audience"]


class Toolset(Struct, frozen=True, kw_only=True):
    """The names of the tools in a set, and the roles that see no tool outside of their sets. `context` are the reads of its prompts and
    resources."""

    tools: frozenset[str]
    roles: frozenset[str]
    context: frozenset[str] = frozenset()


def audience(toolsets: Mapping[str, Toolset], roles: frozenset[str]) -> frozenset[str] | None:
    """The tools that principals with these roles may see at most, or None where no set is theirs."""
    mine = [toolset.tools for toolset in toolsets.values() if toolset.roles & roles]
    return frozenset().union(*mine) if mine else None


NO_TOOLSETS: Mapping[str, Toolset] = MappingProxyType({})
