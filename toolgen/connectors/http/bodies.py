"""Request bodies: JSON of any root, forms, multipart, files and text, each to its bytes and its Content-Type."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from toolgen.connectors.http.parameter_styles import UnbindableError, encode_json, form_pairs, scalar, styled_parts
from toolgen.model.files import OpenFile
from toolgen.model.media_types import JSON, MEDIA_TYPE
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import HttpBody, HttpPart

__all__ = ["Content", "Encoded", "StreamedBody", "encode_body", "with_open_files"]

_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
_DEFAULT_PART = HttpPart()
_FILE_FORMS = 'send {"uri": "toolgen://…"}, or {"base64": "…"} for up to 64 KiB'


class StreamedBody:
    """Body of several parts, some of which are files that are read while it is sent. `size` is its length in bytes."""

    __slots__ = ("pieces", "size")

    def __init__(self, pieces: Sequence[bytes | OpenFile]) -> None:
        self.pieces = pieces
        self.size = sum(len(piece) if isinstance(piece, bytes) else piece.info.size for piece in pieces)

    def __repr__(self) -> str:
        return f"StreamedBody({self.size} bytes)"

    @property
    def sha256(self) -> str:
        """Return the digest in hexadecimal. Raises `UnbindableError` if only reading the files would show it."""
        (piece, *others) = self.pieces
        if others or isinstance(piece, bytes):
            raise UnbindableError(
                "a form with a file of this size cannot be signed", suggestion="send a file of up to 128 KiB"
            )
        return piece.info.sha256

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield its bytes, part by part, from the beginning each time. Raises `StateError` if a file cannot be read."""
        for piece in self.pieces:
            if isinstance(piece, bytes):
                yield piece
            else:
                async for part in piece.parts():
                    yield part


Content = bytes | StreamedBody


class Encoded(Struct, frozen=True, kw_only=True):
    """Body that is ready to be sent."""

    media_type: str
    content: Content


class _BodyFile(Struct, frozen=True, kw_only=True):
    content: bytes | OpenFile
    filename: str
    media_type: str


def encode_body(body: HttpBody, arguments: JsonObject) -> Encoded | None:
    """Return the body of one call, or None if there is none. Raises `UnbindableError`."""
    if body.argument is not None:
        if body.argument not in arguments:
            if body.required:
                raise UnbindableError(f"the argument {body.argument!r} is missing")
            return None
        value: Json = arguments[body.argument]
        if value is None and not body.required and not JSON.match(body.media_type):
            return None  # JSON has a null; other media types do not
    else:
        value = {name: arguments[argument] for argument, name in body.properties.items() if argument in arguments}
        if not value and not body.required:
            return None
    if not MEDIA_TYPE.match(body.media_type) and "*" not in body.media_type:
        raise UnbindableError("the tool's media type is not one that can be sent")
    if body.file:
        file = _file(value, body.argument or "body")
        content = file.content if isinstance(file.content, bytes) else StreamedBody((file.content,))
        return Encoded(media_type=_concrete(body.media_type, file.media_type), content=content)
    plain = body.media_type.partition(";")[0].strip().lower()
    if plain == "application/x-www-form-urlencoded":
        return Encoded(
            media_type=body.media_type,
            content="&".join(form_pairs(_object(value), body.parts)).encode("ascii"),
        )
    if plain.startswith("multipart/"):
        return _multipart(body, _object(value))
    if JSON.match(body.media_type):
        return Encoded(media_type=body.media_type, content=encode_json(value))
    return Encoded(media_type=_concrete(body.media_type, "text/plain"), content=_utf8(scalar(value)))


def _object(value: Json) -> Mapping[str, Json]:
    if not isinstance(value, Mapping):
        raise UnbindableError("the body must be an object, because it is sent as a form")
    return value


def _concrete(declared: str, offered: str) -> str:
    """Return the declared media type, or the offered one if it is in the declared range."""
    if "*" not in declared:
        return declared
    family = declared.partition("/")[0].strip()
    offered = offered or "application/octet-stream"
    if family not in {"*", offered.partition("/")[0]}:
        raise UnbindableError(f"the body must be {declared}", suggestion="say which with media_type")
    return offered


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UnbindableError("an argument holds a lone surrogate, which is not Unicode text") from error


async def with_open_files(
    body: HttpBody, arguments: JsonObject, opened: Callable[[str], Awaitable[bytes | OpenFile]]
) -> JsonObject:
    """Return the arguments with an open file (`open`) in place of each `uri` of a file in this body."""

    async def changed(value: Json) -> Json:
        if isinstance(value, list | tuple):
            return [await changed(one) for one in value]
        if not isinstance(value, Mapping) or not isinstance(uri := value.get("uri"), str):
            return value
        return {**{key: one for key, one in value.items() if key != "uri"}, "open": await opened(uri)}  # type: ignore[dict-item]

    made = dict(arguments)
    if body.argument is not None:
        value = made.get(body.argument)
        if body.file:
            made[body.argument] = await changed(value)
        elif isinstance(value, Mapping):
            made[body.argument] = {
                name: await changed(one) if _is_file_part(body, name) else one for name, one in value.items()
            }
    for argument, name in body.properties.items():
        if argument in made and _is_file_part(body, name):
            made[argument] = await changed(made[argument])
    return made


