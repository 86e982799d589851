"""Lint rules, their hits, and the views that they check.

The views are built from a build and, if there is one, from the description as it was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import msgspec
from graphql import GraphQLEnumType, GraphQLInputObjectType, GraphQLInterfaceType, GraphQLObjectType, GraphQLSchema
from msgspec import Struct, field

from toolgen.connectors.graphql.description import load_description
from toolgen.connectors.openapi.documents import Documents, UnresolvedRefError
from toolgen.connectors.openapi.operation import FaultError
from toolgen.connectors.openapi.read import overlaid_documents, version_of
from toolgen.connectors.openapi.routes import Route, routes
from toolgen.connectors.source import SourceConfig, is_remote
from toolgen.connectors.syntax import escape
from toolgen.core.errors import DescriptionError
from toolgen.model.manifest import SourceInfo
from toolgen.model.mcp import read_listing, texts_of
from toolgen.model.schema import Schema
from toolgen.model.tool import Tool

__all__ = [
    "Argument",
    "CatalogView",
    "Level",
    "LintRule",
    "LintTool",
    "ModelText",
    "Original",
    "RuleHit",
    "SourceView",
    "WrittenOperation",
    "readable",
    "tool_view",
]

T = TypeVar("T")
_NOWHERE: Mapping[tuple[str, str], str] = MappingProxyType({})


class Level(StrEnum):
    """Severity of a finding: an error misleads or endangers an agent, a warning costs it calls, an info would help it."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """0 for what matters most."""
        return list(Level).index(self)


class RuleHit(Struct, frozen=True, kw_only=True):
    """Hit of a rule. `about` tells hits of one rule at one origin apart, and stays the same when the wording changes."""

    message: str
    origin: str = ""  # where the view's own origin is not precise enough
    about: str = ""


class LintRule(Struct, Generic[T], frozen=True, kw_only=True):
    """Lint rule: a name, its level, the advice, and the pure function that finds hits."""

    id: str
    level: Level
    advice: str
    check: Callable[[T], Iterable[RuleHit]]


class WrittenOperation(Struct, frozen=True, kw_only=True):
    """Texts that the author of an OpenAPI operation wrote, before a build generated the missing ones."""

    identifier: str
    text: str  # summary and description
    origins: Mapping[tuple[str, str], str] = field(default_factory=lambda: _NOWHERE)  # (place, name) -> pointer


class Argument(Struct, frozen=True, kw_only=True):
    """Argument of a tool, with its reference resolved. `place` is path, query, header, cookie, querystring, body or ""."""

    name: str
    place: str
    required: bool
    schema: Mapping[str, Any]
    origin: str


class LintTool(Struct, frozen=True, kw_only=True):
    """Tool as the rules see it. `written` is None if only the tool is known."""

    tool: Tool
    info: SourceInfo
    arguments: Sequence[Argument]
    written: WrittenOperation | None

    def resolved(self, schema: Any) -> Mapping[str, Any]:
        """An input schema's part with its reference into `$defs` followed."""
        return resolved(self.tool.input_schema, schema)


class SourceView(Struct, frozen=True, kw_only=True):
    """Source with all of its tools and the texts that its author wrote about each."""

    name: str
    info: SourceInfo
    tools: Sequence[LintTool]


class ModelText(Struct, frozen=True, kw_only=True):
    """A text that may reach a model, and where it stands. `prose` tells descriptions from values such as defaults and examples."""

    origin: str
    value: str
    prose: bool


class CatalogView(Struct, frozen=True, kw_only=True):
    """Tools that one agent would be given."""

    tools: Sequence[Tool]
    tokens: int  # about


def resolved(root: Schema, schema: Any) -> Mapping[str, Any]:
    """A schema with its `$ref` into the root's `$defs` followed; a schema that is none is an empty one."""
    definitions = root.get("$defs")
    for _ in range(20):
        ref = schema.get("$ref") if isinstance(schema, Mapping) else None
        if not isinstance(ref, str) or not isinstance(definitions, Mapping):
            break
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        target = definitions.get(ref.removeprefix("#/$defs/"))
        schema = {**target, **beside} if isinstance(target, Mapping) else beside
    return schema if isinstance(schema, Mapping) else {}


_PROSE = frozenset({"description", "summary", "title", "termsOfService"})
_MAX_TEXTS = 2_000_000


class Original(Struct, frozen=True, kw_only=True):
    """A description as written: its operations by origin, every text in it, and the files they stand in by the name origins use."""

    operations: Mapping[str, WrittenOperation]
    texts: tuple[ModelText, ...]
    files: Mapping[str, Path]


def _original(config: SourceConfig, info: SourceInfo) -> Original:
    """Reads a description once more, for what a build leaves out. Raises `DescriptionError` as the build does."""
    match config.kind:
        case "openapi":
            return _openapi(config)
        case "graphql" if not is_remote(config) or config.pin is not None:
            schema = load_description(config.file).schema
            return Original(operations={}, texts=tuple(_graphql_texts(schema)), files={})
        case "mcp":
            return Original(operations={}, texts=tuple(_listed_texts(Path(config.file))), files={})
        case _:
            return Original(operations={}, texts=tuple(_database_texts(info)), files={})


