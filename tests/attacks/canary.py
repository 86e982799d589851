"""Looks for secrets in what was written or said: as they are, encoded in the usual ways, and cut in pieces."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator
from urllib.parse import quote, quote_plus

__all__ = ["leaks", "pem_lines"]

_JOINTS = re.compile(rb"""[\s"',;:\[\]{}+\\]+""")


def leaks(secrets: Iterable[str], texts: Iterable[str | bytes]) -> list[str]:
    """What was found of whom, each with what stands around it."""
    wanted = [(secret, form) for secret in secrets for form in set(_forms(secret))]
    joined = [(secret, _JOINTS.sub(b"", secret.encode())) for secret in {secret for secret, _ in wanted}]
    found = []
    for text in texts:
        raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        lower = raw.lower()
        found += [_around(secret, raw, raw.find(form)) for secret, form in wanted if form in raw]
        found += [_around(secret, raw, -1) for secret, _ in joined if secret.encode().hex().encode() in lower]
        pieces = _JOINTS.sub(b"", raw)
        found += [_around(secret, pieces, pieces.find(form)) for secret, form in joined if form in pieces]
    return sorted(set(found))


def pem_lines(pem: str) -> list[str]:
    """The lines of a PEM text that hold it: any of them is part of the key."""
    return [line for line in pem.splitlines() if line and not line.startswith("-----")]


def _forms(secret: str) -> Iterator[bytes]:
    raw = secret.encode()
    for text in (secret, quote(secret), quote(secret, safe=""), quote_plus(secret), html.escape(secret)):
        yield text.encode()
    yield json.dumps(secret)[1:-1].encode()
    for shift in range(3):  # wherever in a longer text it stood
        whole = base64.b64encode(b"\0" * shift + raw)
        inner = whole[-(-8 * shift // 6) : len(whole) - (4 if (shift + len(raw)) % 3 else 0)]
        if len(inner) > 8:
            yield from (inner, inner.replace(b"+", b"-").replace(b"/", b"_"))


def _around(secret: str, text: bytes, place: int) -> str:
    shown = text[max(0, place - 120) : place + 60] if place >= 0 else b"in hex"
    return f"{secret[:40]}: {shown!r}"
