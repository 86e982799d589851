"""An operation into what an agent fills in (one flat input schema) and where each argument goes (a compiled `HttpBinding`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from toolgen.model.headers import GATEWAY_HEADERS
from toolgen.model.manifest import SecurityScheme
from toolgen.model.tool import HttpBinding, HttpBody, HttpParameter, HttpPart
from toolgen.sources.openapi.describe import LONGEST_PARAMETER, flatten
from toolgen.sources.openapi.media import sendable
from toolgen.sources.openapi.operation import Body, FaultError, Operation, Parameter
from toolgen.sources.openapi.schema import Direction, Schemas, file_schema, is_file
from toolgen.sources.openapi.v3 import JSON

__all__ = ["bind"]

_ARGUMENT = re.compile(r"[^A-Za-z0-9_.-]+")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_TEMPLATE = re.compile(r"\{([^{}/?#]*)\}")
_LONGEST_ARGUMENT = 64
_PLACES = ("path", "query", "header", "cookie", "querystring")
# An object schema with nothing else can be spread over the top level without losing a constraint.
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
_VALUES = ("string", "array", "number", "integer", "boolean", "null")
_FORMS = ("multipart/", "application/x-www-form-urlencoded")

Note = Callable[[str, str], None]


def bind(
    operation: Operation, schemas: Schemas, schemes: Mapping[str, SecurityScheme], servers: tuple[str, ...], note: Note
) -> tuple[dict[str, Any], HttpBinding]:
    """The input schema and the binding of one operation. Raises `FaultError` where either cannot be whole."""
    if not _TOKEN.match(operation.method) or operation.method.upper() == "CONNECT":
        raise FaultError(
            "bad_method", operation.origin, f"{operation.method[:40]!r} is not a method that can be called"
        )
    path, parameters = _templated(operation, note)
    parameters = [one for one in parameters if _offered(one, operation, schemes, note)]
    names = _Arguments()
    properties: dict[str, Any] = {}
    required: list[str] = []
    bound: dict[str, HttpParameter] = {}
    for place in _PLACES:
        for one in sorted((one for one in parameters if one.in_ == place), key=lambda one: one.name):
            argument = names.take(one.name, place)
            properties[argument] = _parameter_schema(one, schemas)
            if one.required:
                required.append(argument)
            bound[argument] = HttpParameter(
                argument=argument,
                in_=place,
                name=one.name,
                style=one.style,
                explode=one.explode,
                allow_reserved=one.allow_reserved,
                content_type=one.content_type,
                required=one.required,
            )
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    body = None
    written = sendable(operation, schemas.resolve, note)
    if written is not None:
        body, needed = _body(written, schemas, names, schema)
        required.extend(needed)
    if required:
        schema["required"] = required
    order = {(one.in_, one.name): index for index, one in enumerate(parameters)}
    return schemas.close(schema, Direction.INPUT), HttpBinding(
        method=operation.method,
        path=path,
        servers=servers,
        # On the wire parameters keep the description's order; only argument names must not depend on it.
        parameters=tuple(sorted(bound.values(), key=lambda one: order[one.in_, one.name])),
        body=body,
        security=operation.security,
    )


class _Arguments:
    """Hands out argument names: the wire name where it is free and fit for every provider, else one that says its place."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self, name: str, place: str) -> str:
        base = _ARGUMENT.sub("_", name).strip("_.-")[:_LONGEST_ARGUMENT] or place
        if name in {base, f"_{base}", f"{base}_", f"_{base}_"}:
            base = name[:_LONGEST_ARGUMENT]
        choice, count = base, 1
        while choice in self._taken:
            suffix = f"_{place}" if count == 1 else f"_{place}_{count}"
            choice, count = base[: _LONGEST_ARGUMENT - len(suffix)] + suffix, count + 1
        self._taken.add(choice)
        return choice


