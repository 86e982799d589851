"""Rendering of a JSON value as the bytes of a media type."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from urllib.parse import urlencode
from xml.sax.saxutils import escape

from toolgen.connectors.openapi.v3 import JSON
from toolgen.model.schema import Json

__all__ = ["render"]

_LINES = ("application/jsonl", "application/x-ndjson", "application/x-jsonlines", "application/json-lines")
_PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
_TAG = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\Z")


def render(media_type: str, value: Json) -> bytes:
    """Return the bytes of a value. Text stays unchanged for media types other than JSON; other values use the syntax of the media type."""
    plain = media_type.partition(";")[0].strip().lower()
    if JSON.match(media_type):
        return _json(value)
    if plain == "text/event-stream":
        return b"data: " + (value.encode() if isinstance(value, str) else _json(value)) + b"\n\n"
    if plain in _LINES:
        items = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
        return b"".join(_json(item) + b"\n" for item in items)
    if plain == "image/png":
        return _PIXEL
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    if plain.endswith(("/xml", "+xml")):
        return ('<?xml version="1.0" encoding="UTF-8"?>' + _xml("root", value)).encode("utf-8", "replace")
    if plain == "application/x-www-form-urlencoded" and isinstance(value, Mapping):
        return urlencode({name: _text(item) for name, item in value.items()}).encode()
    return _json(value)


def _json(value: Json) -> bytes:
    """Return ASCII JSON, so that every value can be encoded, lone surrogates and numbers of any size included."""
    try:
        return json.dumps(value, allow_nan=False).encode()
    except ValueError:  # NaN and infinity are valid in YAML and not in JSON.
        return json.dumps(str(value)).encode()


def _xml(name: str, value: Json) -> str:
    tag = name if _TAG.match(name) else "item"
    if isinstance(value, Mapping):
        inner = "".join(_xml(key, item) for key, item in value.items())
    elif isinstance(value, Sequence) and not isinstance(value, str):
        inner = "".join(_xml("item", item) for item in value)
    else:
        inner = escape(_text(value))
    return f"<{tag}>{inner}</{tag}>"


def _text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value)
