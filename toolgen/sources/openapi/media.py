"""As what media type a body is sent, where the description names one that nobody could put into a request as it is written."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from toolgen.model.media_type import MEDIA_TYPE
from toolgen.sources.openapi.operation import Body, FaultError, Operation
from toolgen.sources.openapi.schema import is_file

__all__ = ["sendable"]

_RANGE = re.compile(r"(\*|[\w!#$&^.+-]+)/\*(?:\s*;.*)?\Z", re.ASCII)
_FIRST = re.compile(r"\s*([\w!#$&^.+-]+/[\w!#$&^.+*-]+)(?=[ ,;])", re.ASCII)
_NOT_AN_OBJECT = frozenset({"string", "array", "number", "integer", "boolean", "null"})


def sendable(operation: Operation, resolve: Callable[[Any], Any], note: Callable[[str, str], None]) -> Body | None:
    """The operation's body with a media type that can be sent; None where there is none, or it is optional and cannot be sent.

    Raises `FaultError` where it cannot be sent and is required.
    """
    body = operation.body
    if body is None:
        return None
    media_type = _readable(body.media_type, note)
    raw = resolve(body.schema)
    plain = media_type.partition(";")[0].strip().lower()
    if not media_type:
        reason = f"its body has the media type {body.media_type[:80]!r}, which is none"
    elif plain.startswith("multipart/") and not _may_be_object(raw):
        reason = f"its body is {plain}, and its schema has no properties that could be the parts"
    else:
        return replace(body, media_type=_narrowed(media_type, plain, raw))
    if body.required:
        raise FaultError("bad_media_type", f"{operation.origin}/requestBody", reason)
    note("bad_media_type", f"{reason}; it can be left out, and it is")
    return None


def _readable(written: str, note: Callable[[str, str], None]) -> str:
    """The media type, or the first of what people write in its place (`application/json, text/json`, `application/json charset=utf-8`)."""
    if MEDIA_TYPE.match(written) or _RANGE.match(written):
        return written
    found = _FIRST.match(written)
    if found is None:
        return ""
    note("bad_media_type", f"{written[:80]!r} is no media type; the body is sent as {found[1]}")
    return found[1]


def _narrowed(media_type: str, plain: str, raw: Any) -> str:
    """A range as the one of its kind that says what the schema says; a file's stays, because the file has a media type of its own."""
    if plain == "multipart/*":
        return "multipart/form-data"
    if plain not in {"*/*", "application/*"} or is_file(raw):
        return media_type
    return media_type if plain == "application/*" and _type(raw) == "string" else "application/json"


def _may_be_object(raw: Any) -> bool:
    return _type(raw) not in _NOT_AN_OBJECT


def _type(raw: Any) -> str:
    written = raw.get("type") if isinstance(raw, Mapping) else None
    return written if isinstance(written, str) else "string" if is_file(raw) else ""
