"""What a request to a mock must hold: required parameters and body, of about the right type."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any
from urllib.parse import unquote

import jsonschema_rs
import orjson

from toolgen.mock.description import Description, Endpoint
from toolgen.model.schema import Json
from toolgen.sources.openapi.operation import Parameter
from toolgen.sources.openapi.v3 import JSON

__all__ = ["Fault", "Request", "faults", "unsupported"]

# Which values of a style are the text that was sent; of a form there may be several under one name.
_PLAIN = {"simple": ("integer", "number", "boolean", "string"), "form": ("integer", "number", "boolean")}
_INTEGER = re.compile(r"-?[0-9]+\Z")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request, taken apart. Header names are in lower case; `path` holds what the template's braces stand for, still encoded."""

    path: Mapping[str, str]
    query: Sequence[tuple[str, str]]
    headers: Mapping[str, str]
    cookies: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong, and where: `in` is path, query, header, cookie or body."""

    in_: str
    name: str
    detail: str

    def to_dict(self) -> dict[str, str]:
        return {"in": self.in_, "name": self.name, "detail": self.detail}


def unsupported(endpoint: Endpoint, request: Request) -> bool:
    """Whether the body is of a media type the operation does not take (RFC 9110, section 15.5.16)."""
    sent = _plain(request.headers.get("content-type", ""))
    if not request.body or not sent or not endpoint.accepts:
        return False
    ranges = [_plain(accepted) for accepted in endpoint.accepts]
    return not any(one in {sent, "*/*"} or (one.endswith("/*") and sent.startswith(one[:-1])) for one in ranges)


def faults(description: Description, endpoint: Endpoint, request: Request) -> list[Fault]:
    """Whatever keeps the request from being what the operation asks for; nothing beyond that is looked at."""
    found = [
        fault
        for parameter in endpoint.operation.parameters
        if (fault := _parameter_fault(description, parameter, request)) is not None
    ]
    return [*found, *_body_faults(description, endpoint, request)]


def _parameter_fault(description: Description, parameter: Parameter, request: Request) -> Fault | None:
    values = _values(parameter, request)
    schema = description.expected(parameter.schema) or {}
    kind = _kind(schema)
    if not values:
        spread = parameter.in_ == "querystring" or (kind in ("object", "") and parameter.in_ in ("query", "cookie"))
        if not parameter.required or spread or parameter.in_ == "path":
            return None  # a path that matched has its parameters; an exploded object has no name of its own on the wire
        return Fault(in_=parameter.in_, name=parameter.name, detail="is required and missing")
    if parameter.content_type or kind not in _PLAIN.get(parameter.style, ()):
        return None
    value = _typed(values[0], kind)
    try:
        wrong = next(iter(jsonschema_rs.validator_for(dict(schema)).iter_errors(value)), None)
    except (ValueError, jsonschema_rs.ReferencingError):
        return None
    return Fault(in_=parameter.in_, name=parameter.name, detail=wrong.message[:300]) if wrong else None


def _values(parameter: Parameter, request: Request) -> list[str]:
    match parameter.in_:
        case "path":
            found = request.path.get(parameter.name)
            return [] if found is None else [unquote(found)]
        case "query":
            start = f"{parameter.name}["
            return [value for name, value in request.query if name == parameter.name or name.startswith(start)]
        case "header":
            given = request.headers.get(parameter.name.lower())
            return [] if given is None else [given]
        case _:
            cookie = request.cookies.get(parameter.name)
            return [] if cookie is None else [cookie]


def _kind(schema: Mapping[str, Any]) -> str:
    """The one type of a plain value, or "" where it is not that simple."""
    kind = schema.get("type")
    return kind if isinstance(kind, str) else ""


def _typed(text: str, kind: str) -> Json:
    match kind:
        case "integer" if _INTEGER.match(text):
            return int(text[:100])
        case "integer" | "number" if _NUMBER.match(text):
            return float(text)
        case "boolean" if text in ("true", "false"):
            return text == "true"
        case _:
            return text


def _body_faults(description: Description, endpoint: Endpoint, request: Request) -> Iterator[Fault]:
    body = endpoint.operation.body
    if body is None:
        return
    if not request.body:
        if body.required:
            yield Fault(in_="body", name="", detail=f"a body of {body.media_type} is required and missing")
        return
    if not JSON.match(body.media_type) or not JSON.match(request.headers.get("content-type", "application/json")):
        return
    try:
        value = orjson.loads(request.body)
    except orjson.JSONDecodeError as error:
        yield Fault(in_="body", name="", detail=f"is not JSON: {error.msg}")
        return
    schema = description.expected(body.schema)
    if schema is None:
        return
    try:
        errors = jsonschema_rs.Draft202012Validator(dict(schema), offline=True).iter_errors(value)
    except (ValueError, jsonschema_rs.ReferencingError):
        return
    for wrong in islice(errors, 10):
        where = "".join(f"/{token}" for token in wrong.instance_path)
        yield Fault(in_="body", name=where, detail=wrong.message[:300])


def _plain(media_type: str) -> str:
    return media_type.partition(";")[0].strip().lower()
