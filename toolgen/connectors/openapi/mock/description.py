"""Mock's view of an OpenAPI description: matching of requests to operations, expected values and possible answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct

from toolgen.connectors.openapi import v2, v3
from toolgen.connectors.openapi.documents import Documents, UnresolvedRefError
from toolgen.connectors.openapi.mock.path_templates import PathTemplate
from toolgen.connectors.openapi.operation import FaultError, Operation
from toolgen.connectors.openapi.read import overlaid_documents, version_of
from toolgen.connectors.openapi.routes import Route, routes
from toolgen.connectors.openapi.schema import Direction, Schemas
from toolgen.connectors.source import SourceConfig
from toolgen.model.schema import Json, Schema

__all__ = ["DescribedResponse", "Endpoint", "MediaExample", "MockDescription"]


class MediaExample(Struct, frozen=True, kw_only=True):
    """Media type of a response. `schema` is as written, `None` if there is none; `examples` are the author's, in order."""

    media_type: str
    schema: Any
    examples: Mapping[str, Json]


class DescribedResponse(Struct, frozen=True, kw_only=True):
    """Response of an operation. `status` is as written: `200`, `4XX` or `default`. `headers` are schemas as written."""

    status: str
    media: tuple[MediaExample, ...]
    headers: Mapping[str, Any]


class Endpoint(Struct, frozen=True, kw_only=True):
    """Operation that the mock can serve. `accepts` are the media types its request body may have."""

    operation: Operation
    accepts: tuple[str, ...]
    answers: Mapping[str, DescribedResponse]
    path: PathTemplate
    fixed: frozenset[tuple[str, str]]  # query pairs that are part of the path's template


class MockDescription:
    """Routes of one description. `skipped` counts the operations that cannot be served."""

    def __init__(self, config: SourceConfig) -> None:
        """Read the description. Raises `DescriptionError` if it cannot be read."""
        self._documents = overlaid_documents(config)
        version = version_of(self._documents)
        self._schemas = Schemas(self._documents, version=version, note=_ignore)
        self._endpoints: dict[int, list[Endpoint]] = {}
        self.skipped = 0
        self.size = 0
        self._bases: set[str] = set()
        for route in routes(self._documents, version):
            self._add(route, version)
        for endpoints in self._endpoints.values():
            endpoints.sort(key=_generality)

    def _add(self, route: Route | FaultError, version: str) -> None:
        try:
            if isinstance(route, FaultError):
                raise route
            parse = v2.operation if version == "2.0" else v3.operation
            endpoint = self._endpoint(route, parse(self._documents, route, _ignore), version)
        except (FaultError, UnresolvedRefError):
            self.skipped += 1
            return
        self.size += 1
        self._endpoints.setdefault(_split(route.path)[0].count("/"), []).append(endpoint)
        self._bases |= {urlsplit(url).path.rstrip("/") for url in endpoint.operation.servers.urls} - {""}

    def _endpoint(self, route: Route, operation: Operation, version: str) -> Endpoint:
        plain, query = _split(route.path)
        reader = _Swagger if version == "2.0" else _OpenAPI
        return Endpoint(
            operation=operation,
            accepts=reader.accepts(self._documents, route),
            answers=dict(_answers(self._documents, route, reader)),
            path=PathTemplate(plain),
            fixed=frozenset() if "{" in query else frozenset(parse_qsl(query, keep_blank_values=True)),
        )

    def find(self, path: str, query: Sequence[tuple[str, str]]) -> list[tuple[Endpoint, Mapping[str, str]]]:
        """Return the operations that match a path (still percent-encoded), whatever their method, the most specific first.

        The path may begin with the description's base path or not, because `server:` in toolgen.yaml may include it.
        """
        for base in ("", *sorted(self._bases, key=len, reverse=True)):
            if not path.startswith(f"{base}/"):
                continue
            rest = path[len(base) :]
            found: list[tuple[Endpoint, Mapping[str, str]]] = [
                (endpoint, captured)
                for endpoint in self._endpoints.get(rest.count("/"), ())
                if (captured := endpoint.path.match(rest)) is not None and endpoint.fixed.issubset(query)
            ]
            if found:
                return found
        return []

    def expected(self, raw: Any) -> Schema | None:
        """Return the JSON Schema of a request value, or None if the schema is too broken for checks."""
        return self._converted(raw, Direction.INPUT)

    def promised(self, raw: Any) -> Schema | None:
        """Return the JSON Schema of an answer, equal to the tool's output schema."""
        return self._converted(raw, Direction.OUTPUT)

    def _converted(self, raw: Any, direction: Direction) -> Schema | None:
        try:
            return self._schemas.close(self._schemas.convert(raw, direction), direction)
        except (FaultError, RecursionError):
            return None