def tool_view(tool: Tool, info: SourceInfo, written: WrittenOperation | None) -> LintTool:
    """Return the view of a tool, with its arguments listed."""
    schema = tool.input_schema
    properties = schema.get("properties", {})
    required = schema.get("required", ())
    places: dict[str, tuple[str, str]] = {}
    if (http := tool.http) is not None:
        places = {one.argument: (one.in_, one.name) for one in http.parameters}
    arguments = []
    for name, inner in properties.items():
        place, wire = places.get(name, ("" if http is None else "body", name))
        origin = written.origins.get((place, wire), "") if written is not None else ""
        arguments.append(
            Argument(name=name, place=place, required=name in required, schema=resolved(schema, inner), origin=origin)
        )
    return LintTool(tool=tool, info=info, arguments=tuple(arguments), written=written)


def _openapi(config: SourceConfig) -> Original:
    documents = overlaid_documents(config)
    found: dict[str, WrittenOperation] = {}
    for route in routes(documents, version_of(documents)):
        if isinstance(route, Route):
            found[route.origin] = _written(documents, route)
    return Original(operations=found, texts=tuple(_texts(documents.root)), files={"": Path(config.file)})


def _written(documents: Documents, route: Route) -> WrittenOperation:
    raw = route.raw
    said = [raw.get("summary") or route.item.get("summary"), raw.get("description") or route.item.get("description")]
    identifier = raw.get("operationId")
    try:
        places = {key: origin for key, (origin, _) in route.parameters(documents).items()}
    except (FaultError, UnresolvedRefError):
        places = {}
    return WrittenOperation(
        identifier=identifier if isinstance(identifier, str) else "",
        text=" ".join(text for text in said if isinstance(text, str)),
        origins=places,
    )


def _texts(root: Any) -> Iterator[ModelText]:
    """Yield each text of a document once. Nodes shared by aliases are visited once too."""
    seen: set[int] = set()
    known: set[tuple[bool, str]] = set()
    todo: list[tuple[str, Any, bool]] = [("#", root, False)]
    while todo and len(known) < _MAX_TEXTS:
        origin, node, prose = todo.pop()
        if isinstance(node, str):
            if (prose, node) not in known:
                known.add((prose, node))
                yield ModelText(origin=origin, value=node, prose=prose)
        elif isinstance(node, (dict, list)) and id(node) not in seen:
            seen.add(id(node))
            items = list(node.items()) if isinstance(node, dict) else list(enumerate(node))
            todo += [(f"{origin}/{escape(str(key))}", item, key in _PROSE) for key, item in reversed(items)]


def _graphql_texts(schema: GraphQLSchema) -> Iterator[ModelText]:
    for name, kind in schema.type_map.items():
        if name.startswith("__"):
            continue
        yield from _described(name, kind.description)
        if isinstance(kind, (GraphQLObjectType, GraphQLInterfaceType)):
            for field_name, field in kind.fields.items():
                yield from _described(f"{name}.{field_name}", field.description)
                for argument_name, argument in field.args.items():
                    yield from _described(f"{name}.{field_name}({argument_name}:)", argument.description)
        elif isinstance(kind, GraphQLInputObjectType):
            for field_name, input_field in kind.fields.items():
                yield from _described(f"{name}.{field_name}", input_field.description)
        elif isinstance(kind, GraphQLEnumType):
            for value_name, value in kind.values.items():
                yield from _described(f"{name}.{value_name}", value.description)


def _listed_texts(pinned: Path) -> Iterator[ModelText]:
    """Yield the texts of the server's pinned listing, because a build cleans and shortens the texts that agents read."""
    try:
        listing = read_listing(pinned.read_bytes())
    except (OSError, msgspec.DecodeError, RecursionError):
        return  # as the build has said
    for tool in listing.tools:
        yield ModelText(origin=tool.name, value=tool.name, prose=False)
        for place, value in texts_of(tool):
            yield ModelText(origin=f"{tool.name}{place}", value=value, prose=place.rpartition("/")[2] in _PROSE)


def _database_texts(info: SourceInfo) -> Iterator[ModelText]:
    for table in info.database.tables if info.database else ():
        yield from _described(table.name, table.comment or table.name)
        for column in table.columns:
            yield from _described(f"{table.name}.{column.name}", column.comment or column.name)


def _described(origin: str, text: str | None) -> Iterator[ModelText]:
    if text:
        yield ModelText(origin=origin, value=text, prose=True)


def _unheard(origin: str, code: str, message: str) -> None:
    """The build has said it already."""


def readable(config: SourceConfig, info: SourceInfo) -> Original | None:
    """The original, or None where it cannot be read again (a live endpoint, a file that is gone)."""
    try:
        return _original(config, info)
    except DescriptionError:
        return None
