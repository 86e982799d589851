"""Reader of a GraphQL description into a `SourceReading`: a tool for every query and mutation, or a problem that explains the absence of
one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from graphql import GraphQLSchema

from toolgen.connectors.assigned_names import held_names, identity_of
from toolgen.connectors.graphql.description import SchemaDescription, is_url, load_description
from toolgen.connectors.graphql.options import QueryLimits
from toolgen.connectors.graphql.prose import prose
from toolgen.connectors.graphql.root_fields import (
    RootField,
    make_root_tools,
    root_fields,
)
from toolgen.connectors.graphql.schema_index import graph_of
from toolgen.connectors.graphql.trusted_operations import collect_trusted, make_trusted
from toolgen.connectors.naming import assign
from toolgen.connectors.source import SourceConfig, SourceReading
from toolgen.core.canonical import digest
from toolgen.core.errors import ConfigError, DescriptionError
from toolgen.model.auth_schemes import SCHEMES
from toolgen.model.manifest import Problem, SourceInfo
from toolgen.model.schema import Schema
from toolgen.model.tool import Effect, GraphQLBinding, GraphQLDocumentBinding, GraphQLSchemaBinding, Tool, seal

__all__ = ["read_graphql"]

_MAX_OPERATIONS = 5000
_MAX_DOCUMENT_LENGTH = 20_000
_TYPES, _QUERY, _MUTATION = "schema", "schema#query", "schema#mutation"  # origins of the tools for documents
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
_FILTERS = frozenset({"operations", "effects"})


def read_graphql(config: SourceConfig) -> SourceReading:
    """Return tools for the queries and mutations of SDL, an introspection result or a live endpoint, or for the operations of trusted
    files.

    With files, root fields become tools only if `include` names them. Raises `DescriptionError` if no schema can be built and `ConfigError`
    for invalid options.
    """
    endpoint = _endpoint(config)
    wanted = _filter(config)
    description = load_description(config.file)
    schema = description.schema
    trusted = collect_trusted(config)
    fields = [] if trusted.files and not config.include else [one for one in root_fields(schema) if wanted(one)]
    heard = [one for one in fields if one.kind != "subscription" or config.graph.subscriptions is not None]
    if len(heard) > _MAX_OPERATIONS:
        message = f"has {len(heard)} queries and mutations, more than {_MAX_OPERATIONS}"
        raise DescriptionError(
            message, where=config.location, suggestion="choose some with `include: {operations: […]}`"
        )
    open_ = _document_names(config, schema, described=bool(heard))
    names = _assigned(config, {**{one.coordinate: one.names for one in heard}, **trusted.names(), **open_})
    made = make_root_tools(config, endpoint, schema, heard, names)
    operations, faults = make_trusted(config, endpoint, schema, trusted, names)
    documents = _make_document_tools(config, endpoint, schema, names)
    problems = [
        *_problems(config.name, description, endpoint),
        *(one for one in made if isinstance(one, Problem)),
        *faults,
    ]
    skipped = [_not_subscribed(config.name, one) for one in fields if one not in heard]
    dropped = sum(problem.code == "unknown_type" and problem.level == "error" for problem in problems)
    tools = (*(one for one in made if isinstance(one, Tool)), *operations, *documents)
    return SourceReading(
        info=SourceInfo(
            kind="graphql",
            digest=_digest(description.digest, trusted.files),
            title=prose(schema.description, limit=80).partition("\n")[0] or config.name,
            version="",
            security_schemes=dict(SCHEMES),
            graph=graph_of(schema, config.graph.scalars)
            if documents or any(_is_selectable(one) for one in tools)
            else None,
            definitions=_definitions(tools),
        ),
        tools=tools,
        problems=(*problems, *skipped),
        operations=len(fields) + dropped + len(operations) + len(faults) + len(documents),
        identifiers={**{one.coordinate: one.field for one in heard}, **trusted.identifiers()},
        files={**trusted.files, **({} if is_url(config.file) else {config.file: description.digest})},
    )


def _assigned(config: SourceConfig, candidates: Mapping[str, Sequence[Sequence[str]]]) -> dict[str, str]:
    """Return the names by origin: those in toolgen.lock, and new ones."""
    held = held_names(config.names, {origin: identity_of("graphql", origin, "") for origin in candidates})
    return assign(config.name, candidates, held=held, reserved={one.name for one in config.names.values()})


def _definitions(tools: Iterable[Tool]) -> dict[str, Schema]:
    """Return the input schemas that are stored in parts, by tool origin, and the types that they share, by name."""
    found: dict[str, Schema] = {}
    for tool in tools:
        if isinstance(tool.binding, GraphQLBinding) and tool.binding.whole:
            found |= tool.input_schema["$defs"]
            found[tool.origin] = {key: one for key, one in tool.input_schema.items() if key != "$defs"}
    return dict(sorted(found.items()))


def _digest(schema: str, files: Mapping[str, str]) -> str:
    """Return the digest of all inputs of the tools, or of the schema if there are no others."""
    return digest([schema, *files.values()]) if files else schema


def _is_selectable(tool: Tool) -> bool:
    return isinstance(tool.binding, GraphQLBinding) and bool(tool.binding.fields)


def _problems(source: str, description: SchemaDescription, endpoint: str) -> Iterator[Problem]:
    for fault in description.faults:
        yield Problem(level="warning", source=source, origin=fault.origin, code=fault.code, message=fault.message)
    roots = {
        root.name for root in (description.schema.query_type, description.schema.mutation_type) if root is not None
    }
    for dropped in description.dropped:
        level = "error" if dropped.type in roots else "warning"
        origin = f"{dropped.type}.{dropped.field}"
        yield Problem(
            level=level, source=source, origin=origin, code="unknown_type", message=f"left out: {dropped.reason}"
        )
    if not roots:
        message = "the schema has no query and no mutation root, so there are no tools"
        yield Problem(level="warning", source=source, origin="schema", code="no_operations", message=message)
    if not endpoint:
        message = "no endpoint is configured, so these tools can be shown but not called; set `endpoint`"
        yield Problem(level="warning", source=source, origin="schema", code="no_endpoint", message=message)


def _not_subscribed(source: str, one: RootField) -> Problem:
    message = "subscriptions become tools only if `subscriptions:` of the source is set in toolgen.yaml"
    return Problem(level="info", source=source, origin=one.coordinate, code="unsupported_subscription", message=message)


def _endpoint(config: SourceConfig) -> str:
    located = config.location if is_url(config.location) else ""
    for url, option in ((config.endpoint, "endpoint"), (located, "graphql")):
        _check_url(url, f"sources.{config.name}.{option}")
    return config.endpoint or located


def _check_url(url: str, where: str) -> None:
    if not url:
        return
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and not parts.fragment and parts.port != 0
    except ValueError:
        raise ConfigError("the endpoint is not a URL", where=where) from None
    if parts.username is not None or parts.password is not None:
        message = "the endpoint holds a credential, which would be written into the manifest"
        raise ConfigError(message, where=where, suggestion="put it under `auth`")
    if not usable or set(url) & set(" {}<>\\"):
        raise ConfigError("the endpoint is not an http or https URL", where=where)


def _filter(config: SourceConfig) -> Callable[[RootField], bool]:
    """Return the filter of root fields. Each key of `include` must match; one match in `exclude` omits the operation. Globs apply to
    field names.
    """
    for option, given in (("include", config.include), ("exclude", config.exclude)):
        where = f"sources.{config.name}.{option}"
        for key, values in given.items():
            if key not in _FILTERS:
                message = f"`{key}` does not apply to a GraphQL source"
                raise ConfigError(message, where=where, suggestion="use operations or effects")
            if not isinstance(values, (list, tuple)) or not all(isinstance(value, str) for value in values):
                raise ConfigError("is not a list of texts", where=f"{where}.{key}")
            if key == "effects" and (wrong := [value for value in values if value not in set(Effect)]):
                raise ConfigError(f"{wrong[0]!r} is not read, write or destructive", where=f"{where}.{key}")

    def fits(key: str, values: Iterable[str], one: RootField) -> bool:
        return one.effect in values if key == "effects" else any(fnmatchcase(one.field, glob) for glob in values)

    def wanted(one: RootField) -> bool:
        if not all(fits(key, values, one) for key, values in config.include.items()):
            return False
        return not any(fits(key, values, one) for key, values in config.exclude.items())

    return wanted


def _document_names(
    config: SourceConfig, schema: GraphQLSchema, *, described: bool
) -> dict[str, tuple[tuple[str, ...], ...]]:
    """Return the candidate names of the tools that run documents, by origin, best first.

    There are none if toolgen.yaml does not allow documents. The tool that shows types is there if it does, or if root fields are tools
    (`described`), because callers can choose fields of their answers.
    """
    names: dict[str, tuple[tuple[str, ...], ...]] = {_TYPES: (("describe", "types"), ("describe", "schema", "types"))}
    if config.graph.queries is None or schema.query_type is None:
        return names if described else {}
    names[_QUERY] = (("run", "query"), ("run", "query", "document"))
    if schema.mutation_type is not None:
        names[_MUTATION] = (("run", "mutation"), ("run", "mutation", "document"))
    return names


def _make_document_tools(
    config: SourceConfig, endpoint: str, schema: GraphQLSchema, names: dict[str, str]
) -> tuple[Tool, ...]:
    """Return the tools for documents. Running a mutation is destructive, so a policy must allow it explicitly."""
    limits = config.graph.queries
    if _TYPES not in names:
        return ()
    use = f"a document for {names[_QUERY]} is made of" if _QUERY in names else "arguments of other tools may hold"
    about = f"Writes the GraphQL types of {config.name} that are named, as SDL without prose: the fields of answers, and what {use}."
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
        if limits is not None and origin in names:
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
                    "maxLength": _MAX_DOCUMENT_LENGTH,
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
