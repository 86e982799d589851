"""Conversion of Swagger 2.0 to the internal model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from toolgen.connectors.openapi.documents import Documents
from toolgen.connectors.openapi.operation import FaultError, Operation, Parameter, Part, RequestBody
from toolgen.connectors.openapi.routes import Route
from toolgen.connectors.openapi.security import requirements, scopes
from toolgen.connectors.openapi.servers import Servers
from toolgen.connectors.openapi.v3 import choose, successes, text
from toolgen.model.media_types import holds_file, is_html

__all__ = ["operation"]

_PLACES = frozenset({"path", "query", "header"})
_NOT_SCHEMA = frozenset({"name", "in", "required", "description", "collectionFormat", "allowEmptyValue", "schema"})
# collectionFormat -> (style, explode); tsv has no name in OpenAPI 3.
_COLLECTIONS: Mapping[str, tuple[str, bool]] = {
    "csv": ("form", False),
    "ssv": ("spaceDelimited", False),
    "tsv": ("tabDelimited", False),
    "pipes": ("pipeDelimited", False),
    "multi": ("form", True),
}
_MAX_ITEMS_DEPTH = 20
_FORM = "application/x-www-form-urlencoded"
_MULTIPART = "multipart/form-data"


def operation(documents: Documents, route: Route, note: Callable[[str, str], None]) -> Operation:
    """Read one operation. Raises `FaultError`; `note(code, message)` receives the repairs."""
    route = route.opened(documents)
    raw, root = route.raw, documents.root
    parameters: list[Parameter] = []
    form: list[dict[str, Any]] = []
    body: RequestBody | None = None
    consumes = _list(raw.get("consumes", documents.top("consumes")))
    for origin, one in route.parameters(documents).values():
        match one["in"]:
            case "body":
                if body is not None:
                    note("bad_parameter", "it has more than one body; the last is sent")
                body = _body(one, consumes)
            case "formData":
                form.append(one)
            case place if place in _PLACES:
                parameters.append(_parameter(one, note))
            case place:
                raise FaultError("bad_parameter", origin, f"a parameter cannot be in {place[:40]!r}")
    if form and body is not None:
        message = "it has a body and form parameters, and a request has one of them; the body is sent"
        if any(one.get("required") is True for one in form):
            raise FaultError("bad_parameter", f"{route.origin}/parameters", message)
        note("bad_parameter", message)
    elif form:
        body = _form(form, consumes, note)
    security = raw["security"] if raw.get("security") is not None else documents.top("security")
    outputs, files, html = _answers(documents, route, note)
    return Operation(
        origin=route.origin,
        method=route.method,
        path=route.path,
        identifier=text(raw, "operationId"),
        summary=text(raw, "summary"),
        description=text(raw, "description"),
        tags=tuple(_list(raw.get("tags"))),
        deprecated=raw.get("deprecated") is True,
        hint=text(raw, "x-toolgen-effect"),
        parameters=tuple(parameters),
        body=body,
        servers=_servers(root, _list(raw.get("schemes", documents.top("schemes")))),
        security=requirements(security, f"{route.origin}/security"),
        scopes=scopes(security),
        outputs=outputs,
        files=files,
        html=html,
    )


def _list(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _schema(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the schema in a parameter: a parameter other than a body contains its schema's keywords directly."""
    return {key: value for key, value in raw.items() if key not in _NOT_SCHEMA}


def _parameter(raw: dict[str, Any], note: Callable[[str, str], None]) -> Parameter:
    style, explode = _collection(raw, note)
    if not isinstance(raw.get("required", False), bool) and raw["in"] != "path":
        note("bad_keyword", f"parameter {raw['name'][:80]!r}: `required` is neither true nor false, and was left out")
    if raw["in"] != "query":
        style, explode = ("simple" if style == "form" else style), False
    return Parameter(
        name=raw["name"],
        in_=raw["in"],
        required=raw.get("required") is True or raw["in"] == "path",
        schema=_schema(raw),
        description=text(raw, "description"),
        style=style,
        explode=explode,
        nested=_nested(raw, note),
        examples=(raw["x-example"],) if "x-example" in raw else (),
    )


