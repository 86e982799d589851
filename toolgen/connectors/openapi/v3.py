"""Conversion of OpenAPI 3.0, 3.1 and 3.2 to the internal model."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from toolgen.connectors.openapi.documents import Documents
from toolgen.connectors.openapi.operation import FaultError, Operation, Parameter, Part, RequestBody
from toolgen.connectors.openapi.routes import Route, opened_object
from toolgen.connectors.openapi.security import requirements, scopes
from toolgen.connectors.openapi.servers import Servers, described
from toolgen.connectors.syntax import escape
from toolgen.model.media_types import MEDIA_TYPE, holds_file, is_html

__all__ = ["JSON", "choose", "operation", "successes", "text"]

JSON = re.compile(r"application/(?:[^;\s]+\+)?json\s*(?:;.*)?\Z|text/json\b|[^/;\s]+/[^;\s]+\+json\b", re.IGNORECASE)
_STYLES: Mapping[str, tuple[str, ...]] = {
    "path": ("simple", "label", "matrix"),
    "query": ("form", "spaceDelimited", "pipeDelimited", "deepObject"),
    "header": ("simple",),
    "cookie": ("form", "cookie"),
}

_ORDER = ("multipart/form-data", "application/x-www-form-urlencoded", "application/octet-stream", "text/plain", "*/*")

Note = Callable[[str, str], None]


def operation(documents: Documents, route: Route, note: Note) -> Operation:
    """Read one operation. Raises `FaultError`; `note(code, message)` receives the repairs."""
    route = route.opened(documents)
    raw = route.raw
    written = [_parameter(route, origin, one, note) for origin, one in route.parameters(documents).values()]
    _check_querystring(written, route.origin)
    security = raw["security"] if raw.get("security") is not None else documents.top("security")
    tags = raw.get("tags")
    outputs, files, html = _answers(documents, route, note)
    return Operation(
        origin=route.origin,
        method=route.method,
        path=route.path,
        identifier=text(raw, "operationId"),
        summary=text(raw, "summary") or text(route.item, "summary"),
        description=text(raw, "description") or text(route.item, "description"),
        tags=tuple(tag for tag in tags if isinstance(tag, str)) if isinstance(tags, list) else (),
        deprecated=raw.get("deprecated") is True,
        hint=text(raw, "x-toolgen-effect"),
        parameters=tuple(written),
        body=_body(route),
        servers=_servers(documents, route),
        security=requirements(security, f"{route.origin}/security"),
        scopes=scopes(security),
        outputs=outputs,
        files=files,
        html=html,
    )


def text(raw: Mapping[str, Any], key: str) -> str:
    """Return a text, or "" if it is absent or not a text."""
    value = raw.get(key)
    return value if isinstance(value, str) else ""


def _parameter(route: Route, origin: str, raw: dict[str, Any], note: Note) -> Parameter:
    place = raw["in"]
    if place not in _STYLES and place != "querystring":
        raise FaultError("bad_parameter", origin, f"a parameter cannot be in {place[:40]!r}")
    schema, content_type = raw.get("schema", {}), None
    content = raw.get("content")
    parts: dict[str, Part] = {}
    if isinstance(content, dict) and content:
        content_type = next(iter(content))
        media = _media(content[content_type])
        schema, parts = media.get("schema", {}), _parts(media, content_type, route.version)
    elif place == "querystring":
        raise FaultError("bad_parameter", origin, "a parameter in the querystring needs `content`")
    style = raw.get("style")
    default = _STYLES.get(place, ("form",))[0]
    if style is None or place == "querystring":
        style = default
    elif style not in _STYLES[place]:
        note("unknown_style", f"parameter {raw['name']!r}: style {str(style)[:40]!r} does not exist in {place}")
        style = default
    explode = raw.get("explode")
    if not isinstance(raw.get("required", False), bool) and place != "path":
        note("bad_keyword", f"parameter {raw['name'][:80]!r}: `required` is neither true nor false, and was left out")
    return Parameter(
        name=raw["name"],
        in_=place,
        required=raw.get("required") is True or place == "path",
        schema=schema,
        description=text(raw, "description"),
        style=style,
        explode=explode if isinstance(explode, bool) else style in {"form", "cookie"},
        # Before 3.2 only for the query (3.1.1, section 4.8.12.2.2).
        allow_reserved=raw.get("allowReserved") is True and (place == "query" or route.version == "3.2"),
        content_type=content_type,
        parts=parts,
        examples=_examples(raw),
        deprecated=raw.get("deprecated") is True,
    )


def _examples(raw: Mapping[str, Any]) -> tuple[Any, ...]:
    if "example" in raw:
        return (raw["example"],)
    named = raw.get("examples")
    listed = list(named.values())[:3] if isinstance(named, dict) else []
    shown = [one for one in listed if isinstance(one, dict) and ("value" in one or "dataValue" in one)]
    return tuple(one.get("dataValue", one.get("value")) for one in shown)


def choose(media_types: Mapping[str, Any]) -> str:
    """Return the media type of the body: the one that fits an agent's arguments best, in the document's order among equals."""
    return min(media_types, key=_rank)


def _rank(media_type: str) -> int:
    plain = media_type.partition(";")[0].strip().lower()
    if plain == "application/json":
        return 0
    if JSON.match(media_type):
        return 1
    if plain in _ORDER:
        return _ORDER.index(plain) + 2
    return 9 if MEDIA_TYPE.match(media_type.strip()) else 10


def _body(route: Route) -> RequestBody | None:
    raw = route.raw.get("requestBody")
    if raw is None:
        return None
    content = raw.get("content") if isinstance(raw, dict) else None
    if not isinstance(raw, dict) or (content is not None and not isinstance(content, dict)):
        raise FaultError("bad_body", f"{route.origin}/requestBody", "its request body has no `content`")
    if not content:
        return None
    first, *others = [_sent(route, raw, kind) for kind in sorted(content, key=_rank)]
    return replace(first, others=tuple(others))


def _sent(route: Route, raw: dict[str, Any], media_type: str) -> RequestBody:
    """Return a request body in one of its media types."""
    media = _media(raw["content"][media_type])
    return RequestBody(
        media_type=media_type.strip(),
        schema=media.get("schema", {}),
        required=raw.get("required") is True,
        description=text(raw, "description"),
        parts=_parts(media, media_type, route.version),
        examples=_examples(media),
    )


def _media(media: Any) -> dict[str, Any]:
    return media if isinstance(media, dict) else {}


def _parts(media: Mapping[str, Any], media_type: str, version: str) -> dict[str, Part]:
    encoding = media.get("encoding")
    written = encoding.items() if isinstance(encoding, dict) else ()
    # 3.0 has a style only in forms (3.0.4, section 4.7.15.1.2); from 3.1 on multipart has one too.
    styled = version != "3.0" or media_type.strip().lower().startswith("application/x-www-form-urlencoded")
    return {name: _part(one, styled=styled) for name, one in written if isinstance(one, dict)}


def _part(raw: dict[str, Any], *, styled: bool) -> Part:
    headers = raw.get("headers")
    fixed: dict[str, str] = {}
    for name, header in headers.items() if isinstance(headers, dict) else ():
        schema = header.get("schema") if isinstance(header, dict) else None
        value = schema.get("const", schema.get("default")) if isinstance(schema, dict) else None
        if isinstance(value, str) and name.lower() not in {"content-type", "content-disposition"}:
            fixed[name] = value
    explode = raw.get("explode")
    return Part(
        content_type=text(raw, "contentType") or None,
        style=(text(raw, "style") or None) if styled else None,
        explode=explode if styled and isinstance(explode, bool) else None,
        allow_reserved=styled and raw.get("allowReserved") is True,
        headers=fixed,
    )


def _check_querystring(parameters: list[Parameter], origin: str) -> None:
    """Check that a parameter that is the whole query string is the only parameter in the query (3.2.0, section 4.12.1)."""
    places = [one.in_ for one in parameters]
    if places.count("querystring") > 1 or ("querystring" in places and "query" in places):
        message = "a parameter is the whole query string, and another parameter is in the query too"
        raise FaultError("bad_parameter", f"{origin}/parameters", message)


def _servers(documents: Documents, route: Route) -> Servers:
    """Return the nearest servers: the operation's, its path's or the document's."""
    for holder, base in ((route.raw, route.origin), (route.item, route.above), (documents.root, "#")):
        if written := holder.get("servers"):
            return described(opened_object(documents, written, "servers", f"{base}/servers"), f"{base}/servers")
    return described(None, "#/servers")


