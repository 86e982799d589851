"""Webhooks by Standard Webhooks 1.0: keys, the signature over id, time and body, and permitted addresses."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Sequence
from hashlib import sha256
from urllib.parse import urlsplit

__all__ = ["key_of", "signed_headers", "url_fault"]

_PREFIX = "whsec_"
_MIN_KEY_BYTES, _MAX_KEY_BYTES = 24, 64  # "Signature scheme": between 192 and 512 bits
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def key_of(secret: str) -> bytes | None:
    """Return the key in a secret like `whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw`: `whsec_` and the base64 of 24 to 64 bytes. None for
    another text.
    """
    if not secret.startswith(_PREFIX):
        return None
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        return None
    return key if _MIN_KEY_BYTES <= len(key) <= _MAX_KEY_BYTES else None


def signed_headers(webhook_id: str, seconds: float, body: bytes, keys: Sequence[bytes]) -> dict[str, str]:
    """Return `webhook-id` and `webhook-timestamp`, and with keys `webhook-signature`: one `v1,BASE64` for each, separated by spaces, so
    that a receiver with any of the keys accepts it. Each is the HMAC-SHA256 of `ID.TIMESTAMP.BODY`.
    """
    at = str(int(seconds))
    headers = {"webhook-id": webhook_id, "webhook-timestamp": at}
    if keys:
        content = b"%b.%b.%b" % (webhook_id.encode(), at.encode(), body)
        made = (base64.b64encode(hmac.new(key, content, sha256).digest()).decode() for key in keys)
        headers["webhook-signature"] = " ".join(f"v1,{one}" for one in made)
    return headers


def url_fault(url: str) -> str:
    """Return the reason why an address is not allowed, "" if it is. It quotes nothing of it: addresses of webhooks may be secret."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "is not a URL"
    if not host or port == 0 or not url.isascii() or not url.isprintable() or " " in url:
        return "is not a URL like https://hooks.example.com/toolgen"
    if parts.username is not None or parts.fragment:
        return "takes no user, password or fragment"
    if parts.scheme != "https" and not (parts.scheme == "http" and host in _LOOPBACK):
        return "must be https; http is accepted only for 127.0.0.1, [::1] and localhost"
    return ""
