"""Named sets of tools: what an audience may see at most, and what a caller may narrow itself to. A set never adds anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Toolset", "audience"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolset:
    """The names of the tools in a set, and the roles that see no tool outside of their sets."""

    tools: frozenset[str]
    roles: frozenset[str]


def audience(toolsets: Mapping[str, Toolset], roles: frozenset[str]) -> frozenset[str] | None:
    """The tools that principals with these roles may see at most, or None where no set is theirs."""
    mine = [toolset.tools for toolset in toolsets.values() if toolset.roles & roles]
    return frozenset().union(*mine) if mine else None
