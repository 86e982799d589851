"""Names that the paths of a policy end with, and the names to look for in answers with aliases. GraphQL documents are read by
`connectors/graphql/hidden_fields.py`, which is imported only if a project has a GraphQL source.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["behind_aliases", "last_names"]

_NAME = re.compile(r"\.([A-Za-z_][A-Za-z0-9_-]*)|'([^'\\]*)'|\"([^\"\\]*)\"")
_QUOTED = re.compile(r"'([^'\\]*)'|\"([^\"\\]*)\"")


def behind_aliases(path: str, aliases: Mapping[str, frozenset[str]]) -> tuple[str, ...]:
    """Return the additional JSONPaths that match a path in answers with these aliases.

    There are none for a path without aliased names. Otherwise the last name of the path, and each of its aliases, matches anywhere in the
    answer. A path that ends in no name, or has a filter (which may test an alias), matches the whole answer.
    """
    aliased = frozenset().union(*aliases.values())
    if aliased.isdisjoint(_names(path)):
        return ()
    ends = last_names(path)
    if ends is None:
        return ("$",)
    return tuple(f"$..{name}" for name in sorted({*ends, *(alias for alias, names in aliases.items() if names & ends)}))


def last_names(path: str) -> frozenset[str] | None:
    """Return the names at the end of a JSONPath, before any indexes and wildcards; None if it has a filter or no name."""
    if "?" in path:
        return None
    cut = re.sub(r"(\[[-0-9:*, ]*\]|\.\*)+\Z", "", path)
    if cut.endswith("]"):
        names = frozenset(one[0] or one[1] for one in _QUOTED.findall(cut[cut.rindex("[") :]))
    else:
        names = frozenset(_names(cut)[-1:])
    return names or None


def _names(path: str) -> list[str]:
    return ["".join(one) for one in _NAME.findall(path)]
