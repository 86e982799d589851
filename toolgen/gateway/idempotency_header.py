"""The header `Idempotency-Key` of a request: the same key as in its body, or the only one."""

from __future__ import annotations

import re

from toolgen.gateway.asgi.request import Rejected, Request
from toolgen.gateway.json_body import identifier

__all__ = ["HEADER", "agreed_key", "header_key"]

HEADER = b"idempotency-key"
# A String of RFC 9651, which draft-ietf-httpapi-idempotency-key-header wants; most clients send the key as it is.
_STRING = re.compile(r'"((?:[^"\\]|\\["\\])*)"\Z')
_ESCAPED = re.compile(r"\\(.)")


def header_key(request: Request) -> str:
    """The header's key, "" without one. Raises `Rejected` for what is no key: a client that names one relies on it."""
    if HEADER not in request.headers:
        return ""
    text = request.text(HEADER)
    if quoted := _STRING.match(text):
        text = _ESCAPED.sub(r"\1", quoted[1])
    elif text.startswith('"'):
        text = ""
    if not identifier(text):
        raise Rejected(400, "validation", "Idempotency-Key must be 1 to 128 visible ASCII characters")
    return text


def agreed_key(request: Request, said: str, pointer: str) -> str:
    """The key of header and body, of which `said` is the body's. Raises `Rejected` where the two differ."""
    key = header_key(request)
    if key and said and key != said:
        raise Rejected(
            400,
            "validation",
            "the Idempotency-Key header and the key in the body are not the same, so that nobody knows which was meant",
            suggestion="send one of them",
            pointer=pointer,
        )
    return key or said
