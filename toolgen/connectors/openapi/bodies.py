"""Media types of request bodies, and the properties of a form that are files with the way each of them is sent.

A media type that cannot be sent as it is written is replaced by a valid one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from msgspec.structs import replace

from toolgen.connectors.openapi.describe import MAX_ARGUMENT_LENGTH, flatten
from toolgen.connectors.openapi.operation import FaultError, Operation, Part, RequestBody
from toolgen.connectors.openapi.schema import Schemas
from toolgen.model.file_arguments import FILE_SCHEMA
from toolgen.model.media_types import JSON, MEDIA_TYPE
from toolgen.model.tool import HttpPart

__all__ = ["TEXTUAL", "Form", "file_schema", "is_empty", "is_file", "read_form", "sendable", "sent_part"]

TEXTUAL = ("xml", "yaml", "csv", "graphql", "javascript", "jsonl", "ndjson", "jsonlines", "json-seq")
"""Suffixes of textual media types beside `text/*`. The agent writes the text of a sequence of JSON values."""

_FORMS = ("multipart/", "application/x-www-form-urlencoded")
_LISTS = ("allOf", "anyOf", "oneOf")
_ALONE = ("then", "else")
_SAID = frozenset({"title", "description", "example", "examples", "deprecated", "readOnly", "writeOnly", "default"})
_KEPT = ("readOnly", "writeOnly", "deprecated")
_TEXT_ONLY = frozenset({"type", "format", "minLength", "maxLength", "pattern"})
_MAX_SCHEMAS = 5_000


def is_file(schema: Any) -> bool:
    """Return True if a schema as written means raw bytes: `format: binary`, `type: file` (2.0), or only a `contentMediaType` (3.1)."""
    if not isinstance(schema, dict):
        return False
    if schema.get("type") == "file":
        return True
    written = schema.get("type", "string")
    kinds = [str(kind) for kind in written] if isinstance(written, list) else [str(written)]
    if set(kinds) - {"null"} != {"string"}:
        return False
    if schema.get("format") == "binary":
        return True
    media = schema.get("contentMediaType")
    return isinstance(media, str) and "contentEncoding" not in schema and not media.endswith(("json", "text/plain"))


def file_schema(description: object) -> dict[str, Any]:
    """Return the schema of a file argument, with the author's description."""
    text = flatten(description, MAX_ARGUMENT_LENGTH) if isinstance(description, str) else ""
    return {**FILE_SCHEMA, "description": text} if text else dict(FILE_SCHEMA)


class Form:
    """Form body. Files are objects with base64 in `schema`; `parts` and `others` are those of `HttpBody`."""

    def __init__(self, schema: Any, parts: dict[str, HttpPart], others: HttpPart | None) -> None:
        self.schema = schema
        self.parts = parts
        self.others = others


def read_form(body: RequestBody, schemas: Schemas) -> Form:
    """Return the form. Raises `FaultError` if a schema cannot be searched for files."""
    reader = _FileSchemaCopier(body, schemas)
    files = body.media_type.lower().startswith("multipart/")  # no other form can send a file
    schema = reader.body(body.schema) if files else body.schema
    parts: dict[str, HttpPart] = {}
    for name in dict.fromkeys((*reader.files, *body.parts)):
        parts[name] = sent_part(body.parts.get(name), file=name in reader.files)
    return Form(schema, parts, HttpPart(file=True) if reader.other_files else None)


def sent_part(part: Part | None, *, file: bool = False) -> HttpPart:
    """Return an Encoding Object in the form that a call needs."""
    if part is None:
        return HttpPart(file=file)
    return HttpPart(
        content_type=part.content_type,
        style=part.style,
        explode=part.explode,
        allow_reserved=part.allow_reserved,
        file=file,
        headers=dict(part.headers),
        nested=part.nested,
    )