def _templated(operation: Operation, note: Note) -> tuple[str, list[Parameter]]:
    """The path as it will be filled in, and the parameters with exactly those in the path that its template names."""
    path, _, fragment = operation.path.partition("#")
    if fragment:
        note("fragment_in_path", "what follows # in the path is never sent and was cut off")
    if not path.startswith("/"):
        note("bad_path", "the path does not begin with a slash; one was added")
        path = f"/{path}"
    if any(segment in {".", ".."} for segment in path.partition("?")[0].split("/")):
        raise FaultError("bad_path", operation.origin, "the path has a dot segment")
    named = list(dict.fromkeys(_TEMPLATE.findall(path)))
    if "{" in _TEMPLATE.sub("", path) or "" in named:
        raise FaultError("bad_path", operation.origin, "the path's braces do not match")
    kept = []
    for one in operation.parameters:
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
                f"the path names {name[:80]!r}, which is declared nowhere; any text is taken for it",
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


def _offered(one: Parameter, operation: Operation, schemes: Mapping[str, SecurityScheme], note: Note) -> bool:
    """Whether an argument may say it: not what belongs to HTTP itself and not what a security scheme sends."""
    if one.in_ in {"header", "cookie"} and not _TOKEN.match(one.name):
        if one.required:
            raise FaultError("bad_parameter", operation.origin, f"{one.name[:80]!r} is not a {one.in_} name")
        note("bad_parameter", f"{one.name[:80]!r} is not a {one.in_} name; the parameter was left out")
        return False
    if one.in_ == "header":
        if one.name.lower() in GATEWAY_HEADERS:
            return False
        if any(scheme.in_ == "header" and scheme.name.lower() == one.name.lower() for scheme in schemes.values()):
            note("credential_parameter", f"the header {one.name[:80]!r} carries a credential; the gateway sends it")
            return False
    needed = {name for option in operation.security for name in option}
    if any(schemes[name].in_ == one.in_ and schemes[name].name == one.name for name in needed if name in schemes):
        note("credential_parameter", f"{one.name[:80]!r} in the {one.in_} carries a credential; the gateway sends it")
        return False
    return True


def _parameter_schema(one: Parameter, schemas: Schemas) -> dict[str, Any]:
    schema = schemas.convert(one.schema, Direction.INPUT)
    if text := flatten(one.description, LONGEST_PARAMETER):
        schema = {**schema, "description": text}
    if one.examples and "examples" not in schema:
        probe = schemas.convert({"examples": list(one.examples)}, Direction.INPUT)
        schema = {**schema, **probe}
    return {**schema, "deprecated": True} if one.deprecated else schema


def _body(body: Body, schemas: Schemas, names: _Arguments, schema: dict[str, Any]) -> tuple[HttpBody, list[str]]:
    """Adds the body's arguments to the input schema; returns the compiled body and which of them are required."""
    properties = schema["properties"]
    form = body.media_type.lower().startswith(_FORMS)
    raw = schemas.resolve(body.schema)
    json = bool(JSON.match(body.media_type))
    # A form that is one value is a form somebody else has written.
    form = form and (not isinstance(raw, dict) or raw.get("type") not in _VALUES)
    whole_file = not json and not form and _raw_bytes(body.media_type, raw)
    spread = (json or form) and _spreads(raw, body, schemas)
    if not spread:
        argument = names.take("body", "body")
        if whole_file:
            converted = file_schema(body.description)
        elif json or form:
            converted = schemas.convert(_with_files(raw, schemas) if form else body.schema, Direction.INPUT)
        else:
            converted = {"type": "string"}
            encoding = ", base64-encoded" if _base64(raw) else ""
            converted["description"] = f"The body, as {body.media_type.partition(';')[0]}{encoding}."
        if (text := flatten(body.description, LONGEST_PARAMETER)) and not whole_file:
            converted = {**converted, "description": text}
        properties[argument] = converted
        built = HttpBody(
            media_type=body.media_type,
            argument=argument,
            required=body.required,
            parts=_parts(raw, body, schemas) if form else {},
            file=whole_file,
        )
        return built, [argument] if body.required else []
    if raw.get("additionalProperties") is False:
        schema["additionalProperties"] = False
    places: dict[str, str] = {}
    source = _with_files(raw, schemas) if form else raw
    for name, written in source["properties"].items():
        if schemas.hidden(written, Direction.INPUT):
            continue
        argument = names.take(name, "body")
        places[argument] = name
        properties[argument] = schemas.convert(written, Direction.INPUT)
    wanted = set(_required(raw))
    built = HttpBody(
        media_type=body.media_type,
        properties=places,
        required=body.required,
        parts=_parts(raw, body, schemas) if form else {},
    )
    return built, [argument for argument, name in places.items() if name in wanted]


