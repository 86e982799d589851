"""Conversion of an operation to the arguments of an agent (one flat input schema) and their places in a request (a compiled
`HttpBinding`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from toolgen.connectors.openapi.bodies import TEXTUAL, file_schema, is_empty, is_file, read_form, sendable, sent_part
from toolgen.connectors.openapi.describe import MAX_ARGUMENT_LENGTH, brief, flatten
from toolgen.connectors.openapi.examples import with_fitting_examples
from toolgen.connectors.openapi.filled_parameters import (
    NO_CONSTANTS,
    Constants,
    is_signature_part,
    sends_credential,
    without_credentials,
    without_key,
)
from toolgen.connectors.openapi.operation import FaultError, Operation, Parameter, RequestBody
from toolgen.connectors.openapi.schema import Direction, Schemas
from toolgen.connectors.openapi.v3 import JSON
from toolgen.model.ascii_names import romanized, with_original
from toolgen.model.auth_schemes import sent
from toolgen.model.http import is_gateway_header
from toolgen.model.manifest import SecurityScheme
from toolgen.model.parameter_names import described_override
from toolgen.model.tool import HttpBinding, HttpBody, HttpConstant, HttpParameter

__all__ = ["bind"]

_ARGUMENT = re.compile(r"[^A-Za-z0-9_.-]+")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_TEMPLATE = re.compile(r"\{([^{}/?#]*)\}")
_MAX_ARGUMENT_LENGTH = 64
# Headers that the gateway's HTTP client sets itself (body framing, connection lifetime).
_SENT_ANYWAY = frozenset(
    {
        *("accept", "accept-encoding", "connection", "content-length", "content-type", "host", "keep-alive"),
        *("te", "trailer", "transfer-encoding"),
    }
)
_CREDENTIALS = {"authorization": "{bearer: …}", "cookie": "{headers: {Cookie: …}}"}
_PLACES = ("path", "query", "header", "cookie", "querystring")
# An object schema with only these keywords can be spread over the top level without losing a constraint.
_FLAT = frozenset(
    {
        "type",
        "properties",
        "required",
        "title",
        "description",
        "example",
        "examples",
        "additionalProperties",
        "default",
        "xml",
        "externalDocs",
        "deprecated",
        "nullable",
        "$schema",
        "$id",
        "$comment",
    }
)
# Keywords beside a `$ref` that do not constrain the value.
_WORDS = frozenset(
    {"$ref", "$comment", "title", "summary", "description", "example", "examples", "externalDocs", "deprecated", "xml"}
)
# Keywords of a schema that contain no schemas.
_SIMPLE = frozenset(
    {
        *("type", "format", "enum", "default", "example", "description", "title", "pattern", "deprecated"),
        *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength"),
    }
)
_VALUES = ("string", "array", "number", "integer", "boolean", "null")
_PRIMITIVES = frozenset({"string", "number", "integer", "boolean", "null"})
_FORMS = ("multipart/", "application/x-www-form-urlencoded")
# Form fields that the description declares as one text.
_FIELDS: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "string"}}

Note = Callable[[str, str], None]


def bind(
    operation: Operation,
    schemas: Schemas,
    schemes: Mapping[str, SecurityScheme],
    servers: tuple[str, ...],
    note: Note,
    key_header: str = "",
    constants: Constants = NO_CONSTANTS,
) -> tuple[dict[str, Any], HttpBinding]:
    """Return the input schema and the binding of one operation; `key_header` as for `without_key`.

    Raises `FaultError` if one of them cannot be complete.
    """
    _check_method(operation)
    path, parameters = _templated(operation, note)
    parameters, fixed = constants.taken(parameters)
    parameters = [one for one in parameters if _offered(one, operation, schemes, note)]
    parameters, key = without_key(parameters, schemas, key_header, note)
    names = _Arguments()
    properties: dict[str, Any] = {}
    required: list[str] = []
    bound: dict[str, HttpParameter] = {}
    for place in _PLACES:
        for one in sorted((one for one in parameters if one.in_ == place), key=lambda one: one.name):
            argument = names.take(one.name, place)
            properties[argument] = _with_description(_parameter_schema(one, schemas), one.name)
            if one.required:
                required.append(argument)
            bound[argument] = _bound(one, argument)
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    body = None
    written = sendable(operation, schemas, note)
    if written is not None:
        written = without_credentials(written, schemas, operation, schemes, note)
        body, needed = _body(written, schemas, names, schema)
        required.extend(needed)
    if required:
        schema["required"] = required
    order = {(one.in_, one.name): index for index, one in enumerate(parameters)}
    return schemas.close(schema, Direction.INPUT), HttpBinding(
        method=operation.method,
        path=path,
        servers=servers,
        # Parameters are sent in the order of the description; only argument names must not depend on that order.
        parameters=tuple(sorted(bound.values(), key=lambda one: order[one.in_, one.name])),
        body=body,
        security=operation.security,
        scopes=tuple(map(dict, operation.scopes)) or msgspec.UNSET,
        key=key or msgspec.UNSET,
        constants=tuple(HttpConstant(parameter=_bound(one, ""), value=value) for one, value in fixed) or msgspec.UNSET,
    )


def _check_method(operation: Operation) -> None:
    if not _TOKEN.match(operation.method) or operation.method.upper() == "CONNECT":
        raise FaultError(
            "bad_method", operation.origin, f"{operation.method[:40]!r} is not a method that can be called"
        )


def _bound(one: Parameter, argument: str) -> HttpParameter:
    return HttpParameter(
        argument=argument,
        in_=one.in_,
        name=one.name,
        style=one.style,
        explode=one.explode,
        allow_reserved=one.allow_reserved,
        content_type=one.content_type,
        required=one.required,
        nested=one.nested,
        parts={name: sent_part(part) for name, part in one.parts.items()},
    )


class _Arguments:
    """Allocator of argument names: the wire name if it is free and valid for every provider, else a name that includes the place."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self, name: str, place: str) -> str:
        base = _ARGUMENT.sub("_", romanized(name)).strip("_.-")[:_MAX_ARGUMENT_LENGTH] or place
        if name in {base, f"_{base}", f"{base}_", f"_{base}_"}:
            base = name[:_MAX_ARGUMENT_LENGTH]
        choice, count = base, 1
        while choice in self._taken:
            suffix = f"_{place}" if count == 1 else f"_{place}_{count}"
            choice, count = base[: _MAX_ARGUMENT_LENGTH - len(suffix)] + suffix, count + 1
        self._taken.add(choice)
        return choice


