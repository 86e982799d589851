"""Media types of bytes by their first bytes, because a file's name is not reliable."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping

__all__ = [
    "INLINE",
    "PICTURES",
    "SHOWN",
    "agrees",
    "begins_as_text",
    "is_binary",
    "is_media_type",
    "may_hold_files",
    "media_type_of",
    "picture_type",
    "settled_type",
    "shown_type",
]

INLINE = 1_024
"""Maximum bytes of data that an answer may contain in base64, before the encoding."""
SHOWN = 131_072
"""Maximum bytes of one answer shown to an agent at once; about 30,000 tokens."""
_SHORTEST = INLINE * 4 // 3
_WINDOW = _SHORTEST // 3
PICTURES: Mapping[str, re.Pattern[bytes]] = {
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF.{4}WEBP", re.DOTALL),
}
"""First bytes of the pictures that models read. A provider refuses the complete conversation for a picture with a wrong type."""
_OTHERS: Mapping[str, re.Pattern[bytes]] = {
    "application/pdf": re.compile(rb"%PDF-"),
    "application/zip": re.compile(rb"PK(?:\x03\x04|\x05\x06)"),
    "application/gzip": re.compile(rb"\x1f\x8b\x08"),
    "audio/mpeg": re.compile(rb"ID3[\x02-\x04]|\xff[\xfb\xf3\xf2]"),
    "audio/ogg": re.compile(rb"OggS\x00"),
    "audio/wav": re.compile(rb"RIFF.{4}WAVE", re.DOTALL),
    "video/mp4": re.compile(rb"\x00.{3}ftyp", re.DOTALL),
    "application/x-7z-compressed": re.compile(rb"7z\xbc\xaf\x27\x1c"),
    "application/vnd.sqlite3": re.compile(rb"SQLite format 3\x00"),
    "application/x-executable": re.compile(rb"\x7fELF|MZ[^\x00]{0,62}\x00", re.DOTALL),
}
_CERTAIN = frozenset({*PICTURES, "application/pdf", "application/zip", "application/gzip"})
"""Types whose bytes always begin as above."""
_SINGLE = frozenset({*PICTURES, "application/pdf"})
"""Types that no other format is built on. Office documents are built on archives, for example."""
_KINDS: Mapping[str, frozenset[str]] = {
    "text": frozenset(),
    "image": frozenset({"video/mp4", "application/gzip"}),  # HEIF is based on MPEG-4, and SVG may be compressed
    "audio": frozenset({"audio/mpeg", "audio/ogg", "audio/wav", "video/mp4"}),
    "video": frozenset({"audio/ogg", "video/mp4"}),
}
"""Known formats that types of a kind may have; any format for other types."""
_UNSAID = frozenset({"", "application/octet-stream"})
_PLAIN = frozenset({"application/octet-stream", "text/plain"})
_TEXT_SAMPLE = 4_096
_BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")  # byte order marks of UTF-16 and UTF-32
_WIDE_CHARSET = re.compile(r"charset\s*=\s*\"?(?:utf|ucs|csutf|csucs|iso-10646-ucs)[-_]?(?:16|32|2|4)", re.IGNORECASE)
_MEDIA_TYPE = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}/[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}\Z")


def is_media_type(text: str) -> bool:
    """Return True if a text is a media type without parameters (RFC 9110, section 8.3.1)."""
    return _MEDIA_TYPE.match(text) is not None


def picture_type(body: bytes) -> str:
    """Return the media type of a picture that models read; "" for all other data."""
    return next((kind for kind, signature in PICTURES.items() if signature.match(body)), "")


def agrees(said: str, found: str) -> bool:
    """Return True if bytes of the type `found` (`media_type_of`) may be of the type `said`. A format that its bytes prove is only that
    type."""
    said = said.partition(";")[0].strip().lower()
    if said in {found, "application/octet-stream"}:
        return True
    if said in _CERTAIN or found in _SINGLE:
        return False
    return found in _PLAIN or found in _KINDS.get(said.partition("/")[0], _OTHERS)


def settled_type(said: str, found: str) -> str:
    """Return the media type of bytes of the type `found` with the declared type `said`: the declared one if it agrees and is more
    specific.
    """
    kind = said.partition(";")[0].strip().lower()
    return found if kind in _UNSAID or kind == found or not agrees(said, found) else said.lower()


def shown_type(body: bytes, media_type: str) -> str:
    """Return the media type of a picture or a recording for models; "" for all other data. The bytes decide for a picture."""
    return picture_type(body) or (media_type if media_type.startswith("audio/") and body else "")


def media_type_of(body: bytes) -> str:
    """Return the media type of bytes: of a known format, `text/plain` for text in UTF-8, and `application/octet-stream` for all other data.

    The beginning is enough: only the first 4 KiB of longer data are tested for text.
    """
    if kind := picture_type(body):
        return kind
    for kind, signature in _OTHERS.items():
        if signature.match(body):
            return kind
    return "text/plain" if body and _is_text(body) else "application/octet-stream"


def _is_text(body: bytes) -> bool:
    """Return True if bytes begin as UTF-8 text; the last character of a sample may be incomplete."""
    sample = body[:_TEXT_SAMPLE]
    if b"\0" in sample:
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample, final=len(body) == len(sample))
    except UnicodeDecodeError:
        return False
    return True


def begins_as_text(body: bytes) -> bool:
    """Return True if the first `SHOWN` bytes are UTF-8 text, so that all of it is read as text."""
    head = body[:SHOWN]
    if b"\0" in head:
        return False
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:  # the last character of longer data may be cut
        return len(body) >= SHOWN and error.start > len(head) - 4 and error.reason == "unexpected end of data"
    return True


def is_binary(body: bytes, content_type: str) -> bool:
    """Return True if bytes are not text in any character set, although `content_type` declares text. An unclear case counts as text."""
    head = body[:_TEXT_SAMPLE]
    if head.isascii():
        return False
    if head.startswith(_BYTE_ORDER_MARKS) or _WIDE_CHARSET.search(content_type):
        return False
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)  # its last character may be cut
    except UnicodeDecodeError:
        return b"\0" in head or media_type_of(head) not in _PLAIN
    return False


def may_hold_files(body: bytes) -> bool:
    """Return True if JSON can contain a text of more than `INLINE` bytes: such a text covers one of the windows that are searched, and
    contains no quotation mark. A hundred nanoseconds per window."""
    length = len(body)
    if length <= _SHORTEST:
        return False
    find = body.find
    return any(find(b'"', at, at + _WINDOW) < 0 for at in range(0, length - _WINDOW, _WINDOW))