def _spreads(raw: Any, body: Body, schemas: Schemas) -> bool:
    """Whether a body's properties may become arguments of their own, so that nothing the schema says is lost."""
    if not isinstance(raw, dict) or not isinstance(raw.get("properties"), dict) or not raw["properties"]:
        return False
    if any(key not in _FLAT and not key.startswith("x-") for key in raw) or raw.get("nullable") is True:
        return False
    if raw.get("type", "object") not in ("object", ["object"]) or raw.get("additionalProperties", False) is not False:
        return False
    shown = [name for name, item in raw["properties"].items() if not schemas.hidden(item, Direction.INPUT)]
    required = _required(raw)
    if any(name not in raw["properties"] for name in required):
        return False  # required, but described nowhere: flat arguments would have no place for it
    if raw.get("additionalProperties") is not False and any(
        name not in raw["properties"]
        for one in (*body.examples, raw.get("example"))
        if isinstance(one, dict)
        for name in one
    ):
        return False  # its own example says that the schema, which is open, does not name all there is
    # An optional body with required properties can be left out as a whole, which flat arguments could not say.
    return bool(shown) and (body.required or not any(name in shown for name in required))


def _required(raw: dict[str, Any]) -> list[str]:
    """The names that `required` lists; whatever else a description lists there is no name."""
    written = raw.get("required")
    return [name for name in written if isinstance(name, str)] if isinstance(written, list) else []


def _base64(raw: Any) -> bool:
    return isinstance(raw, dict) and (raw.get("format") in {"byte", "base64"} or "contentEncoding" in raw)


def _raw_bytes(media_type: str, raw: Any) -> bool:
    if _base64(raw):
        return False  # base64 is the text that is sent (3.0.4, section 4.4; 3.1.1, section 4.8.14.2)
    plain = media_type.partition(";")[0].strip().lower()
    if plain.startswith("text/") or plain.endswith(("xml", "yaml", "csv", "graphql", "javascript")):
        return is_file(raw)
    if plain == "application/x-www-form-urlencoded" or "*" in plain:
        return True  # no text is known to be of that kind
    textual = isinstance(raw, dict) and raw.get("type") == "string" and not is_file(raw)
    return not textual or plain == "application/octet-stream" or plain.startswith(("image/", "audio/", "video/"))


def _with_files(raw: Any, schemas: Schemas) -> Any:
    """The form's schema with files as objects; marked with `x-` so that the copy is recognised nowhere else."""
    if not isinstance(raw, dict) or not isinstance(raw.get("properties"), dict):
        return raw
    return {**raw, "properties": {name: _file_property(item, schemas) for name, item in raw["properties"].items()}}


def _file_property(written: Any, schemas: Schemas) -> Any:
    raw = schemas.resolve(written)
    if is_file(raw):
        return file_schema(raw.get("description"))
    if isinstance(raw, dict) and raw.get("type") == "array" and is_file(schemas.resolve(raw.get("items"))):
        return {**raw, "items": file_schema(None)}
    return written


def _parts(raw: Any, body: Body, schemas: Schemas) -> dict[str, HttpPart]:
    """Per property, what its Encoding Object and its type say about sending it; nothing where the default is meant."""
    built: dict[str, HttpPart] = {}
    properties = raw.get("properties") if isinstance(raw, dict) else None
    for name, written in properties.items() if isinstance(properties, dict) else ():
        one = schemas.resolve(written)
        items = schemas.resolve(one.get("items")) if isinstance(one, dict) and one.get("type") == "array" else None
        part = body.parts.get(name)
        file = is_file(one) or is_file(items)
        if part is None and not file:
            continue
        built[name] = HttpPart(
            content_type=part.content_type if part else None,
            style=part.style if part else None,
            explode=part.explode if part else None,
            allow_reserved=part.allow_reserved if part else False,
            file=file,
            headers=dict(part.headers) if part else {},
        )
    return built
