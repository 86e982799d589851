"""Request headers that belong to the gateway: no argument of a tool ever sets one.

Idempotency keys as the systems behind know them.

What a media type is, for those who read one in a description and those who send one (RFC 9110, section 8.3.1).
"""

from __future__ import annotations

import hashlib
import re
import uuid
from functools import lru_cache

from toolgen.model.parameter_names import NameSet
from toolgen.model.tool import Binding

__all__ = [
    "GATEWAY_HEADERS",
    "JSON",
    "MEDIA_TYPE",
    "NO_KEY_HEADER",
    "TEXT",
    "holds_file",
    "is_gateway_header",
    "is_html",
    "written",
]

NO_KEY_HEADER = "never"
"""What toolgen.yaml says in place of a header's name where a source is given no idempotency keys."""

GATEWAY_HEADERS = frozenset(
    {
        "accept",
        "accept-encoding",
        "authorization",
        "connection",
        "content-length",
        "content-type",
        "cookie",
        "expect",
        "forwarded",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "x-forwarded-for",
        "x-http-method",
        "x-http-method-override",
        "x-method-override",
        "x-forwarded-host",
        "x-forwarded-proto",
    }
)
"""In lower case: what frames and routes a message (RFC 9110 section 7.6.1, RFC 9112), says who asks or what is done, or is decided by the
body."""

_NAMES = NameSet(GATEWAY_HEADERS)


@lru_cache(maxsize=4096)
def is_gateway_header(name: str) -> bool:
    """Return True if some service takes a header for one of `GATEWAY_HEADERS`: CGI and similar take `X_Forwarded_For` for
    `X-Forwarded-For`.

    `contentType` differs from `Content-Type` for every service, and descriptions use it.
    """
    return _NAMES.find(name) is not None and name.lower() != "contenttype"


def written(binding: Binding, text: str) -> str:
    """A key as the system of a tool knows it: the text itself, or a UUID that is made of it and always the same."""
    if binding.key_form == "uuid":
        return str(uuid.UUID(bytes=hashlib.sha256(text.encode()).digest()[:16], version=4))
    return text


MEDIA_TYPE = re.compile(
    r"[\w!#$&^.+-]+/[\w!#$&^.+-]+(?:\s*;\s*[\w!#$&^.+-]+=(?:[\w!#$&^.+/-]+|\"[^\"\\\x00-\x1f\x7f]*\"))*\Z", re.ASCII
)
"""One media type with its parameters; a range (`image/*`) is none."""

TEXT = re.compile(
    r"text/.*|application/(?:xml|yaml|x-yaml|javascript|graphql|x-www-form-urlencoded|(?:x-)?ndjson|jsonl|x-jsonlines)"
    r"|.*\+(?:xml|yaml)\Z"
)
"""Types, in lower case and without parameters, whose content agents are given as text."""

JSON = re.compile(r"[^;\s]+/(?:[^;\s]+\+)?json\s*(?:;.*)?\Z", re.IGNORECASE)
"""JSON itself or a type with the suffix `+json` (RFC 6839, section 3.1)."""

_FILES = frozenset({"audio", "font", "image", "model", "video"})


def is_html(media_type: str) -> bool:
    """Return True if a media type is HTML."""
    return media_type.partition(";")[0].strip().lower() in {"text/html", "application/xhtml+xml"}


def holds_file(media_type: str) -> bool:
    """Return True if content of a media type, or of a range of them, is a file for an agent: no JSON, no text, and not any type at all."""
    name = media_type.partition(";")[0].strip().lower()
    main, _, sub = name.partition("/")
    if main in _FILES:
        return not TEXT.match(name)
    return main == "application" and sub != "*" and not JSON.match(name) and not TEXT.match(name)
