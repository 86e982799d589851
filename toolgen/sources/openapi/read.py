"""Reads one OpenAPI description: every operation ends as a tool, a filtered-out entry or a problem."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from toolgen.errors import ConfigError, DescriptionError
from toolgen.model.manifest import Problem, SecurityScheme, SourceInfo
from toolgen.model.names import nearest
from toolgen.model.tool import Effect, Tool
from toolgen.sources.base import Reading, SourceConfig, is_remote
from toolgen.sources.documents import Documents
from toolgen.sources.naming import assign, from_identifier, from_route
from toolgen.sources.openapi import v2, v3
from toolgen.sources.openapi.binding import bind
from toolgen.sources.openapi.describe import describe, suspicion, title
from toolgen.sources.openapi.operation import FaultError, Operation
from toolgen.sources.openapi.overlay import apply_overlays
from toolgen.sources.openapi.routes import Route, routes
from toolgen.sources.openapi.schema import Direction, Schemas
from toolgen.sources.openapi.security import schemes
from toolgen.sources.references import Remote, joined

__all__ = ["open_documents", "read_openapi", "version_of"]

_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_ABSOLUTE = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.IGNORECASE)
_READING = frozenset({"GET", "HEAD", "QUERY", "OPTIONS", "TRACE"})
_IDEMPOTENT = _READING | {"PUT", "DELETE"}
_FILTERS = ("tags", "operations", "methods", "effects")
_SEVERITY = (Effect.READ, Effect.WRITE, Effect.DESTRUCTIVE)


def read_openapi(config: SourceConfig) -> Reading:
    """Reads the description at `config.location`.

    Raises `DescriptionError` when it cannot be read at all and `ConfigError` for a filter or a server that is none.
    """
    _check(config)
    if config.pin is None and _URL.match(config.location):
        raise DescriptionError(
            "is a URL, and what it leads to is not pinned",
            where=config.location,
            suggestion="run `toolgen build` in its project, or download it, review it and name the file",
        )
    documents = open_documents(config)
    notes: list[Problem] = []

    def warn(origin: str, code: str, message: str) -> None:
        notes.append(Problem(level="warning", source=config.name, origin=origin, code=code, message=message))

    apply_overlays(documents, config.overlay, config.location, warn)
    reading = _Reader(config, documents, version_of(documents)).read()
    for file, repeated in documents.repeated.items():
        for one in repeated:
            warn(f"{file}{one.pointer}", "duplicate_key", one.message)
    return replace(
        reading,
        problems=(*notes, *reading.problems),
        files=documents.files,
        complete=documents.complete,
        references=documents.references,
        wanted=documents.wanted,
    )


def open_documents(config: SourceConfig) -> Documents:
    """The description of a source, nothing of it looked up yet and no overlay applied. Raises `DescriptionError`."""
    base = config.location if is_remote(config) else ""
    return Documents(Path(config.file), Remote(base=base, allowed=config.refs, pins=config.references))


def version_of(documents: Documents) -> str:
    """`2.0`, `3.0`, `3.1` or `3.2`. Raises `DescriptionError` for anything else."""
    root = documents.root
    written = root.get("openapi", root.get("swagger"))
    version = str(written)
    if "openapi" in root and (found := re.match(r"3\.([0-9]+)(?:\.|\Z)", version)):
        return f"3.{min(int(found[1]), 2)}"
    if "swagger" in root and re.match(r"2(?:\.0)*\Z", version):
        return "2.0"
    if written is None:
        raise DescriptionError(
            "has neither `openapi` nor `swagger` at its top, so it is no OpenAPI description",
            where=f"{documents.name}:1",
            suggestion="name the file that has it",
        )
    raise DescriptionError(
        f"is OpenAPI {version[:20]!r}; toolgen reads Swagger 2.0 and OpenAPI 3.0, 3.1 and 3.2",
        where=f"{documents.name}:1",
    )


def _check(config: SourceConfig) -> None:
    where = f"sources.{config.name}"
    for side, filters in (("include", config.include), ("exclude", config.exclude)):
        for key, values in filters.items():
            if key not in _FILTERS:
                raise ConfigError(f"{side} has no filter {key!r}{nearest(key, _FILTERS)}", where=where)
            if not isinstance(values, (list, tuple)) or not all(isinstance(value, str) for value in values):
                raise ConfigError(f"{side}.{key} is not a list of texts", where=where)
            if key == "effects" and (wrong := [value for value in values if value not in set(Effect)]):
                raise ConfigError(f"{side}.effects: {wrong[0]!r} is not read, write or destructive", where=where)
    if config.server:
        parts = urlsplit(config.server)
        if (
            parts.scheme not in {"http", "https"}
            or not parts.hostname
            or parts.query
            or parts.fragment
            or "@" in parts.netloc
        ):
            raise ConfigError(f"server {config.server!r} is not an http or https address", where=where)


class _Reader:
    """One reading in progress."""

    def __init__(self, config: SourceConfig, documents: Documents, version: str) -> None:
        self._config = config
        self._documents = documents
        self._version = version
        self._problems: list[Problem] = []
        self._origin = "#"
        self._schemas = Schemas(documents, version=version, note=self._warn)
        root = documents.root
        components = root.get("components")
        declared = root.get("securityDefinitions") if version == "2.0" else None
        if isinstance(components, dict):
            declared = components.get("securitySchemes")
        self._schemes: dict[str, SecurityScheme] = schemes(documents, declared)

    def read(self) -> Reading:
        built: dict[str, tuple[Operation, Tool]] = {}
        skipped, found = 0, False
        for route in routes(self._documents, self._version):
            found = True
            if isinstance(route, FaultError):
                self._fault(route, route.origin)
                skipped += 1
                continue
            self._origin = route.origin
            try:
                operation = self._operation(route)
                effect = self._effect(operation)
                if not _wanted(self._config, operation, effect):
                    continue
                built[route.origin] = (operation, self._tool(operation, effect))
            except FaultError as fault:
                self._fault(fault, route.origin)
                skipped += 1
            except RecursionError:
                self._fault(FaultError("schema_too_deep", "", "it is nested too deeply"), route.origin)
                skipped += 1
        if not found:
            self._note_emptiness()
        names = assign(self._config.name, {origin: self._candidates(entry[0]) for origin, entry in built.items()})
        tools = tuple(self._named(tool, names[origin]) for origin, (_, tool) in built.items())
        return Reading(
            info=self._info(),
            tools=tools,
            problems=tuple(dict.fromkeys(self._problems)),
            operations=len(tools) + skipped,
            identifiers={origin: entry[0].identifier for origin, entry in built.items() if entry[0].identifier},
        )

    def _note_emptiness(self) -> None:
        """Both may be meant (3.1.1, section 4.8.1), and both look like a build that lost everything."""
        root = self._documents.root
        if root.get("webhooks") and not root.get("paths"):
            message = "it describes webhooks alone, which are calls the system makes and does not take"
            self._add("info", "#/webhooks", "no_operations", message)
        elif "paths" not in root:
            self._add("warning", "#", "no_operations", "it has no `paths`, so there is nothing to call")
        else:
            self._add(
                "warning", "#/paths", "no_operations", "no path of it has an operation, so there is nothing to call"
            )

    def _operation(self, route: Route) -> Operation:
        parse = v2.operation if self._version == "2.0" else v3.operation
        return parse(self._documents, route, self._warn)

    def _tool(self, operation: Operation, effect: Effect) -> Tool:
        schema, binding = bind(operation, self._schemas, self._schemes, self._servers(operation), self._warn)
        if self._config.anonymous:
            if operation.security and () not in operation.security:
                wanted = " or ".join(" and ".join(option) for option in operation.security)
                self._warn(
                    "unauthenticated", f"sent without credentials because of `auth: none`; it asks for {wanted[:200]}"
                )
            operation = replace(operation, security=())
            binding = msgspec.structs.replace(binding, security=())
        for name in sorted({name for option in operation.security for name in option} - set(self._schemes)):
            self._warn(
                "unknown_scheme",
                f"needs the security scheme {name[:80]!r}, which is not described; calls will be refused",
            )
        for text in (operation.summary, operation.description, *(one.description for one in operation.parameters)):
            if reason := suspicion(text):
                self._warn("suspicious_text", f"a description {reason}; read it before an agent does")
        return Tool(
            name="",
            title=title(operation),
            description=describe(operation),
            input_schema=schema,
            output_schema=self._output(operation),
            effect=effect,
            idempotent=operation.method in _IDEMPOTENT,
            source=self._config.name,
            origin=operation.origin,
            binding=binding,
        )

    def _named(self, tool: Tool, name: str) -> Tool:
        return Tool(
            name=name,
            title=tool.title,
            description=tool.description,
            input_schema=tool.input_schema,
            output_schema=tool.output_schema,
            effect=tool.effect,
            idempotent=tool.idempotent,
            source=tool.source,
            origin=tool.origin,
            binding=tool.binding,
        )

    def _servers(self, operation: Operation) -> tuple[str, ...]:
        if self._config.server:
            return (self._config.server,)
        written = operation.servers
        if is_remote(self._config):  # they are relative to where the description is (3.1.1, section 4.8.5)
            written = tuple(joined(self._config.location, url) for url in written)
        usable = tuple(url for url in written if _is_server(url))
        if any(not _is_server(url) and urlsplit(url).scheme in {"http", "https"} for url in written):
            self._warn(
                "bad_server", "a server with a user name, a query or a fragment, or without a host, was left out"
            )
        if not usable:
            message = "the description names no absolute server for some operations; set `server:` in toolgen.yaml"
            self._add("warning", "#/servers", "no_server", message)
            return tuple(url for url in operation.servers if not _ABSOLUTE.match(url)) or ("/",)
        return usable

    def _effect(self, operation: Operation) -> Effect:
        """By method. A description may ask for more care than that, never for less: it is not the owner's word."""
        effect = _effect_of(operation.method)
        if not operation.hint:
            return effect
        if operation.hint not in set(Effect):
            self._warn("bad_hint", f"x-toolgen-effect {operation.hint[:40]!r} is not read, write or destructive")
            return effect
        hinted = Effect(operation.hint)
        if _SEVERITY.index(hinted) < _SEVERITY.index(effect):
            self._warn("bad_hint", f"x-toolgen-effect cannot lower the effect of {operation.method} to {hinted}")
            return effect
        return hinted

    def _output(self, operation: Operation) -> dict[str, Any] | None:
        if not operation.outputs:
            return None
        try:
            found = [self._schemas.convert(raw, Direction.OUTPUT) for raw in operation.outputs]
            return self._schemas.close(found[0] if len(found) == 1 else {"anyOf": found}, Direction.OUTPUT)
        except FaultError as fault:
            self._warn(fault.code, f"the answer's schema was left out: {fault.message}")
            return None

    def _candidates(self, operation: Operation) -> tuple[tuple[str, ...], ...]:
        groups: Iterable[str] = operation.tags
        named = from_identifier(operation.identifier, groups)
        return (*named, *from_route(operation.method, operation.path))

    def _info(self) -> SourceInfo:
        written = self._documents.root.get("info")
        info: Mapping[str, Any] = written if isinstance(written, dict) else {}
        return SourceInfo(
            kind="openapi",
            digest=self._documents.digest,
            title=str(info.get("title") or self._config.name)[:200],
            version=str(info.get("version") or "")[:100],
            security_schemes=self._schemes,
        )

    def _fault(self, fault: FaultError, origin: str) -> None:
        message = f"{fault.message}; the operation has no tool"
        self._add("error", fault.origin or origin, fault.code, message)

    def _warn(self, code: str, message: str) -> None:
        self._add("warning", self._origin, code, message)

    def _add(self, level: str, origin: str, code: str, message: str) -> None:
        self._problems.append(Problem(level=level, source=self._config.name, origin=origin, code=code, message=message))


def _effect_of(method: str) -> Effect:
    if method in _READING:
        return Effect.READ
    return Effect.DESTRUCTIVE if method == "DELETE" else Effect.WRITE


def _is_server(url: str) -> bool:
    """A user name would be a credential in every manifest, and a path cannot follow a query."""
    try:
        parts = urlsplit(url)
        return (
            parts.scheme in {"http", "https"}
            and bool(parts.hostname)
            and not set("?#").intersection(url)
            and "@" not in parts.netloc
        )
    except ValueError:
        return False


def _wanted(config: SourceConfig, operation: Operation, effect: Effect) -> bool:
    """Every kind of filter in `include` must agree; one in `exclude` is enough to leave an operation out."""
    agreed = all(_matches(key, values, operation, effect) for key, values in config.include.items())
    return agreed and not any(_matches(key, values, operation, effect) for key, values in config.exclude.items())


def _matches(key: str, values: Iterable[str], operation: Operation, effect: Effect) -> bool:
    match key:
        case "tags":
            return any(tag in values for tag in operation.tags)
        case "methods":
            return operation.method.upper() in {value.upper() for value in values}
        case "effects":
            return effect in values
        case _:
            return any(fnmatchcase(operation.identifier, value) for value in values)
