"""Reader of one OpenAPI description: every operation becomes a tool, an excluded entry or a problem."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

from toolgen.connectors.assigned_names import held_names, identity_of
from toolgen.connectors.naming import assign, from_identifier, from_route
from toolgen.connectors.openapi import v2, v3
from toolgen.connectors.openapi.binding import bind
from toolgen.connectors.openapi.describe import describe, help_url, suspicion, title, with_hint
from toolgen.connectors.openapi.documents import Documents
from toolgen.connectors.openapi.filled_parameters import Constants
from toolgen.connectors.openapi.framework_names import framework_names
from toolgen.connectors.openapi.operation import FaultError, Operation
from toolgen.connectors.openapi.operation_filter import READING, OperationFilter, effect_of
from toolgen.connectors.openapi.routes import Route, routes
from toolgen.connectors.openapi.schema import Direction, Schemas
from toolgen.connectors.openapi.security import schemes, with_credentials, without_conflicts
from toolgen.connectors.openapi.servers import located, unusable
from toolgen.connectors.openapi.siblings import hints
from toolgen.connectors.references import Remote
from toolgen.connectors.source import SourceConfig, SourceReading, is_remote
from toolgen.core.errors import ConfigError, DescriptionError
from toolgen.model.manifest import Problem, SecurityScheme, SourceInfo
from toolgen.model.shared_definitions import shared_among
from toolgen.model.tool import Effect, HttpBinding, HttpKey, Tool

__all__ = ["open_documents", "overlaid_documents", "read_openapi", "version_of"]

_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_ABSOLUTE = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.IGNORECASE)
_NOTES = frozenset({"body_required", "no_parts"})  # repaired problems that need no action
_MAX_IDENTIFIER = 200
_IDEMPOTENT = READING | {"PUT", "DELETE"}


def read_openapi(config: SourceConfig) -> SourceReading:
    """Read the description at `config.location`.

    Raises `DescriptionError` when it cannot be read, and `ConfigError` for an invalid filter or server.
    """
    _check(config)
    if config.pin is None and _URL.match(config.location):
        raise DescriptionError(
            "is a URL, and its content is not pinned",
            where=config.location,
            suggestion="run `toolgen build` in its project, or download it, review it and name the file",
        )
    notes: list[Problem] = []

    def warn(origin: str, code: str, message: str) -> None:
        notes.append(Problem(level="warning", source=config.name, origin=origin, code=code, message=message))

    documents = overlaid_documents(config, warn)
    reading = _DescriptionReader(config, documents, version_of(documents)).read()
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
    """Return the description of a source without resolved references or overlays. Raises `DescriptionError`."""
    base = config.location if is_remote(config) else ""
    return Documents(Path(config.file), Remote(base=base, allowed=config.refs, pins=config.references))


def overlaid_documents(config: SourceConfig, warn: Callable[[str, str, str], None] = lambda *_: None) -> Documents:
    """Open the description of a source and apply its overlays. `warn` receives origin, code and message of each action without a match."""
    documents = open_documents(config)
    if config.overlay:
        from toolgen.connectors.openapi.overlay import apply_overlays  # noqa: PLC0415 - JSONPath takes long to import, and few need it

        apply_overlays(documents, config.overlay, config.location, warn)
    return documents


def version_of(documents: Documents) -> str:
    """Return `2.0`, `3.0`, `3.1` or `3.2`. Raises `DescriptionError` for any other version."""
    root = documents.root
    written = root.get("openapi", root.get("swagger"))
    version = str(written)
    if "openapi" in root and (found := re.match(r"3\.([0-9]+)(?:\.|\Z)", version)):
        return f"3.{min(int(found[1]), 2)}"
    if "swagger" in root and re.match(r"2(?:\.0)*\Z", version):
        return "2.0"
    if written is None:
        raise DescriptionError(
            "has neither `openapi` nor `swagger` at its top, so it is not an OpenAPI description",
            where=f"{documents.name}:1",
            suggestion="name the file that has it",
        )
    raise DescriptionError(
        f"is OpenAPI {version[:20]!r}; toolgen reads Swagger 2.0 and OpenAPI 3.0, 3.1 and 3.2",
        where=f"{documents.name}:1",
    )


def _check(config: SourceConfig) -> None:
    where = f"sources.{config.name}"
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


class _DescriptionReader:
    """Reader of one OpenAPI description."""

    def __init__(self, config: SourceConfig, documents: Documents, version: str) -> None:
        self._config = config
        self._documents = documents
        self._version = version
        self._problems: list[Problem] = []
        self._origin = "#"
        self._constants = Constants(config.api.constants)
        self._filter = OperationFilter(config)
        self._schemas = Schemas(documents, version=version, note=self._warn)
        components = documents.top("components")
        declared = documents.top("securityDefinitions") if version == "2.0" else None
        if isinstance(components, dict):
            declared = components.get("securitySchemes")
        self._schemes: dict[str, SecurityScheme] = schemes(documents, declared)
        self._ways = () if self._schemes else tuple(config.api.ways)
        self._declared = frozenset(self._schemes)
        self._given = (config.api.ways.keys() - self._declared) | (config.api.configured & self._declared)
        self._schemes = {**config.api.ways, **self._schemes}

    def read(self) -> SourceReading:
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
                if not self._filter.wants(route):
                    continue
                operation = self._operation(route)
                built[route.origin] = (operation, self._tool(operation, self._effect(operation), help_url(route.raw)))
            except FaultError as fault:
                self._fault(fault, route.origin)
                skipped += 1
            except RecursionError:
                self._fault(FaultError("schema_too_deep", "", "it is nested too deeply"), route.origin)
                skipped += 1
        if not found:
            self._note_emptiness()
        for message in self._filter.unused():
            self._add("warning", "#/paths", "unused_filter", message)
        for message in self._constants.unused():
            self._add("warning", "#/paths", "unused_constant", message)
        operations = {origin: operation for origin, (operation, _) in built.items()}
        names, beside = self._names(operations), hints(operations)
        tools = tuple(self._named(tool, names[origin], beside.get(origin, "")) for origin, (_, tool) in built.items())
        # The schemas refer to this reader. Without that cycle, reference counting frees both and the document.
        del self._schemas
        identifiers = {origin: entry[0].identifier for origin, entry in built.items() if entry[0].identifier}
        return SourceReading(
            info=self._info(tools, identifiers),
            tools=tools,
            problems=tuple(dict.fromkeys(self._problems)),
            operations=len(tools) + skipped,
            identifiers=identifiers,
        )

    def _note_emptiness(self) -> None:
        """Report a description without operations. Both forms are valid (3.1.1, section 4.8.1), but look like a build that lost
        everything.
        """
        root = self._documents.root
        if root.get("webhooks") and not self._documents.top("paths"):
            message = "it describes only webhooks, which are calls that the system sends and does not receive"
            self._add("info", "#/webhooks", "no_operations", message)
        elif "paths" not in root:
            self._add("warning", "#", "no_operations", "it has no `paths`, so there is nothing to call")
        else:
            self._add(
                "warning", "#/paths", "no_operations", "no path of it has an operation, so there is nothing to call"
            )

    def _operation(self, route: Route) -> Operation:
        parse = v2.operation if self._version == "2.0" else v3.operation
        operation = parse(self._documents, route, self._warn)
        ways = () if route.raw.get("security") == [] else self._ways
        return with_credentials(operation, self._schemes, ways, self._given)

    def _tool(self, operation: Operation, effect: Effect, documented: str) -> Tool:
        operation = without_conflicts(operation, self._schemes)
        schema, binding = bind(
            operation,
            self._schemas,
            self._schemes,
            self._servers(operation),
            self._warn,
            self._config.key_header,
            self._constants,
        )
        if self._config.api.loose:
            binding = msgspec.structs.replace(binding, formats="loose")
        if self._config.anonymous:
            if operation.security and () not in operation.security:
                wanted = " or ".join(" and ".join(option) for option in operation.security)
                self._warn(
                    "unauthenticated",
                    f"sent without credentials because of `auth: none`; the description requires {wanted[:200]}",
                )
            operation = replace(operation, security=())
            binding = msgspec.structs.replace(binding, security=())
        if operation.files:
            binding = msgspec.structs.replace(binding, files=True)
        if operation.html:
            binding = msgspec.structs.replace(binding, html=True)
        if documented:
            binding = msgspec.structs.replace(binding, help_url=documented)
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
            description=describe(operation, binding.key.header if isinstance(binding.key, HttpKey) else ""),
            input_schema=schema,
            output_schema=self._output(operation),
            effect=effect,
            idempotent=operation.method in _IDEMPOTENT,
            source=self._config.name,
            origin=operation.origin,
            binding=binding,
            tags=operation.tags,
            operation=operation.identifier,
        )

    def _named(self, tool: Tool, name: str, hint: str) -> Tool:
        return Tool(
            name=name,
            title=tool.title,
            description=with_hint(tool.description, hint),
            input_schema=self._schemas.units.with_units(dict(tool.input_schema)),
            output_schema=tool.output_schema,
            effect=tool.effect,
            idempotent=tool.idempotent,
            source=tool.source,
            origin=tool.origin,
            binding=tool.binding,
            tags=tool.tags,
            operation=tool.operation,
        )

    def _servers(self, operation: Operation) -> tuple[str, ...]:
        if self._config.server:
            return (self._config.server,)
        servers = operation.servers
        if not servers.urls:
            raise FaultError("bad_server", operation.origin, servers.faults[0])
        faults = list(servers.faults)
        usable: list[str] = []
        for url in located(servers.urls, self._config.location if is_remote(self._config) else ""):
            fault = unusable(url)
            if fault is None:
                usable.append(url)
            elif _ABSOLUTE.match(url):
                faults.append(f"a server {fault}")
        for reason in faults:
            self._add("warning", servers.origin, "bad_server", f"{reason}; that server was left out")
        if not usable:
            message = "the description names no absolute server for some operations; set `server:` in toolgen.yaml"
            self._add("warning", "#/servers", "no_server", message)
            return tuple(url for url in servers.urls if not _ABSOLUTE.match(url)) or ("/",)
        return tuple(usable)

    def _effect(self, operation: Operation) -> Effect:
        """Return the effect by method. A hint of the description may raise the effect, never lower it, because the owner did not write
        it.
        """
        effect = effect_of(operation.method, operation.hint)
        if operation.hint and operation.hint not in set(Effect):
            self._warn("bad_hint", f"x-toolgen-effect {operation.hint[:40]!r} is not read, write or destructive")
        elif operation.hint and effect != operation.hint:
            self._warn(
                "bad_hint", f"x-toolgen-effect cannot lower the effect of {operation.method} to {operation.hint}"
            )
        return effect

    def _output(self, operation: Operation) -> dict[str, Any] | None:
        if not operation.outputs:
            return None
        try:
            found = [self._schemas.convert(raw, Direction.OUTPUT) for raw in operation.outputs]
            return self._schemas.close(found[0] if len(found) == 1 else {"anyOf": found}, Direction.OUTPUT)
        except FaultError as fault:
            self._warn(fault.code, f"the answer's schema was left out: {fault.message}")
            return None

    def _names(self, operations: Mapping[str, Operation]) -> dict[str, str]:
        """Return the names of operations: the author's identifiers if present, else names from the routes. Routes distinguish equal
        names.
        """
        candidates: dict[str, tuple[tuple[str, ...], ...]] = {}
        telling: dict[str, tuple[str, ...]] = {}
        for origin, operation in operations.items():
            routed = from_route(operation.method, operation.path)
            made = framework_names(operation.identifier, operation.method, operation.path, operation.tags)
            candidates[origin] = made or from_identifier(operation.identifier, operation.tags) or routed
            telling[origin] = (*routed[-1][1:], routed[-1][0])  # words of the path distinguish better than the method
        names = self._config.names
        held = held_names(names, {origin: identity_of("openapi", origin, "") for origin in operations})
        return assign(self._config.name, candidates, telling, held, {one.name for one in names.values()})

    def _info(self, tools: tuple[Tool, ...], identifiers: Mapping[str, str]) -> SourceInfo:
        written = self._documents.top("info")
        info: Mapping[str, Any] = written if isinstance(written, dict) else {}
        return SourceInfo(
            kind="openapi",
            digest=self._documents.digest,
            title=str(info.get("title") or self._config.name)[:200],
            version=str(info.get("version") or "")[:100],
            security_schemes=self._known(tools),
            definitions=shared_among(tool.input_schema for tool in tools),
            operations={origin: one for origin, one in sorted(identifiers.items()) if len(one) <= _MAX_IDENTIFIER},
        )

    def _known(self, tools: tuple[Tool, ...]) -> dict[str, SecurityScheme]:
        """Return the schemes that a tool can be called with: those of the description, and configured credentials if the description has
        none or a tool needs one.
        """
        if not self._declared:
            return self._schemes
        asked = {
            name
            for tool in tools
            if isinstance(tool.binding, HttpBinding)
            for option in tool.binding.security
            for name in option
        }
        return {name: one for name, one in self._schemes.items() if name in self._declared or name in asked}

    def _fault(self, fault: FaultError, origin: str) -> None:
        """Add the problem of an operation without a tool, at or below the operation. Skipped operations are counted by these problems."""
        place, elsewhere = fault.origin or origin, ""
        if place != origin and not place.startswith(f"{origin}/"):
            place, elsewhere = origin, f" (at {place[:300]})"
        self._add("error", place, fault.code, f"{fault.message}{elsewhere}; the operation has no tool")

    def _warn(self, code: str, message: str) -> None:
        self._add("info" if code in _NOTES else "warning", self._origin, code, message)

    def _add(self, level: str, origin: str, code: str, message: str) -> None:
        self._problems.append(Problem(level=level, source=self._config.name, origin=origin, code=code, message=message))
