"""Messages about unknown fields of a type: all of a selection, the known names, and the member of a union that has the field."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import Final

from toolgen.core.spelling import nearest
from toolgen.model.excerpt import bounded
from toolgen.model.graphql_schema import Graph, GraphType

__all__ = ["unknown_field", "unknown_fields"]

_TYPENAME: Final = "__typename"
_MAX_LENGTH: Final = 60
_MAX_NAMES: Final = 20  # known fields suggested for an unknown one
_MAX_UNKNOWN: Final = 10  # unknown fields reported for one selection
_MAX_NAMED: Final = 3  # members of a union


def unknown_fields(graph: Graph, type_: str, asked: Sequence[str], possible: Collection[str]) -> str:
    """Describe a selection with two or more fields that its type does not have; "" for any other selection."""
    known = graph.types[type_]
    unknown = [name for name in dict.fromkeys(asked) if name not in known.fields and name != _TYPENAME]
    if len(unknown) < 2 or "pageInfo" in known.fields:
        return ""
    names = (
        f"{bounded(name, _MAX_LENGTH)!r}{nearest(bounded(name, _MAX_LENGTH), known.fields)}"
        for name in unknown[:_MAX_UNKNOWN]
    )
    more = f" and {len(unknown) - _MAX_UNKNOWN} more" if len(unknown) > _MAX_UNKNOWN else ""
    has = _listed(known, "") if known.fields else ""
    return f"{type_} has no fields {', '.join(names)}{more}{has}{_of_members(graph, type_, unknown[0], possible)}"


def unknown_field(graph: Graph, type_: str, name: str, possible: Collection[str]) -> str:
    """Describe an unknown field and suggest another in its place. `possible` are the object types that the type can stand for."""
    name = bounded(name, _MAX_LENGTH)
    return (
        f"{type_} has no field {name!r}{_instead(graph.types[type_], name)}{_of_members(graph, type_, name, possible)}"
    )


def _of_members(graph: Graph, type_: str, name: str, possible: Collection[str]) -> str:
    """Name the possible objects of a union or an interface that have a field that it lacks."""
    having = [one for one in sorted(possible) if one != type_ and name in graph.types[one].fields]
    if not having:
        return ""
    some = f"{', '.join(having[:_MAX_NAMED])} {'has' if len(having) == 1 else 'have'} {bounded(name, _MAX_LENGTH)}"
    return f"; {some}: write ... on {having[0]} {{ {bounded(name, _MAX_LENGTH)} }}"


def _instead(type_: GraphType, name: str) -> str:
    """Suggest fields in place of an unknown one."""
    fields = ", ".join([*type_.fields][:_MAX_NAMES])
    if "pageInfo" in type_.fields:
        inner = next((one for one in ("nodes", "edges") if one in type_.fields), "")
        written = {"nodes": ": write nodes { id }", "edges": ": write edges { node { id } }"}.get(inner, "")
        return f": it is a page, with the fields {fields}{written}"
    return nearest(name, type_.fields) or (_listed(type_, name) if fields else "")


def _listed(type_: GraphType, name: str) -> str:
    """Return `: it has a, b and 34 more`, with the names most similar to a name first."""
    alike = get_close_matches(name, type_.fields, n=_MAX_NAMES, cutoff=0.5) if name else []
    names = list(dict.fromkeys((*alike, *type_.fields)))
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return f": it has {', '.join(names[:_MAX_NAMES])}{more}"
