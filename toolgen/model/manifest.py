"""Manifest: every tool of a build, its origin, and the operations without a tool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Struct

from toolgen.core.canonical import digest
from toolgen.core.errors import ManifestError
from toolgen.core.garbage import uncollected
from toolgen.model.apps import ToolApp
from toolgen.model.context import PROMPT, RESOURCE, Prompt, Resource, with_digest
from toolgen.model.database import Database
from toolgen.model.graphql_schema import Graph
from toolgen.model.schema import Schema
from toolgen.model.shown_schema import closure, outline
from toolgen.model.stored_schemas import MAX_REPEATED, Opened, Stored
from toolgen.model.tool import Binding, Effect, OutputForm, Seals, Tool

__all__ = [
    "FORMAT",
    "BuiltTool",
    "Level",
    "Manifest",
    "Problem",
    "SecurityScheme",
    "SourceInfo",
    "assemble",
    "built_tools",
    "load",
    "tool_names",
    "with_tools",
]

FORMAT = 1
Level = str  # error | warning | info


class Problem(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """Notice about a description for a person. An `error` prevented the tool of the operation at `origin`.

    `origin` is a JSON pointer as a fragment (`#/paths/~1pet/get`), a GraphQL coordinate (`Query.pet`) or a table name.
    """

    level: Level
    source: str
    origin: str
    code: str
    message: str


class SecurityScheme(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Credential scheme of an API: OpenAPI's Security Scheme Object, without any credential."""

    type: str  # apiKey | http | oauth2 | openIdConnect | mutualTLS
    in_: str = msgspec.field(name="in", default="")  # header | query | cookie, for apiKey
    name: str = ""  # name of the header, parameter or cookie, for apiKey
    scheme: str = ""  # basic | bearer …, for http
    token_url: str = ""
    scopes: tuple[str, ...] = ()


class SourceInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Source of tools. `digest` is that of the description as read, `settings` that of its settings in toolgen.yaml.

    `definitions` are input types that several tools share (by name), and the input schemas that refer to them (by origin). `parts` are the
    common parts of the schemas of a large source, by digest (`model/stored_schemas.py`). `operations` are the ids of the description's
    operations, by the origin of each tool. `instructions`, `website` and `icons` come from an MCP server.
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
    parts: dict[str, Schema] = {}
    operations: dict[str, str] = {}
    instructions: str = ""
    website: str = ""
    icons: tuple[dict[str, Any], ...] = ()


class _StoredTool(msgspec.Struct, frozen=True, kw_only=True):
    """Tool as stored in its file, with the schemas as text, because most answers of an API have equal schemas."""

    name: str
    title: str
    description: str
    input_schema: msgspec.Raw
    output_schema: msgspec.Raw
    effect: Effect
    idempotent: bool
    source: str
    origin: str
    binding: Binding
    digest: str = ""
    listed_output: OutputForm = ""
    strict_arguments: bool = False
    exact_schema: bool = False
    tags: tuple[str, ...] = ()
    operation: str = ""
    icons: tuple[dict[str, Any], ...] = ()
    app: ToolApp | None = None


