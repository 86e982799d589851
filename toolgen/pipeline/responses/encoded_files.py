"""Files in answers: base64 bytes in the JSON of any system's answer.

A model cannot read base64, and each character of it costs tokens. So base64 of more than 1 KiB is replaced by a reference. Three forms are
recognised: a text that is base64 (RFC 4648, section 4 and 5, also in lines as MIME wraps it), a text that contains base64 among other
words (Markdown, mail, JSON in a text), and the object that executors make of bytes, `{"base64": …}` with `media_type` and `filename` if
they are known.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any

from msgspec import Struct

from toolgen.model.excerpt import bounded
from toolgen.model.media import INLINE, PICTURES, is_media_type, media_type_of
from toolgen.model.schema import Json, Schema

__all__ = ["MAX_FILES", "EncodedFile", "completed", "declared_names", "taken_out"]

MAX_FILES = 100
"""Maximum number of files that are stored for one answer: later ones are only counted."""

_SHORTEST = INLINE * 4 // 3
_PLAIN = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\Z")
_URL_SAFE = re.compile(r"[A-Za-z0-9_-]+={0,2}\Z")
_HEX = re.compile(r"(?:[0-9a-f]+|[0-9A-F]+)\Z")
_UPPER, _LOWER, _NO_LETTER = re.compile("[A-Z]"), re.compile("[a-z]"), re.compile("[0-9+/]")
_OPAQUE = re.compile(r"token|cursor|next|continu|marker|signature|credential|secret|jwt|etag", re.IGNORECASE)
"""Names of members with encoded bytes that callers send back unchanged; they are not files."""
_PREFIX = re.compile(r"data:([^,;]{0,200})(?:;[^,;]{0,100}){0,4};base64,", re.IGNORECASE)  # RFC 2397
_FORMATS = frozenset({*PICTURES, "application/pdf", "application/zip"})
"""Formats that no token has: base64 of these is a file for any alphabet, length and member name."""
_HEAD = re.compile(r"\s*(?:[A-Za-z0-9+/_-]{4}\s{0,2}){16}")
_WINDOW = _SHORTEST // 2
_RUN = re.compile(
    r"(?<![A-Za-z0-9+/_-])(?:(?:[A-Za-z0-9+/]{60,76}+(?:\r?\n|(?:\\r)?\\n)){16,}+[A-Za-z0-9+/]{0,76}|[A-Za-z0-9+/_-]{1366,}+)={0,2}"
)
"""Base64 among other words, in one line or in lines of MIME, whose breaks are escapes in a JSON text."""
_URL_BEFORE = re.compile(r"://[^\s\"'<>\\()\[\]{}|,;]*\Z")
_PART_ENDS = (".", "%", "-----\n", "-----\r\n", "-----\\n", "-----\\r\\n")
_PREFIX_REACH, _NAME_REACH, _WORD_REACH = 600, 32, 2_048
"""Numbers of characters before a run that are checked: for a `data:` URL, for the name of a member, and for the URL that contains it."""
_BREAK = re.compile(r"\s|(?:\\r)?\\n")
_OBJECT = frozenset({"base64", "media_type", "filename"})
_MAX_DEPTH = 200
_MAX_NAME_LENGTH = 200
_NESTED = (str, dict, list, tuple)


class EncodedFile(Struct, kw_only=True):
    """File that was removed from an answer, in which it was `written`. `place` is the object in the answer now; fill it in to show the
    file."""

    written: str
    body: bytes
    media_type: str
    filename: str
    place: dict[str, Json]


def declared_names(schema: Schema | None) -> frozenset[str]:
    """Return the names of members that a schema declares to be base64 (`format: byte`, `contentEncoding: base64`), at any depth."""
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
    """Return the data with an object in place of each file, and the files; the same data if there are no files.

    `declared`: names of members that are certainly base64.
    """
    found: list[EncodedFile] = []
    return _Search(declared, found).without(data, "", 0), found


def completed(data: Any, name: Callable[[Mapping[str, Json]], str]) -> Json:
    """Return the data of `taken_out` after its places were filled in, with the texts that contained files: `name` names each file in
    them."""
    match data:
        case _SplitText(parts=parts):
            return "".join(part if isinstance(part, str) else name(part) for part in parts)
        case dict():
            return {key: completed(item, name) for key, item in data.items()}
        case list() | tuple():
            return [completed(item, name) for item in data]
        case _:
            other: Json = data
            return other


class _SplitText(Struct):
    """Text that contained files, in its parts."""

    parts: list[str | dict[str, Json]]


class _Search:
    def __init__(self, declared: Set[str], found: list[EncodedFile]) -> None:
        self._declared = declared
        self._found = found

    def without(self, value: Json, name: str, depth: int) -> Json:
        match value:
            case str():
                return value if len(value) <= _SHORTEST else self._text(value, name)
            case dict():
                if "base64" in value and value.keys() <= _OBJECT and (place := self._object(value)) is not None:
                    return place
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
        opaque = _OPAQUE.search(name) is not None
        body = _decoded(written, certain=prefix is not None or name in self._declared, opaque=opaque)
        if body is None:
            return self._among_words(text, name)
        return text if len(body) <= INLINE else {"resource": self._place(text, body, media_type, "")}

    def _among_words(self, text: str, name: str) -> Json:
        """Return the parts of a text that contains base64 among other words."""
        if not _has_long_run(text):
            return text
        parts: list[str | dict[str, Json]] = []
        end = 0
        for start, stop, media_type, body in _runs(text, name):
            parts += [text[end:start], self._place(text[start:stop], body, media_type, "")]
            end = stop
        # If a schema wants a text, the replacement is a text: its author expects no object in its place.
        made: Any = _SplitText(parts=[*parts, text[end:]])
        return made if parts else text

    def _object(self, value: Mapping[str, Json]) -> Json:
        """Return the replacement of a file that is an object, or None if the object is not a file."""
        written, media_type, filename = value["base64"], value.get("media_type"), value.get("filename")
        if not isinstance(written, str):
            return None
        if len(written) <= _SHORTEST:
            return value
        prefix = _PREFIX.match(written)
        body = _decoded(written if prefix is None else written[prefix.end() :], certain=True)
        if body is None:
            return None
        said = media_type if isinstance(media_type, str) else "" if prefix is None else prefix[1].strip().lower()
        return {"resource": self._place(written, body, said, filename if isinstance(filename, str) else "")}

    def _place(self, written: str, body: bytes, media_type: str, filename: str) -> dict[str, Json]:
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
        return place


def _has_long_run(text: str) -> bool:
    """Return True if a text may contain base64 of more than 1 KiB.

    A run of that length covers one of the checked windows, which then contains none of the characters that separate words of texts and of
    JSON.
    """
    find = text.find
    for at in range(0, len(text) - _WINDOW, _WINDOW):
        end = at + _WINDOW
        if find(" ", at, end) < 0 and find('"', at, end) < 0 and find(",", at, end) < 0 and find(".", at, end) < 0:
            return True
    return False


def _runs(text: str, name: str) -> Iterator[tuple[int, int, str, bytes]]:
    """Yield each base64 run among the words of a text: start, end, media type ("" if unknown) and bytes."""
    for run in _RUN.finditer(text):
        start, stop = run.span()
        prefix = _prefix_before(text, start)
        if prefix is None and _is_part(text, start):
            continue
        near = text[max(0, start - _NAME_REACH) : start]
        opaque = _OPAQUE.search(name) is not None or _OPAQUE.search(near) is not None
        body = _decoded(_BREAK.sub("\n", run[0]), certain=prefix is not None, opaque=opaque)
        if body is not None and len(body) > INLINE:
            media_type = "" if prefix is None else prefix[1].strip().lower()
            yield (start if prefix is None else prefix.start()), stop, media_type, body


def _prefix_before(text: str, start: int) -> re.Match[str] | None:
    """Return the beginning of a `data:` URL that ends where a run begins."""
    if not text.endswith(",", 0, start):
        return None
    reach = max(0, start - _PREFIX_REACH)
    at = text[reach:start].lower().rfind("data:")
    prefix = _PREFIX.match(text, reach + at, start) if at >= 0 else None
    return prefix if prefix is not None and prefix.end() == start else None


def _is_part(text: str, start: int) -> bool:
    """Return True if a run is part of a longer value: a token with several parts, a URL, a certificate (PEM, RFC 7468)."""
    before = text[max(0, start - _WORD_REACH) : start]
    return before.endswith(_PART_ENDS) or text.startswith("//", start) or _URL_BEFORE.search(before) is not None


def _decoded(text: str, *, certain: bool, opaque: bool = False) -> bytes | None:
    """Return the bytes of a base64 text; None for any other text. A text that is `opaque` by its name stays, unless it is certainly
    base64."""
    found = None if opaque and not certain else _strictly_decoded(text, certain=certain)
    return _by_format(text) if found is None else found


def _by_format(text: str) -> bytes | None:
    """Return the bytes of base64 that begins like a known format, in any alphabet and lines, even if its end is cut off."""
    if (found := _HEAD.match(text)) is None:
        return None
    head = "".join(found[0].split()).replace("-", "+").replace("_", "/")
    try:
        if media_type_of(base64.b64decode(head, validate=True)) not in _FORMATS:
            return None
        joined = "".join(text.split()).replace("-", "+").replace("_", "/").rstrip("=")
        if not _PLAIN.match(joined):
            return None
        whole = len(joined) // 4 * 4
        tail = joined[whole:]
        return base64.b64decode(joined[:whole] + (tail + "=" * (4 - len(tail)) if len(tail) > 1 else ""), validate=True)
    except ValueError:
        return None


def _strictly_decoded(text: str, *, certain: bool) -> bytes | None:
    """Return the bytes of a text that is base64 by its form; None for any other.

    `certain`: the text or its description states that it is base64. Otherwise a text is treated as base64 if it has both cases and a digit
    or a sign of base64, like encoded bytes; hexadecimal digits, sequences of letters and tokens in the alphabet of URLs are not.
    """
    text = text.strip()
    if not _PLAIN.match(text):
        if not certain or not _URL_SAFE.match(text):
            return None
        text = text.replace("-", "+").replace("_", "/")
    lines = text.split()
    if len(lines) > 1 and (len(set(map(len, lines[:-1]))) > 1 or len(lines[-1]) > len(lines[0])):
        return None  # MIME's lines have the same length, except for the last (RFC 2045, section 6.8)
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
