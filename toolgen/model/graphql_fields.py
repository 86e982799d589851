"""Fields of a GraphQL schema that a tool's answer can have: those of its type, of the types it wraps, and of each member of a union."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from toolgen.model.graphql_schema import Graph, GraphField, GraphType, named
from toolgen.model.tool import Tool

__all__ = ["answer_fields"]

_MAX_TYPES: Final = 12
_MAX_LENGTH: Final = 6_000  # characters of all types together
_WRAPPERS: Final = frozenset({"edges", "nodes", "node"})


def answer_fields(tool: Tool, graph: Graph) -> list[str]:
    """Return `Order: id: ID!, lines(first: Int): LineConnection, …` for each type that the tool's argument for fields can select from.

    Types nearest to the root come first, within 6,000 characters; the others are counted. Empty for a tool without such an argument.
    """
    first = tool.binding.answer_type(graph) if tool.selects_fields and tool.binding.code_argument else ""
    if not first:
        return []
    found: list[str] = []
    room = _MAX_LENGTH
    for name in _types(graph, first, deeper=not tool.binding.is_query):
        line = _line(name, graph.types[name], room)
        if room - len(line) < 0:
            break
        room -= len(line)
        found.append(line)
    return found


def _types(graph: Graph, first: str, *, deeper: bool) -> Iterator[str]:
    """Return the relevant types: the answer's, those behind pages and unions, and of a mutation the objects of its payload."""
    waiting = [(first, deeper)]
    seen = {first}
    for count, (name, inside) in enumerate(waiting):
        type_ = graph.types.get(name)
        if type_ is None or count >= _MAX_TYPES:
            return
        if type_.fields and name not in graph.roots:
            yield name
        members = type_.members if type_.kind == "union" else ()
        if type_.kind == "interface":
            members = tuple(other for other, one in graph.types.items() if one.kind == "object" and name in one.members)
        wrapped = [
            named(field.type)
            for key, field in type_.fields.items()
            if key in _WRAPPERS or (inside and graph.types.get(named(field.type), type_).fields)
        ]
        for other in (*members, *wrapped):
            if other not in seen and other not in graph.roots:
                seen.add(other)
                # Members of a mutation's payload contain the object; describe_types shows objects of the object.
                waiting.append((other, inside and other in members))


def _line(name: str, type_: GraphType, room: int) -> str:
    """Return the fields of one type, as many as fit."""
    text = f"{name}: "
    for count, (key, field) in enumerate(type_.fields.items()):
        one = _field(key, field)
        if len(text) + len(one) + 20 > room:
            return f"{text}and {len(type_.fields) - count} more"
        text += one if not count else f", {one}"
    return text


def _field(name: str, field: GraphField) -> str:
    arguments = ", ".join(
        f"{key}: {one.type.removesuffix('!') if one.has_default else one.type}" for key, one in field.arguments.items()
    )
    return f"{name}({arguments}): {field.type}" if arguments else f"{name}: {field.type}"
