"""Mock application of a description: one request in, one described answer out.

A request is refused if a required value is missing or a value has the wrong type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any
from urllib.parse import parse_qsl, unquote

import jsonschema_rs
from msgspec import Struct
from msgspec.structs import replace

from toolgen.connectors.mock_service import MockResponse
from toolgen.connectors.openapi.mock.description import Endpoint, MockDescription
from toolgen.connectors.openapi.mock.responses import preference, problem, reply
from toolgen.connectors.openapi.operation import Parameter
from toolgen.connectors.openapi.v3 import JSON
from toolgen.core.json_codec import decode_json
from toolgen.model.schema import Json

__all__ = ["MockApp"]

# Styles that send a value as its plain text. A form may repeat a name.
_PLAIN = {"simple": ("integer", "number", "boolean", "string"), "form": ("integer", "number", "boolean")}
_INTEGER = re.compile(r"-?[0-9]+\Z")
_QUOTED = re.compile(r'"(.*)"')
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?\Z")


class MockRequest(Struct, frozen=True, kw_only=True):
    """Parsed request. Header names are in lower case; `path` contains the values of the path template's variables, still encoded."""

    path: Mapping[str, str]
    query: Sequence[tuple[str, str]]
    headers: Mapping[str, str]
    cookies: Mapping[str, str]
    body: bytes


class RequestFault(Struct, frozen=True, kw_only=True):
    """Fault of a request and its place: `in` is path, query, header, cookie or body."""

    in_: str
    name: str
    detail: str

    def to_dict(self) -> dict[str, str]:
        return {"in": self.in_, "name": self.name, "detail": self.detail}


def unsupported(endpoint: Endpoint, request: MockRequest) -> bool:
    """Return True if the operation does not accept the media type of the body (RFC 9110, section 15.5.16)."""
    sent = _plain(request.headers.get("content-type", ""))
    if not request.body or not sent or not endpoint.accepts:
        return False
    ranges = [_plain(accepted) for accepted in endpoint.accepts]
    return not any(one in {sent, "*/*"} or (one.endswith("/*") and sent.startswith(one[:-1])) for one in ranges)


def faults(description: MockDescription, endpoint: Endpoint, request: MockRequest) -> list[RequestFault]:
    """Return the faults of a request according to its operation. Values that are not described are not checked."""
    found = [
        fault
        for parameter in endpoint.operation.parameters
        if (fault := _parameter_fault(description, parameter, request)) is not None
    ]
    return [*found, *_body_faults(description, endpoint, request)]


def _parameter_fault(description: MockDescription, parameter: Parameter, request: MockRequest) -> RequestFault | None:
    values = _values(parameter, request)
    schema = description.expected(parameter.schema) or {}
    kind = _kind(schema)
    if not values:
        spread = parameter.in_ == "querystring" or (kind in ("object", "") and parameter.in_ in ("query", "cookie"))
        if not parameter.required or spread or parameter.in_ == "path":
            return (
                None  # A matching path contains its parameters; an exploded object has no name of its own on the wire.
            )
        return RequestFault(in_=parameter.in_, name=parameter.name, detail="is required and missing")
    if parameter.content_type or kind not in _PLAIN.get(parameter.style, ()):
        return None
    value = _typed(values[0], kind)
    try:
        wrong = next(iter(jsonschema_rs.validator_for(dict(schema)).iter_errors(value)), None)
    except (ValueError, jsonschema_rs.ReferencingError):
        return None
    return RequestFault(in_=parameter.in_, name=parameter.name, detail=wrong.message[:300]) if wrong else None


def _values(parameter: Parameter, request: MockRequest) -> list[str]:
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
    """Return the single type of a plain value, or "" for any other schema."""
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


def _body_faults(description: MockDescription, endpoint: Endpoint, request: MockRequest) -> Iterator[RequestFault]:
    body = endpoint.operation.body
    if body is None:
        return
    if not request.body:
        if body.required:
            yield RequestFault(in_="body", name="", detail=f"a body of {body.media_type} is required and missing")
        return
    if not JSON.match(body.media_type) or not JSON.match(request.headers.get("content-type", "application/json")):
        return
    try:
        value = decode_json(request.body)
    except (ValueError, RecursionError) as error:
        yield RequestFault(in_="body", name="", detail=f"is not JSON: {error}")
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
        yield RequestFault(in_="body", name=where, detail=wrong.message[:300])


def _plain(media_type: str) -> str:
    return media_type.partition(";")[0].strip().lower()


class MockApp:
    """Application that answers according to one description. It has no state: the same request always gets the same answer."""

    def __init__(self, description: MockDescription) -> None:
        self._description = description
        self.size, self.skipped = description.size, description.skipped

    def answer(
        self, method: str, path: str, query: str, headers: Sequence[tuple[str, str]], body: bytes | None
    ) -> MockResponse:
        """Answer a request. `path` is encoded, header names are in lower case, and `body` is None if it is too large."""
        if body is None:
            return problem(413, "Too large", "a mock accepts at most 10 MiB")
        given = parse_qsl(query, keep_blank_values=True)
        found = self._description.find(path, given)
        if not found:
            return problem(404, "Not found", "no path of the description matches")
        meant = next((one for one in found if one[0].operation.method.upper() == method), None)
        if meant is None:
            return _not_allowed({endpoint.operation.method.upper() for endpoint, _ in found})
        endpoint, captured = meant
        by_name = dict(headers)
        cookies = _cookies("; ".join(_values_of(headers, "cookie")))
        request = MockRequest(path=captured, query=given, headers=by_name, cookies=cookies, body=body)
        wanted = preference(", ".join(_values_of(headers, "prefer")))
        if not wanted.code:
            if unsupported(endpoint, request):
                return problem(415, "Unsupported media type", f"this operation accepts {', '.join(endpoint.accepts)}")
            if wrong := faults(self._description, endpoint, request):
                detail = "the request does not match the description"
                return problem(400, "Bad request", detail, [fault.to_dict() for fault in wrong])
        return reply(self._description, endpoint, wanted, ", ".join(_values_of(headers, "accept")))


def _not_allowed(methods: set[str]) -> MockResponse:
    allowed = ", ".join(sorted(methods))
    return replace(problem(405, "Method not allowed", f"this path accepts {allowed}"), headers={"Allow": allowed})


def _values_of(headers: Sequence[tuple[str, str]], wanted: str) -> list[str]:
    return [value for name, value in headers if name == wanted]


def _cookies(header: str) -> dict[str, str]:
    """Read a Cookie header as browsers write it (RFC 6265, section 5.4)."""
    found = {}
    for pair in header.split(";"):
        name, separator, value = pair.partition("=")
        if separator:
            quoted = _QUOTED.fullmatch(value.strip())
            found[name.strip()] = value.strip() if quoted is None else re.sub(r"\\(.)", r"\1", quoted[1])
    return found
