"""Types of a schema's index as SDL without descriptions, for authors of documents."""

from __future__ import annotations

from collections.abc import Mapping

from toolgen.connectors.http.parameter_styles import UnbindableError
from toolgen.core.spelling import nearest
from toolgen.model.excerpt import bounded
from toolgen.model.graphql_schema import Graph, GraphArgument, GraphType
from toolgen.model.schema import JsonObject

__all__ = ["describe_types"]

_MAX_LENGTH = 60_000


_KINDS = {"object": "type", "input": "input", "interface": "interface"}


def describe_types(graph: Graph, arguments: JsonObject) -> JsonObject:
    """Return `{"sdl": …}` of the types that `arguments` names, or of the root types. Raises `UnbindableError` for an unknown type."""
    given = arguments.get("types")
    names = [str(name) for name in given] if isinstance(given, list) else [graph.query, graph.mutation]
    parts = []
    for name in names:
        if name and name not in graph.types:
            raise UnbindableError(
                f"the schema has no type {bounded(name, 60)!r}{nearest(bounded(name, 60), graph.types)}"
            )
        if name:
            parts.append(_type(name, graph.types[name]))
    text = "\n".join(parts)
    if len(text) > _MAX_LENGTH:
        return {"sdl": text[:_MAX_LENGTH].rpartition("\n")[0], "truncated": True}
    return {"sdl": text}


def _type(name: str, type_: GraphType) -> str:
    match type_.kind:
        case "scalar":
            return f"scalar {name}"
        case "enum":
            return f"enum {name} {{ {' '.join(type_.members)} }}"
        case "union":
            return f"union {name} = {' | '.join(type_.members)}"
        case "input":
            one_of = " @oneOf" if type_.one_of else ""
            lines = [f"  {_argument(key, one)}" for key, one in type_.inputs.items()]
            return "\n".join([f"input {name}{one_of} {{", *lines, "}"])
        case kind:
            implements = f" implements {' & '.join(type_.members)}" if type_.members else ""
            lines = [f"  {key}{_arguments(one.arguments)}: {one.type}" for key, one in type_.fields.items()]
            return "\n".join([f"{_KINDS[kind]} {name}{implements} {{", *lines, "}"])


def _arguments(arguments: Mapping[str, GraphArgument]) -> str:
    return f"({', '.join(_argument(name, one) for name, one in arguments.items())})" if arguments else ""


def _argument(name: str, one: GraphArgument) -> str:
    """Return the SDL of an argument. An argument with a default becomes optional, because the index does not contain the default."""
    return f"{name}: {one.type.removesuffix('!') if one.has_default else one.type}"
