"""One GraphQL description in, a `Reading` out: a tool for every query and mutation, or a problem that says why not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from toolgen.canonical import digest
from toolgen.errors import ConfigError, DescriptionError
from toolgen.model.auth_schemes import SCHEMES
from toolgen.model.manifest import Problem, SourceInfo
from toolgen.model.schema import Schema
from toolgen.model.tool import Effect, GraphQLBinding, Tool
from toolgen.sources.base import Reading, SourceConfig
from toolgen.sources.graphql.description import Description, graph_of, is_url, load_description
from toolgen.sources.graphql.repair import prose
from toolgen.sources.graphql.root_fields import (
    RootField,
    document_names,
    is_any_large,
    make_document_tools,
    make_root_tools,
    root_fields,
)
from toolgen.sources.graphql.trusted_operations import collect_trusted, make_trusted
from toolgen.sources.naming import assign

__all__ = ["read_graphql"]

_MAX_OPERATIONS = 5000
_FILTERS = frozenset({"operations", "effects"})


def read_graphql(config: SourceConfig) -> Reading:
    """Tools for the queries and mutations of SDL, an introspection result or a live endpoint, or for the operations of trusted files.

    With files, root fields become tools as well only where `include` names them. Raises `DescriptionError` for a description no schema
    can be built from and `ConfigError` for options that cannot be meant.
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
    open_ = document_names(config, schema, large=is_any_large(config, heard))
    names = assign(config.name, {**{one.coordinate: one.names for one in heard}, **trusted.names(), **open_})
    made = make_root_tools(config, endpoint, schema, heard, names)
    operations, faults = make_trusted(config, endpoint, schema, trusted, names)
    documents = make_document_tools(config, endpoint, schema, names)
    problems = [
        *_problems(config.name, description, endpoint),
        *(one for one in made if isinstance(one, Problem)),
        *faults,
    ]
    skipped = [_unheard(config.name, one) for one in fields if one not in heard]
    dropped = sum(problem.code == "unknown_type" and problem.level == "error" for problem in problems)
    tools = (*(one for one in made if isinstance(one, Tool)), *operations, *documents)
    return Reading(
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


def _definitions(tools: Iterable[Tool]) -> dict[str, Schema]:
    """What tools whose schemas are stored in parts take, by origin, and the types that these share, by name."""
    found: dict[str, Schema] = {}
    for tool in tools:
        if isinstance(tool.binding, GraphQLBinding) and tool.binding.whole:
            found |= tool.input_schema["$defs"]
            found[tool.origin] = {key: one for key, one in tool.input_schema.items() if key != "$defs"}
    return dict(sorted(found.items()))


def _digest(schema: str, files: Mapping[str, str]) -> str:
    """Of everything the tools are made of; of the schema alone where there is nothing else."""
    return digest([schema, *files.values()]) if files else schema


def _is_selectable(tool: Tool) -> bool:
    return isinstance(tool.binding, GraphQLBinding) and bool(tool.binding.fields)


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


def _unheard(source: str, one: RootField) -> Problem:
    message = "subscriptions become tools where `subscriptions:` of the source says so"
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
        raise ConfigError("the endpoint is no URL", where=where) from None
    if parts.username is not None or parts.password is not None:
        message = "the endpoint holds a credential, which would be written into the manifest"
        raise ConfigError(message, where=where, suggestion="put it under `auth`")
    if not usable or set(url) & set(" {}<>\\"):
        raise ConfigError("the endpoint is no http or https URL", where=where)


def _filter(config: SourceConfig) -> Callable[[RootField], bool]:
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

    def fits(key: str, values: Iterable[str], one: RootField) -> bool:
        return one.effect in values if key == "effects" else any(fnmatchcase(one.field, glob) for glob in values)

    def wanted(one: RootField) -> bool:
        if not all(fits(key, values, one) for key, values in config.include.items()):
            return False
        return not any(fits(key, values, one) for key, values in config.exclude.items())

    return wanted
