"""Reader of the requests of a tool resource: a Tool for each, bound like an operation of an API, and sent by the same executor."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from toolgen.connectors.source import SourceConfig, SourceReading
from toolgen.connectors.tool_resource import Export, ExportFault, RequestTemplate, read_resource
from toolgen.core.errors import DescriptionError
from toolgen.core.spelling import nearest
from toolgen.model.http import is_gateway_header
from toolgen.model.manifest import Problem, SourceInfo
from toolgen.model.names import join
from toolgen.model.tool import Effect, HttpBinding, HttpBody, HttpConstant, HttpParameter, Tool

__all__ = ["problem_of", "read_requests"]

_METHODS = {"GET": Effect.READ, "HEAD": Effect.READ, "POST": Effect.WRITE, "PUT": Effect.WRITE, "PATCH": Effect.WRITE}
_IDEMPOTENT = frozenset({"GET", "HEAD", "PUT", "DELETE"})
_PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}", re.ASCII)
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}\Z")  # RFC 9110, section 5.6.2
_CREDENTIAL = re.compile(r"(?:token|secret|password|credential|authorization|api[_-]?key)\Z", re.IGNORECASE)
_SCALARS = frozenset({"string", "integer", "number", "boolean"})


def read_requests(config: SourceConfig) -> SourceReading:
    """Read the requests. Raises `DescriptionError` for an invalid resource; an invalid request becomes a problem with its line."""
    resource = read_resource(Path(config.resource), config.name)
    server = config.server or resource.base
    parts = urlsplit(server)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username or parts.query or parts.fragment:
        raise DescriptionError(
            "http: server is not an http(s) URL without user name, query and fragment", where=resource.path.name
        )
    tools: list[Tool] = []
    problems = [problem_of(config.name, fault) for fault in resource.faults]
    for export in resource.exports:
        try:
            tools.append(_tool(config, export, server))
        except ValueError as error:
            problems.append(problem_of(config.name, ExportFault(where=export.where, message=f"{export.name}: {error}")))
    info = SourceInfo(
        kind="openapi", digest=resource.digest, title=config.name, version="", security_schemes=dict(config.api.ways)
    )
    return SourceReading(
        info=info,
        tools=tuple(tools),
        problems=tuple(problems),
        operations=len(resource.exports) + len(resource.faults),
        identifiers={tool.origin: tool.origin.rpartition("#")[2] for tool in tools},
        files={str(resource.path): resource.digest},
        places={
            tool.origin: export.where for tool in tools for export in resource.exports if _origin(export) == tool.origin
        },
    )


def problem_of(source: str, fault: ExportFault) -> Problem:
    """Return an error that prevents the tool of one export."""
    message = f"{fault.where}: {fault.message}; the export has no tool"
    return Problem(level="error", source=source, origin=fault.where, code="bad_export", message=message)


def _origin(export: Export) -> str:
    return f"{export.where.rpartition(':')[0]}#{export.name}"


def _tool(config: SourceConfig, export: Export, server: str) -> Tool:
    request = export.request
    assert request is not None  # noqa: S101 - the reader has seen to it
    method = request.method.upper()
    if method not in _METHODS and method != "DELETE":
        raise ValueError(f"request: {request.method[:20]} is not a method{nearest(method, [*_METHODS, 'DELETE'])}")
    schema: dict[str, Any] = {"additionalProperties": False, **dict(export.parameters or {})}
    binding = _Binding(schema.get("properties", {}), frozenset(schema.get("required", [])))
    parameters = [*binding.path(request), *binding.query(request), *binding.headers(request)]
    body = binding.body(request, method)
    if unused := set(schema.get("properties", {})) - binding.used:
        raise ValueError(f"{min(unused)} does not occur in its request")
    return Tool(
        name=join(config.name, export.name),
        title=export.title or export.name.replace("_", " ").capitalize(),
        description=export.description,
        input_schema=schema,
        output_schema=None if export.output is None else dict(export.output),
        effect=Effect(export.effect) if export.effect else _METHODS.get(method, Effect.DESTRUCTIVE),
        idempotent=method in _IDEMPOTENT if export.idempotent is None else export.idempotent,
        source=config.name,
        origin=_origin(export),
        binding=HttpBinding(
            method=method,
            path=request.path,
            servers=(server,),
            parameters=tuple(one for one in parameters if isinstance(one, HttpParameter)),
            body=body,
            security=(tuple(sorted(config.api.ways)),) if config.api.ways else (),
            constants=tuple(one for one in parameters if isinstance(one, HttpConstant)) or msgspec.UNSET,
        ),
    )


class _Binding:
    """Destinations of the arguments. `used` are those with a destination."""

    def __init__(self, properties: Mapping[str, Any], required: frozenset[str]) -> None:
        self._properties = properties
        self._required = required
        self.used: set[str] = set()

    def path(self, request: RequestTemplate) -> Iterator[HttpParameter]:
        """Return the placeholders of the path, which are all required."""
        if not request.path.startswith("/") or "?" in request.path or "#" in request.path:
            raise ValueError("request: path begins with / and has no query")
        if "{" in _PLACEHOLDER.sub("", request.path) or "}" in _PLACEHOLDER.sub("", request.path):
            raise ValueError("request: path has a brace without an argument")
        for name in _PLACEHOLDER.findall(request.path):
            self._use(name, scalar=True)
            if name not in self._required:
                raise ValueError(f"{name} is in the path, so it must be required")
            yield HttpParameter(argument=name, in_="path", name=name, style="simple", explode=False, required=True)

    def query(self, request: RequestTemplate) -> Iterator[HttpParameter | HttpConstant]:
        """Yield the parameters and constants of the query string."""
        for name, value in request.query.items():
            yield self._placed("query", "form", name, value)

    def headers(self, request: RequestTemplate) -> Iterator[HttpParameter | HttpConstant]:
        """Return the headers, without credentials and headers of the gateway."""
        for name, value in request.headers.items():
            if not _TOKEN.match(name) or is_gateway_header(name):
                raise ValueError(f"headers: {name[:40]} is the gateway's own, or no name of a header")
            yield self._placed("header", "simple", name, value)

    def body(self, request: RequestTemplate, method: str) -> HttpBody | None:
        """Return the JSON body: one argument, or an object with arguments as members."""
        if not request.body:
            return None
        if method in {"GET", "HEAD", "DELETE"}:
            raise ValueError(f"a {method} request has no body")
        if isinstance(request.body, str):
            name = self._named(request.body, "body")
            return HttpBody(media_type="application/json", argument=name, required=name in self._required)
        members = {self._named(value, f"body {member[:40]}"): member for member, value in request.body.items()}
        if len(members) < len(request.body):
            raise ValueError("body: one argument is used for two members")
        return HttpBody(
            media_type="application/json", properties=members, required=not self._required.isdisjoint(members)
        )

    def _placed(
        self, place: str, style: str, name: str, value: str | int | float | bool
    ) -> HttpParameter | HttpConstant:
        if not isinstance(value, str) or not _PLACEHOLDER.search(value):
            if _CREDENTIAL.search(name) or (isinstance(value, str) and "${" in value):
                raise ValueError(f"{name[:40]} would be readable in the built files: a credential belongs under auth:")
            fixed = HttpParameter(argument="", in_=place, name=name, style=style, explode=style == "form")
            return HttpConstant(parameter=fixed, value=value)
        argument = self._named(value, f"{place} {name[:40]}")
        return HttpParameter(
            argument=argument,
            in_=place,
            name=name,
            style=style,
            explode=style == "form",
            required=argument in self._required,
        )

    def _named(self, value: str, where: str) -> str:
        found = _PLACEHOLDER.fullmatch(value)
        if found is None:
            raise ValueError(f"{where}: takes {{argument}} and nothing beside it")
        self._use(found[1], scalar=False)
        return found[1]

    def _use(self, name: str, *, scalar: bool) -> None:
        if name not in self._properties:
            raise ValueError(f"{{{name[:40]}}} is not one of its parameters{nearest(name, self._properties)}")
        if name in self.used:
            raise ValueError(f"{{{name[:40]}}} is used in two places")
        if scalar and self._properties[name].get("type") not in _SCALARS:
            raise ValueError(f"{name} is in the path, so its type is string, integer, number or boolean")
        self.used.add(name)
