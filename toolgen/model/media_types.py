"""Media types of descriptions and requests (RFC 9110, section 8.3.1)."""

from __future__ import annotations

import re

__all__ = ["JSON", "MEDIA_TYPE", "TEXT", "holds_file", "is_html"]

MEDIA_TYPE = re.compile(
    r"[\w!#$&^.+-]+/[\w!#$&^.+-]+(?:\s*;\s*[\w!#$&^.+-]+=(?:[\w!#$&^.+/-]+|\"[^\"\\\x00-\x1f\x7f]*\"))*\Z", re.ASCII
)
"""Media type with its parameters; a range (`image/*`) is not one."""
TEXT = re.compile(
    r"text/.*|application/(?:xml|yaml|x-yaml|javascript|graphql|x-www-form-urlencoded|(?:x-)?ndjson|jsonl|x-jsonlines)"
    r"|.*\+(?:xml|yaml)\Z"
)
"""Types, in lower case and without parameters, whose content agents get as text."""
JSON = re.compile(r"[^;\s]+/(?:[^;\s]+\+)?json\s*(?:;.*)?\Z", re.IGNORECASE)
"""JSON itself or a type with the suffix `+json` (RFC 6839, section 3.1)."""
_FILES = frozenset({"audio", "font", "image", "model", "video"})


def is_html(media_type: str) -> bool:
    """Return True if a media type is HTML."""
    return media_type.partition(";")[0].strip().lower() in {"text/html", "application/xhtml+xml"}


def holds_file(media_type: str) -> bool:
    """Return True if content of a media type, or of a range of them, is a file for an agent: not JSON, not text, and not `*/*`."""
    name = media_type.partition(";")[0].strip().lower()
    main, _, sub = name.partition("/")
    if main in _FILES:
        return not TEXT.match(name)
    return main == "application" and sub != "*" and not JSON.match(name) and not TEXT.match(name)