def _templated(operation: Operation, note: Note) -> tuple[str, list[Parameter]]:
    """Return the path as a template, and the parameters, of which those in the path are exactly the variables of the template."""
    path, _, fragment = operation.path.partition("#")
    if "/" in fragment or "{" in fragment:
        raise FaultError(
            "bad_path", operation.origin, "the path continues after a #, and the part after # is never sent"
        )
    if fragment:
        note("fragment_in_path", "the path has a # in it; the part after # is never sent and was cut off")
    if not path.startswith("/"):
        note("bad_path", "the path does not begin with a slash; one was added")
        path = f"/{path}"
    if any(segment in {".", ".."} for segment in path.partition("?")[0].split("/")):
        raise FaultError("bad_path", operation.origin, "the path has a dot segment")
    if any("{" in pair.partition("=")[0] for pair in path.partition("?")[2].split("&") if "=" in pair):
        raise FaultError(
            "bad_path", operation.origin, "the path has a variable as the name of a parameter in its query"
        )
    named = list(dict.fromkeys(_TEMPLATE.findall(path)))
    if "{" in _TEMPLATE.sub("", path) or "" in named:
        raise FaultError("bad_path", operation.origin, "the path's braces do not match")
    kept = []
    asked = _TEMPLATE.findall(path.partition("?")[2])
    for one in operation.parameters:
        if one.in_ == "query" and one.name in asked:
            # `/e?id={id}` with `id` in the query: the parameter adds the pair, so the path must not contain it too.
            path = _without(path, one.name, operation)
            named = [name for name in named if f"{{{name}}}" in path]
        if one.in_ == "path" and one.name not in named:
            note(
                "unused_parameter", f"the path parameter {one.name[:80]!r} does not occur in the path and was left out"
            )
        else:
            kept.append(one)
    known = {one.name for one in kept if one.in_ == "path"}
    for name in named:
        if name not in known:
            note(
                "undeclared_parameter",
                f"the path names {name[:80]!r}, which is not declared; any text is accepted for it",
            )
            kept.append(
                Parameter(
                    name=name,
                    in_="path",
                    required=True,
                    schema={"type": "string"},
                    description="",
                    style="simple",
                    explode=False,
                )
            )
    return path, kept


def _without(path: str, name: str, operation: Operation) -> str:
    """Return the path without `name={name}` in its query."""
    route, _, query = path.partition("?")
    kept = [pair for pair in query.split("&") if pair != f"{name}={{{name}}}"]
    if any(f"{{{name}}}" in text for text in (route, *kept)):
        raise FaultError("bad_path", operation.origin, f"the path has a place for {name[:80]!r}, which is in the query")
    return f"{route}?{'&'.join(kept)}" if kept else route


