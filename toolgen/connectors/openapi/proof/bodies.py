"""Request bodies parsed by their media type and compared with the given values (RFC 8259, RFC 7578, WHATWG URL section 5)."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote_plus, unquote_plus

from msgspec import Struct

from toolgen.connectors.openapi.proof.form_properties import wants_file
from toolgen.connectors.openapi.proof.reader import (
    ABSENT,
    Absent,
    Undefined,
    by_convention,
    equal,
    is_json,
    reads_as,
    split_pairs,
)
from toolgen.connectors.openapi.proof.received import Received, UnreadableError
from toolgen.connectors.openapi.proof.shapes import shapes
from toolgen.connectors.openapi.proof.spec_operation import SpecOperation

__all__ = ["FORM", "media_of", "same_body", "same_form"]


FORM = "application/x-www-form-urlencoded"
_DELIMITERS: Mapping[str, str] = {"spaceDelimited": "%20|\\+", "pipeDelimited": r"\||%7[Cc]", "tabDelimited": "%09"}


class _BodyPart(Struct, frozen=True, kw_only=True):
    name: str
    filename: str | None
    content_type: str
    content: bytes


def media_of(described: SpecOperation, content_type: str) -> Mapping[str, Any] | None:
    """Return the Media Type Object for a Content-Type, the most specific first (3.1.1, section 4.8.13.1)."""
    content = described.body["content"] if described.body is not None else {}
    plain = _plain(content_type)
    ranks = [content_type.strip().lower(), plain, f"{plain.partition('/')[0]}/*", "*/*", "*"]
    for rank in ranks:
        for written, media in content.items():
            if rank in {written.strip().lower(), _plain(written)} and isinstance(media, Mapping):
                return media
    return None


def _plain(media_type: str) -> str:
    return media_type.partition(";")[0].strip().lower()


def same_body(described: SpecOperation, received: Received, sent: Any) -> str | Undefined | None:
    """Return None if the body has the value that was sent (`ABSENT` for no body), or else the difference."""
    if isinstance(sent, Absent):
        return None if received.body is None else "a body is sent though none was given"
    if received.body is None:
        return "no body is sent"
    media = media_of(described, received.content_type)
    if media is None:
        return f"the body is sent as {received.content_type!r}, which the description does not list"
    plain = _plain(received.content_type)
    try:
        if plain == FORM:
            return same_form(described, media, received.body, sent)
        if plain.startswith("multipart/"):
            return _same_multipart(described, media, received, sent)
        if is_json(received.content_type):
            read = json.loads(received.body)
            return None if equal(read, sent) else f"the body is read as {received.body[:120]!r}"
        if isinstance(sent, Mapping) and "base64" in sent:
            schema = described.schema(media.get("schema", {}))
            if schema.get("format") in {"byte", "base64"} or "contentEncoding" in schema:
                return "raw bytes are sent, but the description requires base64 text"
            return None if _is_file(received.body, sent) else "the file's bytes differ"
        text = received.body.decode("utf-8")
    except (UnreadableError, ValueError) as error:
        return f"the body cannot be read: {error}"
    return None if reads_as(text, sent) else f"the body is read as {text[:120]!r}"


def _is_file(content: bytes, sent: Any) -> bool:
    given = sent.get("base64") if isinstance(sent, Mapping) else sent
    return isinstance(given, str) and content == base64.b64decode(given)


def same_form(described: SpecOperation, media: Mapping[str, Any], body: bytes, sent: Any) -> str | Undefined | None:
    """Return None if a form (a body, or 3.2's whole query string) has the value that was sent (`ABSENT` for none), else the difference."""
    if isinstance(sent, Absent):
        return None if not body else "is sent though nothing was given"
    if not isinstance(sent, Mapping):
        return "a form is sent for a value that is not an object"
    pairs = [tuple(pair.partition("=")[::2]) for pair in body.decode("ascii").split("&") if pair]
    encoding = media.get("encoding") or {}
    properties = described.schema(media.get("schema", {})).get("properties") or {}
    unclaimed = list(pairs)
    undefined: Undefined | None = None
    for name, value in sent.items():
        how = encoding.get(name) or {}
        mine = [
            pair
            for pair in pairs
            if unquote_plus(pair[0]) == name or (how and _claims(unquote_plus(pair[0]), name, how, value, set(sent)))
        ]
        if (
            isinstance(value, Mapping)
            and how
            and how.get("style", "form") == "form"
            and how.get("explode") is not False
        ):
            mine = [pair for pair in mine if unquote_plus(pair[0]) not in set(sent) - {name}]
        unclaimed = [pair for pair in unclaimed if pair not in mine]
        found = _property(name, value, how, mine, described, properties.get(name, {}))
        if isinstance(found, str):
            return f"the property {name!r} {found}"
        undefined = undefined or _named(found, name)
    if unclaimed:
        return f"the form holds {unquote_plus(unclaimed[0][0])!r}, which was not given"
    return undefined


def _named(found: Undefined | None, name: str) -> Undefined | None:
    return None if found is None else Undefined(reason=found.reason, property=name)


def _claims(key: str, name: str, how: Mapping[str, Any], value: Any, given: set[str]) -> bool:
    """Return True if a name that differs from the property's own name was sent for this property."""
    if how.get("style") == "deepObject":
        return key == name or key.startswith(f"{name}[")
    exploded = how.get("style", "form") == "form" and how.get("explode") is not False
    return exploded and isinstance(value, Mapping) and key not in given


def _property(
    name: str,
    value: Any,
    how: Mapping[str, Any],
    mine: Sequence[tuple[str, ...]],
    described: SpecOperation,
    schema: Any,
) -> str | Undefined | None:
    texts = [unquote_plus(pair[1]) for pair in mine]
    json_type = "json" in str(how.get("contentType", ""))
    styled = any(key in how for key in ("style", "explode", "allowReserved"))
    if value is None:
        return None if not mine else f"is read as {texts!r}, not as nothing"
    if styled and how.get("style") == "deepObject" and (_is_nested(value) or isinstance(value, list)):
        return by_convention(name, [(unquote_plus(key), unquote_plus(text)) for key, text in mine], value)
    if styled and not _is_nested(value):
        return _styled_property(name, value, how, mine)
    if styled:
        return Undefined(
            reason=f"the style {how.get('style', 'form')} has no form for an array or object within another"
        )
    if json_type or isinstance(value, Mapping):
        if len(texts) != 1:
            return f"is sent {len(texts)} times"
        return None if equal(json.loads(texts[0]), value) else f"is read as {texts[0]!r}"
    if isinstance(value, list):
        if len(texts) != len(value):
            return f"is read as {texts!r}"
        same = all(
            equal(json.loads(text), one) if isinstance(one, (Mapping, list)) else reads_as(text, one)
            for text, one in zip(texts, value, strict=True)
        )
        return None if same else f"is read as {texts!r}"
    possible = shapes(described, schema)
    if possible and "primitive" not in possible:
        return f"is a single value, but the description wants an {min(possible)}"
    return None if len(texts) == 1 and reads_as(texts[0], value) else f"is read as {texts!r}"


def _is_nested(value: Any) -> bool:
    items = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return any(isinstance(one, (Mapping, list)) or one is None for one in items)


def _styled_property(name: str, value: Any, how: Mapping[str, Any], mine: Sequence[tuple[str, ...]]) -> str | None:
    style = how.get("style", "form")
    explode = how["explode"] if isinstance(how.get("explode"), bool) else style == "form"
    decoded = [(unquote_plus(key), unquote_plus(text)) for key, text in mine]
    read: Any = ABSENT
    if style == "deepObject" and isinstance(value, Mapping):
        read = split_pairs([(key[len(name) + 1 : -1], text) for key, text in decoded])
    elif explode and isinstance(value, Mapping):
        read = split_pairs(decoded)
    elif explode and isinstance(value, list):
        read = [text for _, text in decoded]
    elif len(mine) == 1 and isinstance(value, (Mapping, list)):
        parts = [unquote_plus(part) for part in re.split(_DELIMITERS.get(style, ","), mine[0][1])]
        read = parts if isinstance(value, list) else split_pairs(list(zip(parts[::2], parts[1::2], strict=False)))
    elif len(mine) == 1:
        read = decoded[0][1]
    elif isinstance(value, (Mapping, list)) and not value and not mine:
        return None
    return None if reads_as(read, value) else f"is read as {decoded!r}"


def _same_multipart(
    described: SpecOperation, media: Mapping[str, Any], received: Received, sent: Any
) -> str | Undefined | None:
    if not isinstance(sent, Mapping):
        return "a form is sent for a value that is not an object"
    parts = _parts(received)
    encoding = media.get("encoding") or {}
    properties = described.schema(media.get("schema", {})).get("properties") or {}
    undefined: Undefined | None = None
    for name, value in sent.items():
        how = encoding.get(name) or {}
        # 3.0 ignores a style in anything but a urlencoded form (3.0.4, section 4.7.15.1.2).
        styled = described.version != "3.0" and any(key in how for key in ("style", "explode"))
        if styled and isinstance(value, (Mapping, list)):
            mine = [part for part in parts if part.name == name or _claims(part.name, name, how, value, set(sent))]
            parts = [part for part in parts if part not in mine]
            # Parts are not percent-encoded, so the delimiters in their text are unchanged.
            texts = [(quote_plus(part.name), quote_plus(part.content.decode("utf-8"), safe=",|")) for part in mine]
            found = _property(name, value, how, texts, described, properties.get(name, {}))
            if isinstance(found, str):
                return f"the part {name!r} {found}"
            undefined = undefined or _named(found, name)
            continue
        mine = [part for part in parts if part.name == name]
        parts = [part for part in parts if part.name != name]
        # A contentType applies to each item, not to the array (3.1.1, section 4.8.15; 3.2, section 4.15.1).
        wanted = [] if value is None else value if isinstance(value, list) else [value]
        if len(mine) != len(wanted):
            return f"the part {name!r} is sent {len(mine)} times, not {len(wanted)}"
        file = wants_file(described, media.get("schema", {}), name, how)
        for part, one in zip(mine, wanted, strict=True):
            if wrong := _same_part(part, one, how, file):
                return f"the part {name!r} {wrong}"
    return f"the part {parts[0].name!r} was not given" if parts else undefined


def _same_part(part: _BodyPart, value: Any, how: Mapping[str, Any], wants_file: bool) -> str | None:
    if wants_file and isinstance(value, Mapping) and "base64" in value:
        if not _is_file(part.content, value):
            return "has other bytes than the file"
        if part.filename is None or (value.get("filename") and part.filename != _browser(value["filename"])):
            return f"is named {part.filename!r}"
        return None
    declared = [_plain(one) for one in str(how.get("contentType", "")).split(",") if one.strip()]
    if declared and "*" not in declared[0] and part.content_type and _plain(part.content_type) not in declared:
        return f"is sent as {part.content_type!r}"
    text = part.content.decode("utf-8")
    if isinstance(value, (Mapping, list)) or is_json(part.content_type):
        return None if equal(json.loads(text), value) else f"is read as {text[:120]!r}"
    return None if reads_as(text, value) else f"is read as {text[:120]!r}"


def _browser(text: str) -> str:
    """Encode a name for a header (WHATWG HTML, multipart/form-data encoding algorithm)."""
    return text.replace("\n", "%0A").replace("\r", "%0D").replace('"', "%22")


def _parts(received: Received) -> list[_BodyPart]:
    """Return the parts of a multipart body (RFC 2046, section 5.1.1)."""
    found = re.search(r'boundary="?([^";]+)"?', received.content_type)
    if found is None:
        raise UnreadableError("the Content-Type has no boundary")
    mark = b"--" + found[1].encode("ascii")
    body = b"\r\n" + (received.body or b"")
    chunks = body.split(b"\r\n" + mark)
    if chunks[-1].strip() != b"--" or chunks[0]:
        raise UnreadableError("the multipart body does not end with its boundary")
    parts = []
    for chunk in chunks[1:-1]:
        head, separator, content = chunk.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        if not separator:
            raise UnreadableError("a part has no empty line after its headers")
        headers = {
            line.partition(":")[0].strip().lower(): line.partition(":")[2].strip()
            for line in head.decode("utf-8").split("\r\n")
        }
        disposition = headers.get("content-disposition", "")
        name = re.search(r'; name="([^"]*)"', disposition)
        filename = re.search(r'; filename="([^"]*)"', disposition)
        if name is None or not disposition.startswith("form-data"):
            raise UnreadableError("a part has no name")
        parts.append(
            _BodyPart(
                name=_unquoted(name[1]),
                filename=filename[1] if filename else None,
                content_type=headers.get("content-type", ""),
                content=content,
            )
        )
    return parts


def _unquoted(name: str) -> str:
    return name.replace("%22", '"').replace("%0D", "\r").replace("%0A", "\n")
