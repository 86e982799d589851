"""A manifest: every tool of a build, where it came from, and what could not become one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import msgspec

from toolgen.canonical import digest
from toolgen.errors import ManifestError
from toolgen.model.database import Database
from toolgen.model.graphql_schema import Graph
from toolgen.model.schema import Schema
from toolgen.model.shown_schema import closure, outline
from toolgen.model.tool import GraphQLBinding, Tool, seal

__all__ = ["FORMAT", "Level", "Manifest", "Problem", "SecurityScheme", "SourceInfo", "assemble", "load"]

FORMAT = 1
Level = str  # error | warning | info


class Problem(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """Something about a description that a person should know. An `error` cost the operation at `origin` its tool.

    `origin` is a JSON pointer as a fragment (`#/paths/~1pet/get`), a GraphQL coordinate (`Query.pet`) or a table name.
    """

    level: Level
    source: str
    origin: str
    code: str
    message: str


class SecurityScheme(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a credential is shown to an API: OpenAPI's Security Scheme Object, without any credential."""

    type: str  # apiKey | http | oauth2 | openIdConnect | mutualTLS
    in_: str = msgspec.field(name="in", default="")  # header | query | cookie, for apiKey
    name: str = ""  # of the header, parameter or cookie, for apiKey
    scheme: str = ""  # basic | bearer …, for http
    token_url: str = ""
    scopes: tuple[str, ...] = ()


class SourceInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where tools came from. `digest` is of the description as read, `settings` of what toolgen.yaml said about the source then.

    `definitions` are input types that several tools share (by name), and what tools take whose schemas refer to them (by origin).
    """

    kind: str
    digest: str
    title: str
    version: str
    security_schemes: dict[str, SecurityScheme] = {}
    database: Database | None = None
    graph: Graph | None = None
    settings: str = ""
    definitions: dict[str, Schema] = {}


class _Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: int
    digest: str
    sources: dict[str, SourceInfo]
    tools: list[Tool]
    problems: list[Problem]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The result of a build. `tools` is keyed by name, in name order."""

    digest: str
    sources: Mapping[str, SourceInfo]
    tools: Mapping[str, Tool]
    problems: tuple[Problem, ...]
    format: int = FORMAT

    def to_dict(self) -> dict[str, object]:
        """The JSON form of contracts.md."""
        built: dict[str, object] = msgspec.to_builtins(
            _Document(
                format=self.format,
                digest=self.digest,
                sources=dict(self.sources),
                tools=[*map(_in_parts, self.tools.values())],
                problems=list(self.problems),
            )
        )
        return built


def assemble(sources: Mapping[str, SourceInfo], tools: Iterable[Tool], problems: Iterable[Problem]) -> Manifest:
    """Seals the tools and orders everything, so that the same input always makes the same bytes."""
    sealed = [seal(tool) for tool in sorted(tools, key=lambda tool: tool.name)]
    infos = {name: sources[name] for name in sorted(sources)}
    ordered = tuple(sorted(problems))
    return Manifest(
        digest=_digest(infos, sealed, ordered),
        sources=MappingProxyType(infos),
        tools=MappingProxyType({tool.name: tool for tool in sealed}),
        problems=ordered,
    )


def load(data: bytes, *, where: str) -> Manifest:
    """Reads a manifest file.

    Raises `ManifestError` when it is not one, when its format is another, or when a digest does not fit its content (edited by hand).
    """
    again = "run `toolgen build` to write it again"
    try:
        document = msgspec.json.decode(data, type=_Document)
    except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as error:
        raise ManifestError(f"is not a manifest: {error}", where=where, suggestion=again) from error
    if document.format != FORMAT:
        raise ManifestError(f"has format {document.format}, this toolgen reads {FORMAT}", where=where, suggestion=again)
    tools = {tool.name: _whole(tool, document.sources) for tool in document.tools}
    for tool in tools.values():
        if seal(tool).digest != tool.digest:
            raise ManifestError(f"tool {tool.name} was changed after the build", where=where, suggestion=again)
    problems = tuple(document.problems)
    if len(tools) != len(document.tools) or _digest(document.sources, document.tools, problems) != document.digest:
        raise ManifestError("its digest does not fit its content", where=where, suggestion=again)
    return Manifest(
        digest=document.digest,
        sources=MappingProxyType(document.sources),
        tools=MappingProxyType(tools),
        problems=problems,
    )


def _in_parts(tool: Tool) -> Tool:
    """The tool as a file has it: one that is stored in parts with objects in place of the types that it shares with others."""
    binding = tool.binding
    if not isinstance(binding, GraphQLBinding) or not binding.whole:
        return tool
    return msgspec.structs.replace(tool, input_schema=outline(tool.input_schema))


def _whole(tool: Tool, sources: Mapping[str, SourceInfo]) -> Tool:
    """The tool of a file with its whole schema, the definitions in it shared between the tools of a source."""
    binding, source = tool.binding, sources.get(tool.source)
    if not isinstance(binding, GraphQLBinding) or not binding.whole or source is None:
        return tool
    top = source.definitions.get(tool.origin)
    if top is None:
        return tool
    return msgspec.structs.replace(tool, input_schema={**top, "$defs": closure(top, source.definitions)})


def _digest(sources: Mapping[str, SourceInfo], tools: Iterable[Tool], problems: tuple[Problem, ...]) -> str:
    """Over the sources, the tools' digests and the problems: everything in the file, each part read once."""
    return digest(
        {
            "format": FORMAT,
            "sources": msgspec.to_builtins(dict(sources)),
            "tools": {tool.name: tool.digest for tool in tools},
            "problems": msgspec.to_builtins(problems),
        }
    )
