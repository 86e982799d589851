"""Names of tools for root fields: `country` is `get_country`, `countries` `list_countries`, `addReview` `add_review`."""

from __future__ import annotations

from toolgen.connectors.naming import words

__all__ = ["candidates", "title_of"]

# A query name that begins with one of these verbs is already complete.
_VERBS = frozenset(
    {
        "aggregate",
        "calculate",
        "check",
        "compare",
        "count",
        "describe",
        "estimate",
        "evaluate",
        "export",
        "fetch",
        "filter",
        "find",
    }
    | {
        "get",
        "has",
        "is",
        "list",
        "load",
        "lookup",
        "match",
        "preview",
        "query",
        "read",
        "resolve",
        "retrieve",
        "search",
        "show",
    }
    | {"validate", "verify"}
)


def candidates(field: str, *, kind: str, many: bool) -> tuple[tuple[str, ...], ...]:
    """Return names for a root field as words, best first. `kind` is query or mutation; `many` is True for a list or a connection."""
    found = words(field) or (kind,)
    if kind == "subscription":
        return (("watch", *found), ("watch", *found, kind))
    if kind == "query" and found[0] not in _VERBS:
        found = ("list" if many else "get", *found)
    return (found, (*found, kind))


def title_of(best: tuple[str, ...]) -> str:
    """Return `get_country` as a title: `Get country`."""
    return " ".join(best).capitalize()