def _collection(raw: dict[str, Any], note: Callable[[str, str], None]) -> tuple[str, bool]:
    written = raw.get("collectionFormat", "csv")
    if not isinstance(written, str) or written not in _COLLECTIONS:
        note("unknown_style", f"parameter {raw['name']!r}: collectionFormat {str(written)[:40]!r} does not exist")
        written = "csv"
    return _COLLECTIONS[written]


def _nested(raw: dict[str, Any], note: Callable[[str, str], None]) -> tuple[str, ...]:
    """Return the styles of the arrays within an array parameter (2.0, Items Object); `multi` is not valid there."""
    styles: list[str] = []
    items = raw.get("items")
    while isinstance(items, dict) and items.get("type") == "array" and len(styles) < _MAX_ITEMS_DEPTH:
        style, explode = _collection({"name": raw["name"], **items}, note)
        if explode:
            note("unknown_style", f"parameter {raw['name']!r}: collectionFormat 'multi' does not exist within an array")
        styles.append(style)
        items = items.get("items")
    return tuple(styles)


def _body(raw: dict[str, Any], consumes: list[str]) -> RequestBody:
    media_type = choose(dict.fromkeys(consumes or ["application/json"]))
    if media_type in {_FORM, _MULTIPART, "*/*"}:
        media_type = "application/json"  # a body parameter cannot be a form; the document contradicts itself
    return RequestBody(
        media_type=media_type,
        schema=raw.get("schema", {}),
        required=raw.get("required") is True,
        description=text(raw, "description"),
        parts={},
    )


def _form(parameters: list[dict[str, Any]], consumes: list[str], note: Callable[[str, str], None]) -> RequestBody:
    """Return formData parameters as the properties of one object, in the form of OpenAPI 3."""
    files = any(raw.get("type") == "file" for raw in parameters)
    parts: dict[str, Part] = {}
    properties: dict[str, Any] = {}
    for raw in parameters:
        style, explode = _collection(raw, note)
        properties[raw["name"]] = {**_schema(raw), "description": text(raw, "description")}
        if raw.get("type") == "array":
            parts[raw["name"]] = Part(style=style, explode=explode, headers={}, nested=_nested(raw, note))
    return RequestBody(
        media_type=_MULTIPART if files or (_MULTIPART in consumes and _FORM not in consumes) else _FORM,
        schema={
            "type": "object",
            "properties": properties,
            "required": [raw["name"] for raw in parameters if raw.get("required") is True],
        },
        required=any(raw.get("required") is True for raw in parameters),
        description="",
        parts=parts,
    )


def _servers(root: Mapping[str, Any], schemes: list[str]) -> Servers:
    host, base = text(root, "host"), text(root, "basePath")
    base = f"/{base.strip('/')}" if base.strip("/") else ""
    if not host:
        return Servers(urls=(base or "/",), origin="#/basePath")
    if not schemes:
        return Servers(
            urls=(f"//{host}{base}",), origin="#/host"
        )  # requested with the scheme of the description's URL (2.0, `schemes`)
    usable = [scheme for scheme in schemes if scheme in {"https", "http"}] or ["https"]
    urls = tuple(f"{scheme}://{host}{base}" for scheme in sorted(set(usable), reverse=True))
    return Servers(urls=urls, origin="#/host")


def _answers(
    documents: Documents, route: Route, note: Callable[[str, str], None]
) -> tuple[tuple[Any, ...], bool, bool]:
    """Return the distinct schemas of the successful answers, whether one may be a file, and whether they are described as HTML."""
    found: list[Any] = []
    described = files = False
    for status, response in successes(documents, route, note):
        if status == "default" and found:
            break
        schema = response.get("schema")
        if isinstance(schema, dict) and schema.get("type") != "file" and schema not in found:
            found.append(schema)
        described |= isinstance(schema, dict)
        files |= isinstance(schema, dict) and schema.get("type") == "file"
    produces = _list(route.raw.get("produces", documents.top("produces")))
    return tuple(found), files or (described and any(map(holds_file, produces))), any(map(is_html, produces))
