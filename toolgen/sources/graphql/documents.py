"""The tools of a schema that is open to documents agents write: its types to read, a query to run, and a mutation."""

from __future__ import annotations

from graphql import GraphQLSchema

from toolgen.model.schema import Schema
from toolgen.model.tool import Effect, GraphQLDocumentBinding, GraphQLSchemaBinding, Tool, seal
from toolgen.sources.base import SourceConfig
from toolgen.sources.graph_options import QueryLimits

__all__ = ["document_names", "make_document_tools"]

LONGEST_DOCUMENT = 20_000
_TYPES, _QUERY, _MUTATION = "schema", "schema#query", "schema#mutation"  # what their origins are
_TYPES_INPUT: Schema = {
    "type": "object",
    "properties": {
        "types": {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 1,
            "maxItems": 20,
            "description": "Names of types; without them, the root types",
        }
    },
    "additionalProperties": False,
}


def document_names(config: SourceConfig, schema: GraphQLSchema) -> dict[str, tuple[tuple[str, ...], ...]]:
    """What these tools may be called, best first, by origin; none where toolgen.yaml does not open the schema."""
    if config.graph.queries is None or schema.query_type is None:
        return {}
    names: dict[str, tuple[tuple[str, ...], ...]] = {_TYPES: (("describe", "types"), ("describe", "schema", "types"))}
    names[_QUERY] = (("run", "query"), ("run", "query", "document"))
    if schema.mutation_type is not None:
        names[_MUTATION] = (("run", "mutation"), ("run", "mutation", "document"))
    return names


def make_document_tools(
    config: SourceConfig, endpoint: str, schema: GraphQLSchema, names: dict[str, str]
) -> tuple[Tool, ...]:
    """The tools themselves. Running a mutation is destructive, so a policy has to say outright that somebody may."""
    limits = config.graph.queries
    if limits is None or _QUERY not in names:
        return ()
    about = (
        f"Writes the GraphQL types of {config.name} that are named, as SDL without prose: what a document for "
        f"{names[_QUERY]} is made of."
    )
    tools = [
        Tool(
            name=names[_TYPES],
            title="Describe types",
            description=about,
            input_schema=_TYPES_INPUT,
            output_schema={"type": "object", "properties": {"sdl": {"type": "string"}}, "required": ["sdl"]},
            effect=Effect.READ,
            idempotent=True,
            source=config.name,
            origin=_TYPES,
            binding=GraphQLSchemaBinding(),
        )
    ]
    for kind, origin in (("query", _QUERY), ("mutation", _MUTATION)):
        if origin in names:
            tools.append(_runner(config, endpoint, kind, names[origin], names[_TYPES], limits, origin))
    return tuple(seal(tool) for tool in tools)


def _runner(
    config: SourceConfig, endpoint: str, kind: str, name: str, types: str, limits: QueryLimits, origin: str
) -> Tool:
    bounds = (
        f"At most {limits.max_depth} levels deep, {limits.max_root_fields} root fields, {limits.max_aliases} aliases, "
        f"{limits.max_fragments} fragments and a cost of {limits.max_cost} (a page of 10 costs 10 times its fields); "
        "no introspection."
    )
    return Tool(
        name=name,
        title=f"Run {kind}",
        description=f"Runs one GraphQL {kind} against {config.name} that you write, where no other tool reads what you need. "
        f"{types} shows the types. Pass values as variables. {bounds}",
        input_schema={
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": LONGEST_DOCUMENT,
                    "description": f"A document with one {kind}",
                },
                "variables": {"type": "object", "description": "By name, without the $"},
            },
            "required": ["query"],
            "additionalProperties": False,
        },
        output_schema=None,
        effect=Effect.READ if kind == "query" else Effect.DESTRUCTIVE,
        idempotent=kind == "query",
        source=config.name,
        origin=origin,
        binding=GraphQLDocumentBinding(
            type=kind,
            endpoint=endpoint,
            max_depth=limits.max_depth,
            max_aliases=limits.max_aliases,
            max_root_fields=limits.max_root_fields,
            max_fragments=limits.max_fragments,
            max_cost=limits.max_cost,
        ),
    )