def _answers(documents: Documents, route: Route, note: Note) -> tuple[tuple[Any, ...], bool, bool]:
    """Return the distinct JSON schemas of the successful answers, whether one may be a file, and whether one is described as HTML."""
    found: list[Any] = []
    files = html = False
    for status, response in successes(documents, route, note):
        if status == "default" and found:
            break
        content = response.get("content")
        media_types = content if isinstance(content, dict) else {}
        files |= any(holds_file(name) or _is_binary(media) for name, media in media_types.items())
        html |= any(map(is_html, media_types))
        for media_type, media in media_types.items():
            if (
                JSON.match(media_type)
                and isinstance(media, dict)
                and "schema" in media
                and media["schema"] not in found
            ):
                found.append(media["schema"])
                break
    return tuple(found), files, html


def _is_binary(media: Any) -> bool:
    schema = media.get("schema") if isinstance(media, dict) else None
    return isinstance(schema, dict) and schema.get("format") == "binary"


def successes(documents: Documents, route: Route, note: Note) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the successful responses, and `default` after them. A response that cannot be followed is reported and ends the list."""
    responses = route.raw.get("responses")
    if not isinstance(responses, dict):
        return
    for status in sorted(responses):
        if not status.startswith("2") and status != "default":
            continue
        try:
            origin = f"{route.origin}/responses/{escape(status)}"
            response = opened_object(documents, responses[status], "response", origin)
        except FaultError as fault:
            note(fault.code, f"{fault.message}; the answer's schema was left out")
            return
        if isinstance(response, dict):
            yield status, response