def _offered(one: Parameter, operation: Operation, schemes: Mapping[str, SecurityScheme], note: Note) -> bool:
    """Return True if a parameter becomes an argument: it does not belong to HTTP itself, and no security scheme sends it."""
    if one.in_ in {"header", "cookie"} and not _TOKEN.match(one.name):
        if one.required:
            raise FaultError("bad_parameter", operation.origin, f"{one.name[:80]!r} is not a {one.in_} name")
        note("bad_parameter", f"{one.name[:80]!r} is not a {one.in_} name; the parameter was left out")
        return False
    shown = [schemes[name] for option in operation.security for name in option if name in schemes]
    if one.in_ == "header" and is_gateway_header(one.name):
        filled = any(sent(scheme) == ("header", one.name.lower()) for scheme in shown)
        if not filled and one.required and one.name.lower() not in _SENT_ANYWAY:
            auth = _CREDENTIALS.get(one.name.lower())
            why = f"name it in toolgen.yaml, auth: {auth}" if auth else "the gateway sends its own or none"
            note("gateway_header", f"the required header {one.name[:80]!r} cannot be set by an argument; {why}")
        return False
    if one.in_ == "query" and described_override(one.name):
        note("method_parameter", f"{one.name[:80]!r} in the query overrides the method of a request; it was left out")
        return False
    if any(is_signature_part(scheme, one) for scheme in shown):
        return False
    if any(sends_credential(scheme, one) for scheme in shown):
        note("credential_parameter", f"{one.name[:80]!r} in the {one.in_} carries a credential; the gateway sends it")
        return False
    return True


def _parameter_schema(one: Parameter, schemas: Schemas) -> dict[str, Any]:
    """Return the input schema of a parameter. A schema without parts is converted once, because operations share most parameters."""
    if one.examples or one.content_type or not isinstance(one.schema, dict) or not one.schema.keys() <= _SIMPLE:
        return _converted(one, schemas)
    key = (id(one.schema), one.name, one.description, one.required, one.deprecated)
    return schemas.known(key, one.schema, lambda: _converted(one, schemas))


def _converted(one: Parameter, schemas: Schemas) -> dict[str, Any]:
    schema = _as_text(one, schemas) or schemas.convert(one.schema, Direction.INPUT, optional=not one.required)
    if one.description:
        text = brief(one.description, MAX_ARGUMENT_LENGTH, one.name)
        schema = {key: value for key, value in schema.items() if key != "description"} | (
            {"description": text} if text else {}
        )
    if one.examples and "examples" not in schema:
        probe = schemas.convert({"examples": list(one.examples)}, Direction.INPUT)
        schema = with_fitting_examples({**schema, **probe})
    return {**schema, "deprecated": True} if one.deprecated else schema


def _with_description(schema: dict[str, Any], name: str) -> dict[str, Any]:
    return schema if name.isascii() else with_original(schema, name)


def _as_text(one: Parameter, schemas: Schemas) -> dict[str, Any] | None:
    """Return the schema of a parameter whose `content` is neither JSON nor a form, if it describes more than one value. The agent writes
    the text.
    """
    kind = (one.content_type or "").partition(";")[0].strip()
    if not kind or JSON.match(kind) or kind.lower() == "application/x-www-form-urlencoded":
        return None
    raw = schemas.resolve(one.schema)
    written = raw.get("type") if isinstance(raw, dict) else None
    if {*(written if isinstance(written, list) else [written])} <= _PRIMITIVES:
        return None
    return {"type": "string", "description": f"The value, as {kind[:80]}."}