class _Document(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format: int
    digest: str
    sources: dict[str, SourceInfo]
    tools: list[_StoredTool]
    problems: list[Problem]
    prompts: list[Prompt] = []
    resources: list[Resource] = []


class _Named(msgspec.Struct, frozen=True):
    name: str


class _Names(msgspec.Struct, frozen=True):
    tools: list[_Named]


class BuiltTool(msgspec.Struct, frozen=True):
    """Tool of an earlier build: its name, its operation, and its digest."""

    name: str
    source: str = ""
    origin: str = ""
    digest: str = ""


class _Marks(msgspec.Struct, frozen=True):
    tools: list[BuiltTool]


class Manifest(Struct, frozen=True, kw_only=True):
    """Result of a build. `tools` and `prompts` are keyed by name and `resources` by URI, in that order."""

    digest: str
    sources: Mapping[str, SourceInfo]
    tools: Mapping[str, Tool]
    problems: tuple[Problem, ...]
    format: int = FORMAT
    prompts: Mapping[str, Prompt] = {}
    resources: Mapping[str, Resource] = {}

    @property
    def has_context(self) -> bool:
        """True if there is a prompt or a resource."""
        return bool(self.prompts or self.resources)

    def is_read(self, name: str) -> bool:
        """Return True for a tool without an effect, a prompt and a resource; False for an unknown tool."""
        tool = self.tools.get(name)
        return name.startswith((PROMPT, RESOURCE)) if tool is None else tool.effect is Effect.READ

    def to_dict(self) -> dict[str, object]:
        """Return the JSON form of `manifest.json`. Schemas in it are those of the tools."""
        stored = {name: Stored() for name, source in self.sources.items() if source.parts}
        context = {name: [*found.values()] for name, found in self._context() if found}
        return {
            "format": self.format,
            "digest": self.digest,
            "sources": {name: msgspec.to_builtins(source) for name, source in self.sources.items()},
            "tools": [_in_parts(tool, stored.get(tool.source)).to_dict() for tool in self.tools.values()],
            "problems": msgspec.to_builtins(self.problems),
            **msgspec.to_builtins(context),
        }

    def _context(self) -> tuple[tuple[str, Mapping[str, Prompt | Resource]], ...]:
        return (("prompts", self.prompts), ("resources", self.resources))


def with_tools(manifest: Manifest, sources: Mapping[str, SourceInfo], tools: Iterable[Tool]) -> Manifest:
    """Return a manifest with these sealed tools, of these sources, and the problems of another."""
    ordered = sorted(tools, key=lambda tool: tool.name)
    infos = {name: sources[name] for name in sorted(sources)}
    return Manifest(
        digest=_digest(infos, ordered, manifest.problems, (*manifest.prompts.values(), *manifest.resources.values())),
        sources=MappingProxyType(infos),
        tools=MappingProxyType({tool.name: tool for tool in ordered}),
        problems=manifest.problems,
        prompts=manifest.prompts,
        resources=manifest.resources,
    )


def assemble(
    sources: Mapping[str, SourceInfo],
    tools: Iterable[Tool],
    problems: Iterable[Problem],
    context: Iterable[Prompt | Resource] = (),
) -> Manifest:
    """Seal the tools, prompts and resources and order everything, so that the same input always makes the same bytes."""
    seals = Seals()
    sealed = [seals.seal(tool) for tool in sorted(tools, key=lambda tool: tool.name)]
    infos = {name: sources[name] for name in sorted(sources)}
    for name, info in infos.items():
        if seals.sizes.get(name, 0) > MAX_REPEATED:
            stored = Stored()
            for tool in sealed:
                if tool.source == name:
                    _in_parts(tool, stored)
            infos[name] = msgspec.structs.replace(info, parts=dict(sorted(stored.parts.items())))
    ordered = tuple(sorted(problems))
    offered = [with_digest(one) for one in context]
    prompts = sorted((one for one in offered if isinstance(one, Prompt)), key=lambda one: one.name)
    resources = sorted((one for one in offered if isinstance(one, Resource)), key=lambda one: one.uri)
    return Manifest(
        digest=_digest(infos, sealed, ordered, (*prompts, *resources)),
        sources=MappingProxyType(infos),
        tools=MappingProxyType({tool.name: tool for tool in sealed}),
        problems=ordered,
        prompts=MappingProxyType({one.name: one for one in prompts}),
        resources=MappingProxyType({one.uri: one for one in resources}),
    )


def tool_names(data: bytes) -> frozenset[str]:
    """Return the names of the tools in a manifest file, without a check of their digests; none for another file."""
    try:
        return frozenset(tool.name for tool in msgspec.json.decode(data, type=_Names).tools)
    except (msgspec.DecodeError, RecursionError):
        return frozenset()


def built_tools(data: bytes) -> dict[str, BuiltTool]:
    """Return the tools in a manifest file by name, without a check of their digests; none for another file."""
    try:
        return {tool.name: tool for tool in msgspec.json.decode(data, type=_Marks).tools}
    except (msgspec.DecodeError, RecursionError):
        return {}


def load(data: bytes, *, where: str) -> Manifest:
    """Read a manifest file.

    Raises `ManifestError` when it is not a manifest, has another format, or when a digest does not fit its content (edited by hand).
    """
    with uncollected():
        return _load(data, where)


def _load(data: bytes, where: str) -> Manifest:
    again = "run `toolgen build` to write it again"
    try:
        document = msgspec.json.decode(data, type=_Document)
        read = _read(document.tools)
    except (msgspec.ValidationError, msgspec.DecodeError, RecursionError) as error:
        raise ManifestError(f"is not a manifest: {error}", where=where, suggestion=again) from error
    if document.format != FORMAT:
        raise ManifestError(f"has format {document.format}, this toolgen reads {FORMAT}", where=where, suggestion=again)
    opened = {name: Opened(source.definitions, source.parts) for name, source in document.sources.items()}
    seals = Seals(repeated=True)
    tools: dict[str, Tool] = {}
    for stored in read:
        try:
            tool = tools[stored.name] = _whole(stored, document.sources.get(stored.source), opened.get(stored.source))
            fits = seals.seal(tool).digest == tool.digest
        except (
            KeyError,
            AttributeError,
            TypeError,
        ):  # a stored part is missing or changed
            fits = False
        if not fits:
            raise ManifestError(f"tool {stored.name} was changed after the build", where=where, suggestion=again)
    problems = tuple(document.problems)
    context: tuple[Prompt | Resource, ...] = (*document.prompts, *document.resources)
    if changed := [one.origin for one in context if with_digest(one).digest != one.digest]:
        raise ManifestError(f"{changed[0]} was changed after the build", where=where, suggestion=again)
    prompts = {one.name: one for one in document.prompts}
    resources = {one.uri: one for one in document.resources}
    whole = len(tools) == len(read) and len(prompts) + len(resources) == len(context)
    if not whole or _digest(document.sources, read, problems, context) != document.digest:
        raise ManifestError("its digest does not fit its content", where=where, suggestion=again)
    return Manifest(
        digest=document.digest,
        sources=MappingProxyType(document.sources),
        tools=MappingProxyType(tools),
        problems=problems,
        prompts=MappingProxyType(prompts),
        resources=MappingProxyType(resources),
    )


def _read(tools: Iterable[_StoredTool]) -> list[Tool]:
    """Return the tools with their schemas parsed, each text once. Raises as `msgspec.json.decode` does."""
    inputs: dict[bytes, Schema] = {}
    outputs: dict[bytes, Schema | None] = {}
    read = []
    for tool in tools:
        fields = {name: getattr(tool, name) for name in tool.__struct_fields__}
        given, answered = bytes(tool.input_schema), bytes(tool.output_schema)
        if given not in inputs:
            inputs[given] = msgspec.json.decode(given, type=dict[str, Any])
        if answered not in outputs:
            outputs[answered] = msgspec.json.decode(answered, type=dict[str, Any] | None)
        fields |= {"input_schema": inputs[given], "output_schema": outputs[answered]}
        read.append(Tool(**fields))
    return read


def _in_parts(tool: Tool, stored: Stored | None) -> Tool:
    """Return the tool for a file, without the common parts of its source."""
    binding = tool.binding
    if binding.whole:
        return msgspec.structs.replace(tool, input_schema=outline(tool.input_schema))
    if stored is None:
        return tool
    output = None if tool.output_schema is None else stored.of(tool.output_schema)
    return msgspec.structs.replace(tool, input_schema=stored.of(tool.input_schema), output_schema=output)


def _whole(tool: Tool, source: SourceInfo | None, opened: Opened | None) -> Tool:
    """Return the tool of a file with its complete schemas, whose definitions are shared between the tools of a source."""
    if source is None or opened is None:
        return tool
    binding = tool.binding
    if binding.whole:
        top = source.definitions.get(tool.origin)
        if top is None:
            return tool
        return msgspec.structs.replace(tool, input_schema={**top, "$defs": closure(top, source.definitions)})
    output = None if tool.output_schema is None else opened.of(tool.output_schema)
    return msgspec.structs.replace(tool, input_schema=opened.of(tool.input_schema), output_schema=output)


def _digest(
    sources: Mapping[str, SourceInfo],
    tools: Iterable[Tool],
    problems: tuple[Problem, ...],
    context: Iterable[Prompt | Resource] = (),
) -> str:
    """Return the digest over the sources, the digests of tools, prompts and resources, and the problems: the complete file, each part
    read once.
    """
    offered = {
        (f"{PROMPT}{one.name}" if isinstance(one, Prompt) else f"{RESOURCE}{one.uri}"): one.digest for one in context
    }
    return digest(
        {
            **({"context": offered} if offered else {}),
            "format": FORMAT,
            "sources": msgspec.to_builtins(dict(sources)),
            "tools": {tool.name: tool.digest for tool in tools},
            "problems": msgspec.to_builtins(problems),
        }
    )