def _split(template: str) -> tuple[str, str]:
    """Return a path as it is sent, and the query that some descriptions append to it."""
    plain, _, query = template.partition("#")[0].partition("?")
    return plain if plain.startswith("/") else f"/{plain}", query


def _generality(endpoint: Endpoint) -> tuple[int, int, str]:
    """Return a sort key: fixed paths first, then templates with fixed parts, then all others."""
    return (len(endpoint.path.names), -len(endpoint.fixed), endpoint.operation.path)


def _answers(
    documents: Documents, route: Route, reader: type[_Swagger] | type[_OpenAPI]
) -> Iterator[tuple[str, DescribedResponse]]:
    responses = route.raw.get("responses")
    for status, written in responses.items() if isinstance(responses, dict) else ():
        if status.startswith("x-"):
            continue
        try:
            raw = documents.follow(written)
        except UnresolvedRefError:
            continue
        if isinstance(raw, dict):
            media = tuple(reader.media(documents, route, raw))
            yield (
                status.upper(),
                DescribedResponse(status=status.upper(), media=media, headers=_headers(documents, raw)),
            )


def _headers(documents: Documents, raw: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    headers = raw.get("headers")
    for name, written in headers.items() if isinstance(headers, dict) else ():
        try:
            header = documents.follow(written)
        except UnresolvedRefError:
            continue
        if isinstance(header, dict):
            schema = header.get("schema", header)
            shown = {"examples": [header["example"]]} if "example" in header else {}
            found[name] = {**schema, **shown} if isinstance(schema, dict) else schema
    return found


class _Swagger:
    """Media types and schemas of 2.0: `consumes`, `produces`, one schema per response, examples by media type."""

    @staticmethod
    def accepts(documents: Documents, route: Route) -> tuple[str, ...]:
        return _texts(route.raw.get("consumes", documents.root.get("consumes")))

    @staticmethod
    def media(documents: Documents, route: Route, raw: Mapping[str, Any]) -> Iterator[MediaExample]:
        produces = _texts(route.raw.get("produces", documents.root.get("produces"))) or ("application/json",)
        examples = raw.get("examples")
        examples = examples if isinstance(examples, dict) else {}
        if "schema" not in raw and not examples:
            return
        for media_type in dict.fromkeys([*produces, *examples]):
            shown = {"default": examples[media_type]} if media_type in examples else {}
            yield MediaExample(media_type=media_type, schema=raw.get("schema"), examples=shown)


class _OpenAPI:
    """Media types and schemas of 3.x: `content`."""

    @staticmethod
    def accepts(documents: Documents, route: Route) -> tuple[str, ...]:
        body = documents.follow(route.raw.get("requestBody"))
        content = body.get("content") if isinstance(body, dict) else None
        return tuple(content) if isinstance(content, dict) else ()

    @staticmethod
    def media(documents: Documents, route: Route, raw: Mapping[str, Any]) -> Iterator[MediaExample]:
        content = raw.get("content")
        for media_type, written in content.items() if isinstance(content, dict) else ():
            try:
                one = documents.follow(written)
            except UnresolvedRefError:
                continue
            if isinstance(one, dict):
                schema = one.get("schema", one.get("itemSchema"))
                yield MediaExample(media_type=media_type, schema=schema, examples=dict(_examples(documents, one)))


def _examples(documents: Documents, raw: Mapping[str, Any]) -> Iterator[tuple[str, Json]]:
    if "example" in raw:
        yield "default", raw["example"]
    named = raw.get("examples")
    for name, written in named.items() if isinstance(named, dict) else ():
        try:
            one = documents.follow(written)
        except UnresolvedRefError:
            continue
        if isinstance(one, dict) and ("value" in one or "dataValue" in one):
            yield name, one.get("dataValue", one.get("value"))


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _ignore(code: str, message: str) -> None:
    """Ignore a problem of the description. The build reports it, and the mock serves the rest."""
