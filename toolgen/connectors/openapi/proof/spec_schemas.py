"""Places of an operation's schemas, with JSON pointers: parameters, body and answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from toolgen.connectors.openapi.documents import Documents, UnresolvedRefError
from toolgen.connectors.openapi.proof.reader import is_json
from toolgen.connectors.openapi.proof.spec_operation import ONE_FILE, SpecOperation
from toolgen.connectors.syntax import escape

__all__ = ["SpecBody", "SpecResponse", "answers", "body_of", "parameter_pointers", "parameter_schema"]

_NOT_A_SCHEMA = frozenset({"name", "in", "required", "description", "collectionFormat", "allowEmptyValue", "schema"})
_FORMS = ("multipart/", "application/x-www-form-urlencoded")
_FIRST = re.compile(r"[\s,;]")


class SpecBody(Struct, frozen=True, kw_only=True):
    """Request body as it is sent. `listed`: its media type is in the description; its schema is at `pointer` + `below`."""

    required: bool
    listed: bool
    schema: Any
    pointer: str
    below: str


class SpecResponse(Struct, frozen=True, kw_only=True):
    """Schema of a successful response, and its place."""

    schema: Any
    pointer: str


def parameter_pointers(described: SpecOperation, documents: Documents) -> Mapping[tuple[str, str], str]:
    """Return (place, name) -> the pointer to the parameter in the operation or its path."""
    found: dict[tuple[str, str], str] = {}
    above = "/".join(described.origin.split("/")[:3])
    for holder, pointer in ((described.item, above), (described.operation, described.origin)):
        for index, written in enumerate(holder.get("parameters") or ()):
            one = documents.follow(written)
            found[one["in"], one["name"]] = f"{pointer}/parameters/{index}"
    return found


def parameter_schema(
    written: Mapping[str, Any], version: str, documents: Documents, made: dict[int, tuple[Any, Any]]
) -> tuple[Any, str]:
    """Return a parameter's schema and its place; `made` collects the schemas that 2.0 writes into the parameter itself."""
    if version == "2.0":
        if id(written) not in made:
            made[id(written)] = (written, {key: one for key, one in written.items() if key not in _NOT_A_SCHEMA})
        return made[id(written)][1], ""
    content = written.get("content")
    if isinstance(content, dict) and content:
        kind = next(iter(content))
        media = _followed(content[kind], documents)
        schema = media.get("schema", {}) if isinstance(media, dict) else {}
        return schema, f"/content/{escape(str(kind))}/schema"
    return written.get("schema", {}), "/schema"


def body_of(described: SpecOperation, demanded: Callable[[Any], frozenset[str]], media_type: str) -> SpecBody | None:
    """Return the body of a media type as described; None if the operation has none. `demanded` returns the required names of a schema.

    A body with required properties is itself required for POST, PUT and PATCH, even if a description does not say so.
    """
    forgotten = described.method.lower() in {"post", "put", "patch"}
    if described.version == "2.0":
        found = _body_of_2(described)
        if found is None or not (forgotten and demanded(found.schema)):
            return found
        return replace(found, required=True)
    if described.body is None or not described.media:
        return None
    key = _key(described.media, media_type)
    media = described.media[key] if key is not None else {}
    schema = media.get("schema", {})
    structured = is_json(media_type) or media_type.lower().startswith(_FORMS)
    needed = schema is ONE_FILE or (forgotten and structured and bool(demanded(schema)))
    return SpecBody(
        required=described.body.get("required") is True or needed,
        listed=key is not None,
        schema=schema,
        pointer=f"{described.origin}/requestBody",
        below=f"/content/{escape(str(key))}/schema",
    )


def _body_of_2(described: SpecOperation) -> SpecBody | None:
    pointer = f"{described.origin}/parameters"
    form = [one for one in described.written if one["in"] == "formData"]
    whole = [one for one in described.written if one["in"] == "body"]
    if whole:
        schema = whole[-1].get("schema", {})
        required = whole[-1].get("required") is True
    elif form:
        needed = [one["name"] for one in form if one.get("required") is True]
        parts = {one["name"]: {key: item for key, item in one.items() if key not in _NOT_A_SCHEMA} for one in form}
        schema, required = {"type": "object", "properties": parts, "required": needed}, bool(needed)
    else:
        return None
    return SpecBody(required=required, listed=True, schema=schema, pointer=pointer, below="")


def _key(content: Mapping[str, Any], media_type: str) -> str | None:
    """Return the key of `content` for a media type: itself, else a range that includes it, else a list that begins with it."""
    sent = media_type.strip().lower()
    plain = sent.partition(";")[0].strip()
    ranges = {f"{plain.partition('/')[0]}/*", "*/*", "*"}

    def rank(key: str) -> int:
        written = key.strip().lower()
        base = written.partition(";")[0].strip()
        fits = (written == sent, base == plain, base in ranges, _FIRST.split(written)[0] == plain)
        return fits.index(True) if True in fits else len(fits)

    found = min(content, key=rank)
    return found if rank(found) < 4 else None


def answers(described: SpecOperation, documents: Documents) -> list[SpecResponse]:
    """Return the distinct JSON schemas of the responses for success, or of `default` if no successful status has one."""
    responses = described.operation.get("responses")
    found: list[SpecResponse] = []
    if not isinstance(responses, dict):
        return found
    for status in sorted(map(str, responses)):
        if not (status.startswith("2") or (status == "default" and not found)):
            continue
        try:
            response = documents.follow(responses[status])
        except UnresolvedRefError:
            return []
        if not isinstance(response, dict):
            continue
        pointer = f"{described.origin}/responses/{status}"
        for below, media in _of_response(response, described.version, documents):
            if all(media["schema"] != one.schema for one in found):
                found.append(SpecResponse(schema=media["schema"], pointer=f"{pointer}{below}/schema"))
                break
    return found


def _of_response(
    response: Mapping[str, Any], version: str, documents: Documents
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if version == "2.0":
        schema = response.get("schema")
        if isinstance(schema, dict) and schema.get("type") != "file":
            yield "", response
        return
    content = response.get("content")
    for kind, written in content.items() if isinstance(content, dict) else ():
        media = _followed(written, documents)
        if is_json(str(kind)) and isinstance(media, dict) and "schema" in media:
            yield f"/content/{escape(str(kind))}", media


def _followed(written: Any, documents: Documents) -> Any:
    try:
        return documents.follow(written)
    except UnresolvedRefError:
        return None
