"""Scrubber that removes sent secrets from answers, in every form in which a server may repeat them."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from urllib.parse import quote, quote_plus, unquote_plus

from toolgen.connectors.secrets import MASK
from toolgen.model.prompt_injection import visible

__all__ = ["PortionScrubber", "Scrubber", "scrubber_of"]

_MIN_SUBSTRING_LENGTH = 6
_ROUNDS = 3  # maximum number of nested encodings that are decoded
_UNICODE = re.compile(r"\\+(?:u\{?0{0,4}([0-9a-fA-F]{2,5})\}?|x([0-9a-fA-F]{2}))")
_ENCODED = re.compile(r"[%&\\\n\r]")  # first characters of the escapes that `_decoded` decodes
_BREAKS = ("\n", "\r", "\\n", "\\r")
_BREAK = re.compile(r"\\+[rn]")
_WORD = re.compile(r"\S+")
_MASK = MASK.encode()


@lru_cache(maxsize=256)
def scrubber_of(secrets: tuple[str, ...]) -> Scrubber:
    """Return the scrubber of these secrets. It is cached, because most calls of a source have the same secrets."""
    return Scrubber(secrets)


@lru_cache(maxsize=256)
def _echoes(secret: str) -> frozenset[str]:
    """Return the forms in which a server is likely to repeat a secret, in lower case: unchanged, escaped, or encoded."""
    raw = secret.encode("utf-8", "surrogatepass")
    coded = {*_in_base64(raw)}
    forms = {
        secret,
        quote(raw, safe=""),
        quote(raw),
        quote_plus(raw),
        json.dumps(secret)[1:-1],
        secret.replace("/", "\\/"),
        html.escape(secret),
        raw.hex(),
        *coded,
        *(twice for one in coded for twice in _in_base64(one.encode())),
        *(one.encode().hex() for one in coded),
        *_in_base64(raw.hex().encode()),
    }
    return frozenset(form.lower() for form in forms if len(form) >= _MIN_SUBSTRING_LENGTH)


def _in_base64(raw: bytes) -> Iterator[str]:
    """Yield the base64 characters that encode only these bytes, for each of the three offsets at which they may begin in a longer text."""
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + raw).decode()
        inner = encoded[-(-offset * 8 // 6) : (offset + len(raw)) * 8 // 6]
        yield inner
        yield inner.translate({ord("+"): "-", ord("/"): "_"})


def _decoded(text: str) -> Iterator[str]:
    """Yield the text with its escapes decoded (percent, HTML entities, `\\u006b`), repeatedly while that changes it; and each of these
    texts without line breaks, because MIME wraps base64 (RFC 2045, section 6.8).
    """
    yield from _joined(text)
    for _ in range(_ROUNDS):
        before = text
        if "%" in text:
            text = unquote_plus(text)
        if "&" in text:
            text = html.unescape(text)
        if "\\" in text:
            text = _UNICODE.sub(_character, text)
        if text == before:
            return
        yield text
        yield from _joined(text)


def _joined(text: str) -> Iterator[str]:
    if any(mark in text for mark in _BREAKS):
        yield "".join(_BREAK.sub("", text).split())


def _character(found: re.Match[str]) -> str:
    code = int(found[1] or found[2], 16)
    return chr(code) if code < 0x110000 else found[0]


class Scrubber:
    """Scrubber that replaces secrets repeated by an answer: long ones within text, short ones only if they are the whole text."""

    __slots__ = ("_bytes", "_long", "_pattern", "_short")

    def __init__(self, secrets: Sequence[str]) -> None:
        forms = {form for one in secrets if len(one) >= _MIN_SUBSTRING_LENGTH for form in _echoes(one)}
        self._long = sorted(forms, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, self._long)), re.IGNORECASE)
        self._short = frozenset(one for one in secrets if len(one) < _MIN_SUBSTRING_LENGTH)
        # Bytes have no case beyond ASCII, so other characters are searched for unchanged.
        cases = {case for one in secrets if len(one) >= _MIN_SUBSTRING_LENGTH for case in (one, one.upper())}
        encoded = {form.encode("utf-8", "surrogatepass").lower() for form in forms | cases}
        self._bytes = sorted(encoded, key=len, reverse=True)

    def __repr__(self) -> str:
        return "Scrubber(***)"

    def touches(self, text: str) -> bool:
        """Return True if the text may contain a secret."""
        for secret in self._short:
            if secret in text:
                return True
        if not self._long:
            return False
        if self._holds(text):
            return True
        return _ENCODED.search(text) is not None and any(map(self._holds, _decoded(text)))

    def _holds(self, text: str) -> bool:
        lower = text.lower()
        for secret in self._long:  # noqa: SIM110 - a generator would cost a call
            if secret in lower:
                return True
        return False

    def text(self, text: str) -> str:
        """Return the text without secrets and without invisible characters."""
        cleaned = visible(text)
        if cleaned in self._short:
            return MASK
        if not self._long:
            return cleaned
        if self._holds(cleaned):
            cleaned = self._pattern.sub(MASK, cleaned)
        if any(map(self._holds, _decoded(cleaned))):
            cleaned = _WORD.sub(lambda word: MASK if any(map(self._holds, _decoded(word[0]))) else word[0], cleaned)
            if any(map(self._holds, _decoded(cleaned))):  # the secret extends over several words
                return MASK
        return cleaned

    def cut(self, text: str) -> str:
        """Return a truncated text without the beginning of a secret at its end."""
        end = text[-max(map(len, self._long), default=0) :].lower()
        for secret in self._long:
            for length in range(min(len(secret) - 1, len(end)), _MIN_SUBSTRING_LENGTH - 1, -1):
                if end.endswith(secret[:length]):
                    return text[:-length] + MASK
        return text

    def raw(self, body: bytes) -> bytes:
        """Return the bytes without secrets."""
        return self.portions().feed(body, last=True)

    def portions(self) -> PortionScrubber:
        """Return a scrubber for bytes that arrive in portions."""
        return PortionScrubber(self._bytes)


class PortionScrubber:
    """Scrubber of `forms` (in lower case, the longest first) from bytes that arrive in any portions."""

    __slots__ = ("_forms", "_held", "_longest", "_pattern")

    def __init__(self, forms: Sequence[bytes]) -> None:
        self._forms = forms
        self._longest = max(map(len, forms), default=1)
        self._pattern: re.Pattern[bytes] | None = None
        self._held = b""

    def __repr__(self) -> str:
        return "PortionScrubber(***)"

    def feed(self, data: bytes, *, last: bool = False) -> bytes:
        """Return the bytes that are now known to belong to no form, and the mask for each form; with the `last` portion, all bytes."""
        if not self._forms:
            return data
        data = self._held + data
        # Every form that begins before `end` is complete, also the longest one that begins there.
        end = len(data) if last else max(0, len(data) - self._longest + 1)
        self._held = b""
        lower = data.lower()
        if not any(form in lower for form in self._forms):
            self._held = data[end:]
            return data[:end]
        if self._pattern is None:
            self._pattern = re.compile(b"|".join(map(re.escape, self._forms)), re.IGNORECASE)
        shown, at = [], 0
        for found in self._pattern.finditer(data):
            if found.start() >= end:
                break
            shown += [data[at : found.start()], _MASK]
            at = found.end()
        stop = max(at, end)
        self._held = data[stop:]
        return b"".join([*shown, data[at:stop]])
