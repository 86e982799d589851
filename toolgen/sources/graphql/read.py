"""One GraphQL description in, a `Reading` out: a tool for every query and mutation, or a problem that says why not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

import orjson
from graphql import GraphQLField, GraphQLObjectType, GraphQLSchema, get_named_type, get_nullable_type, is_list_type

from toolgen.errors import CanonicalError, ConfigError, DescriptionError
from toolgen.model.manifest import Problem, SecurityScheme, SourceInfo
from toolgen.model.tool import Effect, GraphQLBinding, Tool, seal
from toolgen.sources.base import Reading, SourceConfig
from toolgen.sources.graphql.description import Description, is_url, load_description
from toolgen.sources.graphql.inputs import Inputs, TooLargeError
from toolgen.sources.graphql.naming import candidates, title_of
from toolgen.sources.graphql.operation import faults_of, render_operation
from toolgen.sources.graphql.outputs import output_schema
from toolgen.sources.graphql.selection import Selector, is_connection
from toolgen.sources.graphql.text import LONGEST_DESCRIPTION, prose
from toolgen.sources.naming import assign

__all__ = ["read_graphql"]

_MOST_OPERATIONS = 5000
_LARGEST_SCHEMA = 256 * 1024  # bytes of one tool's arguments; the largest we know has 90 KiB
_LARGEST_TOTAL = 128 * 1024 * 1024  # bytes of all tools of one source
_FILTERS = frozenset({"operations", "effects"})
# A GraphQL description says nothing about credentials; these are the ways `auth:` can name.
_SCHEMES = {
    "bearer": SecurityScheme(type="http", scheme="bearer"),
    "basic": SecurityScheme(type="http", scheme="basic"),
    "api_key": SecurityScheme(type="apiKey", in_="header", name="X-API-Key"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Operation:
    """One root field: what may become a tool."""

    kind: str  # query | mutation
    coordinate: str
    field: str
    definition: GraphQLField
    names: tuple[tuple[str, ...], ...]  # as words, best first

    @property
    def effect(self) -> Effect:
        return Effect.READ if self.kind == "query" else Effect.DESTRUCTIVE


def read_graphql(config: SourceConfig) -> Reading:
    """Tools for the queries and mutations of SDL, an introspection result or a live endpoint.

    Raises `DescriptionError` for a description no schema can be built from and `ConfigError` for options that cannot be meant.
    """
    endpoint = _endpoint(config)
    wanted = _filter(config)
    description = load_description(config.file)
    schema = description.schema
    operations = [one for one in _operations(schema) if wanted(one)]
    if len(operations) > _MOST_OPERATIONS:
        message = f"has {len(operations)} queries and mutations, more than {_MOST_OPERATIONS}"
        raise DescriptionError(
            message, where=config.location, suggestion="choose some with `include: {operations: […]}`"
        )
    names = assign(config.name, {one.coordinate: one.names for one in operations})
    maker = _Maker(config.name, endpoint, schema)
    tools: list[Tool] = []
    problems = list(_problems(config.name, description, endpoint))
    lost = sum(problem.level == "error" for problem in problems)
    for one in operations:
        made = maker.make(one, names[one.coordinate])
        match made:
            case Tool():
                tools.append(made)
            case Problem():
                problems.append(made)
    skipped = [_subscription(config.name, coordinate) for coordinate in _subscriptions(schema)]
    return Reading(
        info=SourceInfo(
            kind="graphql",
            digest=description.digest,
            title=prose(schema.description, limit=80).partition("\n")[0] or config.name,
            version="",
            security_schemes=dict(_SCHEMES),
        ),
        tools=tuple(tools),
        problems=(*problems, *skipped),
        operations=len(operations) + len(skipped) + lost,
        identifiers={one.coordinate: one.field for one in operations},
        files={} if is_url(config.file) else {config.file: description.digest},
    )


class _Maker:
    """Makes tools from the root fields of one schema."""

    def __init__(self, source: str, endpoint: str, schema: GraphQLSchema) -> None:
        self._source = source
        self._endpoint = endpoint
        self._schema = schema
        self._inputs = Inputs()
        self._selector = Selector(schema)
        self._room = _LARGEST_TOTAL

    def make(self, one: _Operation, name: str) -> Tool | Problem:
        """The tool, or the error that cost it."""
        try:
            arguments = self._inputs.arguments(one.definition)
        except TooLargeError:
            return self._lost(one, "schema_too_large", "its arguments lead to more types than a tool can carry")
        size = len(orjson.dumps(arguments))
        if size > _LARGEST_SCHEMA or size > self._room:
            return self._lost(one, "schema_too_large", f"its arguments take {size} bytes, more than a tool can carry")
        self._room -= size
        below = self._selector.below(one.definition)
        operation = render_operation(one.kind, name, one.field, one.definition, below)
        if faults := faults_of(self._schema, operation):
            reason = prose(faults[0], limit=300)
            return self._lost(one, "invalid_operation", f"no valid operation could be made for it: {reason}")
        tool = Tool(
            name=name,
            title=title_of(one.names[0]),
            description=_describe(one),
            input_schema=arguments,
            output_schema=output_schema(one.field, one.definition, below),
            effect=one.effect,
            idempotent=one.kind == "query",
            source=self._source,
            origin=one.coordinate,
            binding=GraphQLBinding(
                type=one.kind,
                field=one.field,
                operation=operation,
                operation_name=name,
                variables={argument: argument for argument in one.definition.args},
                endpoint=self._endpoint,
            ),
        )
        try:
            return seal(tool)
        except CanonicalError as error:
            return self._lost(one, "no_canonical_form", f"its schema cannot be written down: {error.message}")

    def _lost(self, one: _Operation, code: str, message: str) -> Problem:
        return Problem(level="error", source=self._source, origin=one.coordinate, code=code, message=message)


def _operations(schema: GraphQLSchema) -> Iterator[_Operation]:
    for kind, root in (("query", schema.query_type), ("mutation", schema.mutation_type)):
        if root is None:
            continue
        for field, definition in root.fields.items():
            many = is_list_type(get_nullable_type(definition.type)) or is_connection(get_named_type(definition.type))
            yield _Operation(
                kind=kind,
                coordinate=f"{root.name}.{field}",
                field=field,
                definition=definition,
                names=candidates(field, kind=kind, many=many),
            )


def _describe(one: _Operation) -> str:
    lines = [prose(one.definition.description) or f"The GraphQL {one.kind} `{one.field}`."]
    lines.append(f"Returns {one.definition.type}.")
    if one.definition.deprecation_reason is not None:
        lines.append(f"Deprecated: {prose(one.definition.deprecation_reason, limit=200)}")
    return prose("\n".join(lines), limit=LONGEST_DESCRIPTION)


def _problems(source: str, description: Description, endpoint: str) -> Iterator[Problem]:
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
        message = "the schema has no query and no mutation root, so there is nothing to call"
        yield Problem(level="warning", source=source, origin="schema", code="no_operations", message=message)
    if not endpoint:
        message = "no endpoint is configured, so these tools can be shown but not called; set `endpoint`"
        yield Problem(level="warning", source=source, origin="schema", code="no_endpoint", message=message)


def _subscriptions(schema: GraphQLSchema) -> list[str]:
    root: GraphQLObjectType | None = schema.subscription_type
    return [f"{root.name}.{field}" for field in root.fields] if root is not None else []


def _subscription(source: str, coordinate: str) -> Problem:
    message = "subscriptions do not become tools yet"
    return Problem(level="info", source=source, origin=coordinate, code="unsupported_subscription", message=message)


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
        raise ConfigError("the endpoint is no URL", where=where) from None
    if parts.username is not None or parts.password is not None:
        message = "the endpoint holds a credential, which would be written into the manifest"
        raise ConfigError(message, where=where, suggestion="put it under `auth`")
    if not usable or set(url) & set(" {}<>\\"):
        raise ConfigError("the endpoint is no http or https URL", where=where)


def _filter(config: SourceConfig) -> Callable[[_Operation], bool]:
    """Every key of `include` must agree; one of `exclude` is enough to leave an operation out. Globs are on the field's name."""
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

    def fits(key: str, values: Iterable[str], one: _Operation) -> bool:
        return one.effect in values if key == "effects" else any(fnmatchcase(one.field, glob) for glob in values)

    def wanted(one: _Operation) -> bool:
        if not all(fits(key, values, one) for key, values in config.include.items()):
            return False
        return not any(fits(key, values, one) for key, values in config.exclude.items())

    return wanted