def _is_file_part(body: HttpBody, name: str) -> bool:
    part = body.parts.get(name, body.others)
    return part is not None and part.file


def _file(value: Json, argument: str) -> _BodyFile:
    """Parse `{"base64" or "open", "filename"?, "media_type"?}`; a plain text is treated as base64 too."""
    fields: Mapping[str, Any] = value if isinstance(value, Mapping) else {"base64": value}
    content, filename, media_type = (fields.get(key) for key in ("base64", "filename", "media_type"))
    file: bytes | OpenFile | None = fields.get("open")
    if file is None:
        if not isinstance(content, str):
            raise UnbindableError(f"the file {argument!r} has no content", suggestion=_FILE_FORMS)
        try:
            file = base64.b64decode(content, validate=True)
        except (binascii.Error, ValueError) as error:
            raise UnbindableError(f"the file {argument!r} is not valid base64", suggestion=_FILE_FORMS) from error
    name = filename if isinstance(filename, str) else ""
    kind = media_type if isinstance(media_type, str) else ""
    if _CONTROLS.search(name):
        raise UnbindableError(f"the filename of {argument!r} holds a control character")
    if kind and not MEDIA_TYPE.match(kind):
        raise UnbindableError(f"the media_type of {argument!r} is not a media type")
    return _BodyFile(content=file, filename=name, media_type=kind)


def _multipart(body: HttpBody, value: Mapping[str, Json]) -> Encoded:
    """Return a body by RFC 7578. The boundary is a digest of the content, so the content cannot contain it, and a dry run is exact."""
    parts: list[tuple[bytes, bytes | OpenFile]] = []
    for name, item in value.items():
        if item is None:
            continue
        part = body.parts.get(name, body.others or _DEFAULT_PART)
        if isinstance(item, (Mapping, list, tuple)) and not part.file and (part.style or part.explode is not None):
            plain = HttpPart(content_type=part.content_type, headers=part.headers)
            parts += [_part(key, text, plain) for key, text in styled_parts(name, item, part)]
            continue
        # An array is a part for each item, and its contentType is each item's (3.1.1, section 4.8.15; 3.2, section 4.15.1).
        several: Sequence[Json] = item if isinstance(item, (list, tuple)) else [item]
        parts += [_part(name, one, part) for one in several]
    known = (
        head + (content if isinstance(content, bytes) else content.info.sha256.encode()) for head, content in parts
    )
    digest = hashlib.sha256(b"\0".join(known)).hexdigest()[:32]
    pieces: list[bytes | OpenFile] = []
    for head, content in parts:
        pieces += (b"--" + digest.encode() + b"\r\n" + head, content, b"\r\n")
    pieces.append(f"--{digest}--\r\n".encode())
    kind = body.media_type.partition(";")[0].strip()
    written = [piece for piece in pieces if isinstance(piece, bytes)]
    return Encoded(
        media_type=f"{kind}; boundary={digest}",
        content=b"".join(written) if len(written) == len(pieces) else StreamedBody(pieces),
    )


def _part(name: str, value: Json, part: HttpPart) -> tuple[bytes, bytes | OpenFile]:
    """Return the headers of a part with the empty line after them, and its content."""
    disposition = f'Content-Disposition: form-data; name="{_quoted(name)}"'
    declared = (part.content_type or "").partition(",")[0].strip()
    content: bytes | OpenFile
    if part.file and isinstance(value, Mapping) and value.keys() & {"base64", "open"}:
        file = _file(value, name)
        disposition += f'; filename="{_quoted(file.filename or name)}"'
        kind = file.media_type if file.media_type and _accepts(part.content_type, file.media_type) else ""
        kind = kind or (declared if declared and "*" not in declared else "application/octet-stream")
        content = file.content
    elif isinstance(value, (Mapping, list, tuple)):
        kind, content = declared or "application/json", encode_json(value)
    elif JSON.match(declared):
        kind, content = declared, encode_json(value)
    else:
        kind, content = declared, _utf8(scalar(value))
    if kind and not MEDIA_TYPE.match(kind):
        raise UnbindableError(f"the media type of the part {name!r} is not one that can be sent")
    lines = [disposition]
    if kind:
        lines.append(f"Content-Type: {kind}")
    for header, fixed in part.headers.items():
        if _CONTROLS.search(header + fixed):
            raise UnbindableError(f"a header of the part {name!r} holds a control character")
        lines.append(f"{header}: {fixed}")
    return _utf8("\r\n".join(lines)) + b"\r\n\r\n", content


def _accepts(declared: str | None, offered: str) -> bool:
    if not declared:
        return True
    kind = offered.partition(";")[0].strip().lower()
    ranges = [one.partition(";")[0].strip().lower() for one in declared.split(",")]
    return any(one in {kind, "*/*", f"{kind.partition('/')[0]}/*"} for one in ranges)


def _quoted(text: str) -> str:
    """Escape a name as browsers do (WHATWG HTML, multipart/form-data encoding algorithm), so that no quote or line break can end it."""
    return text.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A").replace("\0", "%00")
