"""Files in answers: bytes that stand as base64 in JSON, in whatever answer of whatever system.

A model cannot read base64, and pays for each character of it. So what is longer than 1 KiB is taken out, and a reference takes its place.
Two forms are known: a text that is base64 (RFC 4648, section 4 and 5, also in lines as MIME wraps it), and the object that executors
make of bytes, `{"base64": …}` with `media_type` and `filename` where they are known.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Set

from msgspec import Struct

from toolgen.model.excerpt import bounded
from toolgen.model.media import INLINE, is_media_type, media_type_of
from toolgen.model.schema import Json, Schema

__all__ = ["MAX_FILES", "EncodedFile", "declared_names", "taken_out"]

MAX_FILES = 100
"""How many files of one answer are kept: what comes behind them is only counted."""

_SHORTEST = INLINE * 4 // 3
_PLAIN = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\Z")
_URL_SAFE = re.compile(r"[A-Za-z0-9_-]+={0,2}\Z")
_HEX = re.compile(r"(?:[0-9a-f]+|[0-9A-F]+)\Z")
_UPPER, _LOWER, _NO_LETTER = re.compile("[A-Z]"), re.compile("[a-z]"), re.compile("[0-9+/]")
_OPAQUE = re.compile(r"token|cursor|next|continu|marker|signature|credential|secret|jwt|etag", re.IGNORECASE)
"""Names of members that hold encoded bytes which are given back as they are, and are no files."""
_PREFIX = re.compile(r"data:([^,;]{0,200})(?:;[^,;]{0,100}){0,4};base64,", re.IGNORECASE)  # RFC 2397
_OBJECT = frozenset({"base64", "media_type", "filename"})
_MAX_DEPTH = 200
_MAX_NAME_LENGTH = 200
_NESTED = (str, dict, list, tuple)


class EncodedFile(Struct, kw_only=True):
    """A file that was taken out of an answer, where it was `written` so. `place` is the object that stands in the answer now: what is put
    in it is read there."""

    written: str
    body: bytes
    media_type: str
    filename: str
    place: dict[str, Json]


def declared_names(schema: Schema | None) -> frozenset[str]:
    """The names of members that a schema declares to be base64 (`format: byte`, `contentEncoding: base64`), wherever they are in it."""
    names: set[str] = set()
    todo: list[object] = [schema]
    while todo:
        match todo.pop():
            case Mapping() as part:
                properties = part.get("properties")
                if isinstance(properties, Mapping):
                    names |= {name for name, one in properties.items() if _declares(one)}
                todo += part.values()
            case list() | tuple() as parts:
                todo += parts
    return frozenset(names)


def _declares(schema: object) -> bool:
    if not isinstance(schema, Mapping):
        return False
    items = schema.get("items")
    encoding = schema.get("contentEncoding")
    return (
        schema.get("format") in ("byte", "base64")
        or (isinstance(encoding, str) and encoding.lower() == "base64")
        or (isinstance(items, Mapping) and _declares(items))
    )


def taken_out(data: Json, declared: Set[str] = frozenset()) -> tuple[Json, list[EncodedFile]]:
    """The data with an object in place of each file, and the files. The same data, and no files, where there are none.

    `declared`: names of members that are base64 for certain.
    """
    found: list[EncodedFile] = []
    return _Search(declared, found).without(data, "", 0), found


class _Search:
    def __init__(self, declared: Set[str], found: list[EncodedFile]) -> None:
        self._declared = declared
        self._found = found

    def without(self, value: Json, name: str, depth: int) -> Json:
        match value:
            case str():
                return value if len(value) <= _SHORTEST else self._text(value, name)
            case dict():
                if "base64" in value and value.keys() <= _OBJECT:
                    return self._object(value)
                changed = None
                for key, item in value.items() if depth <= _MAX_DEPTH else ():
                    if type(item) is str and len(item) <= _SHORTEST:
                        continue
                    if isinstance(item, _NESTED) and (made := self.without(item, key, depth + 1)) is not item:
                        changed = dict(value) if changed is None else changed
                        changed[key] = made
                return value if changed is None else changed
            case list() | tuple() if depth <= _MAX_DEPTH:
                listed = None
                for index, item in enumerate(value):
                    if type(item) is str and len(item) <= _SHORTEST:
                        continue
                    if isinstance(item, _NESTED) and (made := self.without(item, name, depth + 1)) is not item:
                        listed = list(value) if listed is None else listed
                        listed[index] = made
                return value if listed is None else listed
            case _:
                return value

    def _text(self, text: str, name: str) -> Json:
        media_type, written = "", text
        if prefix := _PREFIX.match(text):
            media_type, written = prefix[1].strip().lower(), text[prefix.end() :]
        certain = prefix is not None or name in self._declared
        if not certain and _OPAQUE.search(name):
            return text
        body = _decoded(written, certain=certain)
        return text if body is None or len(body) <= INLINE else self._place(text, body, media_type, "")

    def _object(self, value: Mapping[str, Json]) -> Json:
        written, media_type, filename = value["base64"], value.get("media_type"), value.get("filename")
        if not isinstance(written, str) or len(written) <= _SHORTEST:
            return value
        try:
            body = base64.b64decode(written, validate=True)
        except ValueError:
            return value
        return self._place(
            written,
            body,
            media_type if isinstance(media_type, str) else "",
            filename if isinstance(filename, str) else "",
        )

    def _place(self, written: str, body: bytes, media_type: str, filename: str) -> Json:
        if not is_media_type(media_type):
            media_type = media_type_of(body)
        place: dict[str, Json] = {"media_type": media_type, "size": len(body)}
        if len(self._found) < MAX_FILES:
            self._found.append(
                EncodedFile(
                    written=written,
                    body=body,
                    media_type=media_type,
                    filename=bounded(filename, _MAX_NAME_LENGTH),
                    place=place,
                )
            )
        return {"resource": place}


def _decoded(text: str, *, certain: bool) -> bytes | None:
    """The bytes of a text that is base64; None for any other.

    `certain`: it says of itself that it is, or its description does. Otherwise a text is taken for base64 if it has both cases and a digit
    or a sign of base64, as encoded bytes have; hexadecimal digits, sequences of letters and tokens in the alphabet of URLs are none.
    """
    text = text.strip()
    if not _PLAIN.match(text):
        if not certain or not _URL_SAFE.match(text):
            return None
        text = text.replace("-", "+").replace("_", "/")
    lines = text.split()
    if len(lines) > 1 and (len(set(map(len, lines[:-1]))) > 1 or len(lines[-1]) > len(lines[0])):
        return None  # MIME's lines are of one length, but for the last (RFC 2045, section 6.8)
    text = "".join(lines)
    stripped = text.rstrip("=")
    padded = len(text) > len(stripped)
    if len(stripped) % 4 == 1 or (padded and len(text) % 4):
        return None
    if not certain and not padded:
        if len(stripped) % 4 or _HEX.match(stripped):
            return None
        if not (_UPPER.search(stripped) and _LOWER.search(stripped) and _NO_LETTER.search(stripped)):
            return None
    try:
        return base64.b64decode(stripped + "=" * (-len(stripped) % 4), validate=True)
    except ValueError:
        return None