class _FileSchemaCopier:
    """Copier of a schema along the paths to its files, through references and branches. Other parts are not copied.

    Below the value of a property there are no form parts: binary data there is text in a part of JSON.
    """

    def __init__(self, body: RequestBody, schemas: Schemas) -> None:
        self._parts = body.parts
        self._schemas = schemas
        self._open: set[tuple[str, str]] = set()
        self._left = _MAX_SCHEMAS
        self.files: dict[str, None] = {}
        self.other_files = False

    def body(self, raw: Any) -> Any:
        if not isinstance(raw, dict):
            return raw
        if isinstance(raw.get("$ref"), str):
            return self._through(raw, "", self.body)
        held = self._schemas.resolve(raw)
        changed = self._branches(held, self.body)
        properties = held.get("properties")
        if isinstance(properties, dict):
            changed["properties"] = {name: self._property(name, item) for name, item in properties.items()}
        patterns = held.get("patternProperties")
        if isinstance(patterns, dict):
            changed["patternProperties"] = {name: self._property(None, item) for name, item in patterns.items()}
        if isinstance(raw.get("additionalProperties"), dict):
            changed["additionalProperties"] = self._property(None, raw["additionalProperties"])
        return self._copied(raw, held, changed)

    def _property(self, name: str | None, raw: Any) -> Any:
        part = self._parts.get(name) if name is not None else None
        kind = (part.content_type or "") if part else ""

        def value(one: Any) -> Any:
            return self._value(one, name, kind)

        built = value(raw)
        if built is not raw and name is None:
            self.other_files = True
        elif built is not raw and name is not None:
            self.files[name] = None
        return built

    def _value(self, raw: Any, name: str | None, kind: str) -> Any:
        if not isinstance(raw, dict):
            return raw
        if is_file(raw) or (_bytes(kind) and all(key in _SAID or key.startswith("x-") for key in raw)):
            return _file(raw)

        def again(one: Any) -> Any:
            return self._value(one, name, kind)

        if isinstance(raw.get("$ref"), str):
            return self._through(raw, kind, again)
        held = self._schemas.resolve(raw)
        changed = self._branches(held, again)
        if isinstance(raw.get("items"), dict):
            changed["items"] = again(raw["items"])
        copied = self._copied(raw, held, changed)
        if copied is not raw and "items" not in changed and raw.get("type") == "string":
            return {key: item for key, item in copied.items() if key not in _TEXT_ONLY}
        return copied

    def _branches(self, raw: dict[str, Any], visit: Callable[[Any], Any]) -> dict[str, Any]:
        self._left -= 1
        if self._left < 0:
            raise FaultError("schema_too_deep", "", f"its form has more than {_MAX_SCHEMAS} schemas")
        changed: dict[str, Any] = {}
        for key in _LISTS:
            if isinstance(raw.get(key), list):
                changed[key] = [visit(one) for one in raw[key]]
        for key in _ALONE:
            if isinstance(raw.get(key), dict):
                changed[key] = visit(raw[key])
        return changed

    @staticmethod
    def _inclusive(raw: dict[str, Any]) -> dict[str, Any]:
        """Return the schema with `anyOf` for `oneOf`, because the object that represents a file may match a branch that the file does
        not match.
        """
        if "oneOf" not in raw:
            return raw
        branches = raw["oneOf"]
        rest = {key: item for key, item in raw.items() if key != "oneOf"}
        if "anyOf" not in rest:
            return {**rest, "anyOf": branches}
        return {**rest, "allOf": [*rest.get("allOf", []), {"anyOf": branches}]}

    def _through(self, raw: dict[str, Any], kind: str, visit: Callable[[Any], Any]) -> Any:
        """Return the target of a reference in place of the reference if the target contains a file. Keywords beside the reference are
        kept.
        """
        ref = raw["$ref"]
        if (ref, kind) in self._open:
            return raw
        self._open.add((ref, kind))
        target = self._schemas.target(raw)
        built = visit(target)
        self._open.discard((ref, kind))
        beside = {key: item for key, item in raw.items() if key != "$ref"} if self._schemas.siblings else {}
        if not beside:
            return raw if built is target else built
        visited = visit(beside)
        if built is target and visited is beside:
            return raw
        first = {"$ref": ref} if built is target else built
        written = visited.get("allOf")
        return {**visited, "allOf": [first, *(written if isinstance(written, list) else [])]}

    def _copied(self, raw: dict[str, Any], held: dict[str, Any], changed: Mapping[str, Any]) -> dict[str, Any]:
        if all(_same(held[key], item) for key, item in changed.items()):
            return raw
        return self._inclusive({**held, **changed})


def _same(before: Any, after: Any) -> bool:
    """Return True if no part below was replaced."""
    if isinstance(before, list) and isinstance(after, list):
        return all(one is other for one, other in zip(before, after, strict=True))
    if isinstance(before, dict) and isinstance(after, dict) and before.keys() == after.keys():
        return before is after or all(before[key] is after[key] for key in before)
    return before is after


def _file(raw: dict[str, Any]) -> dict[str, Any]:
    built = {**file_schema(raw.get("description")), **{key: raw[key] for key in _KEPT if key in raw}}
    written = raw.get("type")
    if (
        raw.get("nullable") is True
        or raw.get("x-nullable") is True
        or (isinstance(written, list) and "null" in written)
    ):
        built["type"] = ["object", "null"]
    return built


def _bytes(content_type: str) -> bool:
    """Return True if an Encoding Object's contentType can only mean raw bytes."""
    first = content_type.partition(",")[0].partition(";")[0].strip().lower()
    return bool(first) and not JSON.match(first) and not first.startswith("text/") and not first.endswith(TEXTUAL)