def _body(body: RequestBody, schemas: Schemas, names: _Arguments, schema: dict[str, Any]) -> tuple[HttpBody, list[str]]:
    """Add the arguments of the body to the input schema. Return the compiled body and the names of its required arguments."""
    raw = schemas.resolve(body.schema)
    if is_empty(raw):
        return HttpBody(media_type=body.media_type, required=True), []
    is_form = body.media_type.lower().startswith(_FORMS)
    if is_form and isinstance(raw, dict) and raw.get("type") in _VALUES:
        # If a whole form were one text, it could contain names that nothing checks.
        body = replace(body, schema=_FIELDS)
        raw = _FIELDS
    form = read_form(body, schemas) if is_form else None
    written = body.schema if form is None else form.schema
    textual = form is None and not JSON.match(body.media_type)
    if textual or not _has_only_reference(body.schema, schemas) or not _spreads(raw, body, schemas):
        argument = names.take("body", "body")
        whole_file = textual and _raw_bytes(body.media_type, raw)
        if whole_file:
            converted = file_schema(body.description)
        elif textual:
            encoding = ", base64-encoded" if _base64(raw) else ""
            kind = body.media_type.partition(";")[0]
            converted = {"type": "string", "description": f"The body, as {kind}{encoding}."}
        else:
            converted = schemas.convert(written, Direction.INPUT, optional=not body.required)
        if (text := flatten(body.description, MAX_ARGUMENT_LENGTH)) and not whole_file:
            converted = {**converted, "description": text}
        schema["properties"][argument] = converted
        built = HttpBody(
            media_type=body.media_type,
            argument=argument,
            required=body.required,
            parts=form.parts if form else {},
            others=form.others if form else None,
            file=whole_file,
        )
        return built, [argument] if body.required else []
    places = _spread(raw, schemas.resolve(written), schemas, names, schema)
    wanted = set(_required(raw))
    built = HttpBody(
        media_type=body.media_type, properties=places, required=body.required, parts=form.parts if form else {}
    )
    return built, [argument for argument, name in places.items() if name in wanted]


def _spread(
    raw: dict[str, Any], written: dict[str, Any], schemas: Schemas, names: _Arguments, schema: dict[str, Any]
) -> dict[str, str]:
    """Turn the properties of a body into arguments. Return argument -> property."""
    if raw.get("additionalProperties") is False:
        schema["additionalProperties"] = False
    places: dict[str, str] = {}
    needed = set(_required(raw))
    for name, item in written["properties"].items():
        if not schemas.hidden(item, Direction.INPUT):
            argument = names.take(name, "body")
            places[argument] = name
            optional = name not in needed
            converted = schemas.convert(item, Direction.INPUT, optional=optional, nested=True)
            schema["properties"][argument] = _with_description(converted, name)
    return places


def _has_only_reference(raw: Any, schemas: Schemas) -> bool:
    """Return True if no keyword that constrains a value is beside the references that lead to a schema."""
    while isinstance(raw, dict) and isinstance(raw.get("$ref"), str):
        if schemas.siblings and any(key not in _WORDS and not key.startswith("x-") for key in raw):
            return False
        raw = schemas.target(raw)
    return True


def _spreads(raw: Any, body: RequestBody, schemas: Schemas) -> bool:
    """Return True if the properties of a body can become separate arguments without loss of information."""
    if not isinstance(raw, dict) or not isinstance(raw.get("properties"), dict) or not raw["properties"]:
        return False
    if any(key not in _FLAT and not key.startswith("x-") for key in raw) or raw.get("nullable") is True:
        return False
    if raw.get("type", "object") not in ("object", ["object"]) or raw.get("additionalProperties", False) is not False:
        return False
    shown = [name for name, item in raw["properties"].items() if not schemas.hidden(item, Direction.INPUT)]
    required = _required(raw)
    if any(name not in raw["properties"] for name in required):
        return False  # A required property without a description has no place among flat arguments.
    if raw.get("additionalProperties") is not False and any(
        name not in raw["properties"]
        for one in (*body.examples, raw.get("example"))
        if isinstance(one, dict)
        for name in one
    ):
        return False  # The schema is open, and its own example has properties that the schema does not name.
    # An optional body with required properties can be omitted completely, which flat arguments could not express.
    return bool(shown) and (body.required or not any(name in shown for name in required))


def _required(raw: dict[str, Any]) -> list[str]:
    """Return the valid names of `required`; other entries of the list are ignored."""
    written = raw.get("required")
    return [name for name in written if isinstance(name, str)] if isinstance(written, list) else []


def _base64(raw: Any) -> bool:
    return isinstance(raw, dict) and (raw.get("format") in ("byte", "base64") or "contentEncoding" in raw)


def _raw_bytes(media_type: str, raw: Any) -> bool:
    if _base64(raw):
        return False  # base64 is the text that is sent (3.0.4, section 4.4; 3.1.1, section 4.8.14.2)
    plain = media_type.partition(";")[0].strip().lower()
    if plain.startswith("text/") or plain.endswith(TEXTUAL):
        return is_file(raw)
    if "*" in plain:
        return True  # a range does not say that the body is text
    textual = isinstance(raw, dict) and raw.get("type") == "string" and not is_file(raw)
    return not textual or plain == "application/octet-stream" or plain.startswith(("image/", "audio/", "video/"))