_RANGE = re.compile(r"(\*|[\w!#$&^.+-]+)/\*(?:\s*;.*)?\Z", re.ASCII)
_FIRST = re.compile(r"\s*([\w!#$&^.+-]+/[\w!#$&^.+*-]+)(?=[ ,;])", re.ASCII)
_NAMED_PARTS = frozenset({"multipart/form-data", "multipart/*"})
_CHANGING = frozenset({"POST", "PUT", "PATCH"})
_FILE_PART = {
    "type": "object",
    "properties": {
        "file": {
            "type": "string",
            "format": "binary",
            "description": "The content to send, as the only part of the form.",
        }
    },
    "required": ["file"],
}


def sendable(operation: Operation, schemas: Schemas, note: Callable[[str, str], None]) -> RequestBody | None:
    """Return the operation's body in a form that can be sent. Returns None if there is no body, or if an optional body is empty or cannot
    be sent.

    Raises `FaultError` if a required body cannot be sent.
    """
    body = operation.body
    if body is None:
        return None
    if is_empty(schemas.resolve(body.schema)) and not body.required:
        return None
    body = _with_parts(body, schemas, note)
    media_type = _readable(body.media_type, note)
    raw = schemas.resolve(body.schema)
    if not media_type:
        reason = f"its body has the media type {body.media_type[:80]!r}, which is not a valid media type"
        if body.required:
            raise FaultError("bad_media_type", f"{operation.origin}/requestBody", reason)
        note("bad_media_type", f"{reason}; it is optional and was left out")
        return None
    media_type = _narrowed(media_type, media_type.partition(";")[0].strip().lower(), raw)
    structured = bool(JSON.match(media_type)) or media_type.lower().startswith(_FORMS)
    if structured and not body.required and operation.method in _CHANGING and (names := schemas.demands(body.schema)):
        said = ", ".join(sorted(names))[:100]
        note(
            "body_required",
            f"its body has required properties ({said}), and so it is required, which the description forgot",
        )
        body = replace(body, required=True)
    return replace(body, media_type=media_type)


def is_empty(raw: Any) -> bool:
    """Return True if a body's schema declares an object without properties."""
    return (
        isinstance(raw, dict)
        and raw.get("properties") == {}
        and raw.get("type", "object") in ("object", ["object"])
        and not _open_parts(raw)
        and raw.keys().isdisjoint(_LISTS)
    )


def _with_parts(body: RequestBody, schemas: Schemas, note: Callable[[str, str], None]) -> RequestBody:
    """Return the body. For multipart without named parts, return another media type that is offered, or one file as the only part."""
    if _is_divided(body, schemas):
        return body
    kind = body.media_type.partition(";")[0].strip()
    for other in body.others:
        if _is_divided(other, schemas) and (MEDIA_TYPE.match(other.media_type) or _RANGE.match(other.media_type)):
            note("no_parts", f"its body as {kind} names no parts; it is sent as {other.media_type[:80]}")
            return other
    if kind.lower() not in _NAMED_PARTS:
        raise FaultError("bad_media_type", "", f"its body is {kind[:80]}, and nothing says which parts that has")
    note("no_parts", f"its body as {kind} names no parts; one file is sent, as the part 'file'")
    return replace(body, schema=_FILE_PART, required=True, parts={})


def _is_divided(body: RequestBody, schemas: Schemas) -> bool:
    return (
        not body.media_type.lower().startswith("multipart/") or bool(body.parts) or _names_parts(body.schema, schemas)
    )


def _names_parts(written: Any, schemas: Schemas) -> bool:
    todo, seen = [written], set[int]()
    while todo:
        raw = schemas.resolve(todo.pop())
        if not isinstance(raw, dict) or id(raw) in seen:
            continue
        seen.add(id(raw))
        if raw.get("properties") or _open_parts(raw):
            return True
        todo += [one for key in _LISTS if isinstance(raw.get(key), list) for one in raw[key]]
    return False


def _open_parts(raw: dict[str, Any]) -> bool:
    """Return True if a schema explicitly allows members that it does not name."""
    return bool(raw.get("patternProperties")) or raw.get("additionalProperties") not in (None, False)


def _readable(written: str, note: Callable[[str, str], None]) -> str:
    """Return the media type, or the first valid one in a common misspelling (`application/json, text/json`, `application/json
    charset=utf-8`).
    """
    if MEDIA_TYPE.match(written) or _RANGE.match(written):
        return written
    found = _FIRST.match(written)
    if found is None:
        return ""
    note("bad_media_type", f"{written[:80]!r} is not a media type; the body is sent as {found[1]}")
    return found[1]


def _narrowed(media_type: str, plain: str, raw: Any) -> str:
    """Return the concrete media type of a range that fits the schema. A range for a file stays, because the file has its own media type."""
    if plain == "multipart/*":
        return "multipart/form-data"
    if plain not in {"*/*", "application/*"} or is_file(raw):
        return media_type
    return media_type if plain == "application/*" and _type(raw) == "string" else "application/json"


def _type(raw: Any) -> str:
    written = raw.get("type") if isinstance(raw, Mapping) else None
    return written if isinstance(written, str) else "string" if is_file(raw) else ""
