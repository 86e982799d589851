"""Credentials in answers: by the formats of services, with their checksums if they have one, and by entropy.

Texts that only look like a credential (an example, a placeholder, a word) are ignored: a value has to have enough entropy for its alphabet.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import zlib
from collections import Counter
from collections.abc import Iterator

from toolgen.model.detection import Finding
from toolgen.policy.detectors.gate import Gate

__all__ = ["SecretDetector"]

_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# Text that must occur before a format is tried, the format, its kind, and the minimum entropy per character of its random part.
_FORMS: tuple[tuple[tuple[str, ...], re.Pattern[str], str, float], ...] = tuple(
    (words, re.compile(pattern), kind, bits)
    for words, pattern, kind, bits in (
        (("AKIA", "ASIA"), r"\b(?:AKIA|ASIA)([A-Z2-7]{16})\b", "key", 2.8),
        (("AIza",), r"\bAIza([\w-]{35})(?![\w-])", "key", 3.0),
        (("glpat-",), r"\bglpat-([\w-]{20,64})(?![\w-])", "token", 3.0),
        (("xox",), r"\bxox[abeoprs]-([\w-]{10,200})", "token", 2.8),
        (("_live_", "_test_"), r"\b[sr]k_(?:live|test)_([A-Za-z0-9]{16,128})\b", "key", 3.0),
        (("sk-",), r"\bsk-((?:ant-|proj-|svcacct-)?[\w-]{20,200})(?![\w-])", "key", 3.2),
        (("SG.",), r"\bSG\.([\w-]{16,32}\.[\w-]{32,64})(?![\w-])", "key", 3.5),
        (("tgk_",), r"\btgk_([\w-]{20,120})", "key", 3.0),
        (("hf_",), r"\bhf_([A-Za-z]{30,40})\b", "token", 3.2),
        (("pypi-",), r"\bpypi-(AgEIcHlwaS5vcmc[\w-]{40,300})", "token", 3.5),
        (("dop_v1_",), r"\bdop_v1_([0-9a-f]{64})\b", "token", 3.0),
        (("shpat_", "shpss_"), r"\bshp(?:at|ss)_([0-9a-fA-F]{32})\b", "token", 3.0),
        (("hooks.slack.com",), r"https://hooks\.slack\.com/services/(T\w{6,12}/B\w{6,12}/\w{20,32})", "token", 3.0),
        (("AccountKey=",), r"\bAccountKey=([A-Za-z0-9+/]{60,100}={0,2})", "key", 4.0),
        (("Bearer ", "bearer "), r"\b[Bb]earer ([A-Za-z0-9._~+/-]{20,2000}=*)", "token", 3.2),
    )
)
_BY_WORD = tuple((word, pattern, kind, bits) for words, pattern, kind, bits in _FORMS for word in words)
_GITHUB = re.compile(r"\b(gh[pousr]_|npm_)([A-Za-z0-9]{30})([A-Za-z0-9]{6})\b")
_GITHUB_BEGINS = ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "npm_", "github_pat_")
_GITHUB_FINE = re.compile(r"\bgithub_pat_([A-Za-z0-9]{22}_[A-Za-z0-9]{59})\b")
_JWT = re.compile(r"\b(eyJ[\w-]{8,2000})\.(eyJ[\w-]{8,8000})\.([\w-]{10,2000})(?![\w-])")
_PEM_END, _MAX_PEM_LENGTH = "-----END", 20_000
_PEM_START = re.compile(r"-----BEGIN (?:[A-Z]{2,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_URL = re.compile(r"://[^\s:/?#@\"']{1,80}:([^\s/?#@\"']{4,200})@[\w.-]{1,255}")
_NAMES = (
    *(
        "password",
        "passwd",
        "passphrase",
        "pwd",
        "secret",
        "api_key",
        "api-key",
        "apikey",
        "access_key",
        "access-key",
        "accesskey",
    ),
    *("auth_token", "auth-token", "access_token", "access-token", "accesstoken", "private_key", "credential"),
)
_ASSIGNED = re.compile(
    r"(?:passw(?:or)?d|passphrase|pwd|secret|api[_-]?key|access[_-]?key|auth[_-]token|access[_-]?token|private[_-]key|credentials?)"
    r"(?:[_-](?:key|token|id|value)){0,2}[\"']?\s{0,3}(?::|=>?|\bis\b)\s{0,3}[\"']?([^\s\"',;<>()]{8,200})",
    re.IGNORECASE,
)
_BEARER = frozenset({"Bearer", "bearer"})
_PLACEHOLDERS = re.compile(
    r"\A(?:\$\{|\$\(|\{\{|%[({]|<|\*{3}|x{4}|\.{3}|\[|env[:.(]|process\.env|os\.|your|my[_-]|example|change|insert|replace|redacted|todo"
    r"|none\b|null\b|undefined|true\b|false\b|https?:|test|dummy|sample|placeholder|sha256:|hmac-|arn:|vault:|file:)",
    re.IGNORECASE,
)


_GATE = Gate(
    (
        *(pattern.pattern for _, pattern, _, _ in _FORMS),
        *(one.pattern for one in (_GITHUB, _GITHUB_FINE, _JWT, _PEM_START, _URL)),
        f"(?i:{_ASSIGNED.pattern})",
    )
)


class SecretDetector:
    """Detector of credentials, one finding each; only the value is the finding if its name precedes it."""

    def find(self, text: str) -> Iterator[Finding]:
        """Yield the findings, in no order."""
        if not _GATE.opens(text):
            return
        for word, pattern, kind, bits in _BY_WORD:
            if word in text:
                for found in pattern.finditer(text):
                    if entropy(found[1]) >= bits and not _PLACEHOLDERS.match(found[1]):
                        yield Finding(found.start(1) if found[0][:6] in _BEARER else found.start(), found.end(), kind)
        if any(begin in text for begin in _GITHUB_BEGINS):
            yield from _github(text)
        if "eyJ" in text:
            for found in _JWT.finditer(text):
                if _is_jose(found[1]):
                    yield Finding(found.start(), found.end(), "token")
        if "PRIVATE KEY" in text:
            yield from _private_keys(text)
        yield from _passwords(text)


def _private_keys(text: str) -> Iterator[Finding]:
    """Yield private keys, each to its end marker, or to the maximum length."""
    last = 0
    for start in _PEM_START.finditer(text):
        if start.start() >= last:
            end = text.find(_PEM_END, start.end(), start.end() + _MAX_PEM_LENGTH)
            behind = text.find("-----", end + len(_PEM_END)) if end >= 0 else -1
            last = behind + 5 if behind >= 0 else min(len(text), start.end() + _MAX_PEM_LENGTH)
            yield Finding(start.start(), last, "private_key")


def _passwords(text: str) -> Iterator[Finding]:
    """Yield passwords in URLs and values after a name like `password`."""
    if "@" in text:
        for at in _places(text, "://"):
            found = _URL.match(text, at)
            if found and not _PLACEHOLDERS.match(found[1]) and found[1].lower() not in {"password", "pass", "secret"}:
                yield Finding(found.start(1), found.end(1), "password")
    lower = text.lower()
    if len(lower) != len(text):
        lower = text
    for name in _NAMES:
        if name not in lower:
            continue
        for at in _places(lower, name):
            found = _ASSIGNED.match(text, at)
            if found and _is_password(found[1]):
                yield Finding(found.start(1), found.end(1), "password")


def _places(text: str, word: str) -> Iterator[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + len(word))


def _github(text: str) -> Iterator[Finding]:
    """Yield tokens of GitHub and npm, which end with the CRC-32 of the preceding characters, in base 62."""
    for found in _GITHUB.finditer(text):
        if _base62(zlib.crc32(found[2].encode())) == found[3]:
            yield Finding(found.start(), found.end(), "token")
    for found in _GITHUB_FINE.finditer(text):
        if entropy(found[1]) >= 3.5:
            yield Finding(found.start(), found.end(), "token")


def _base62(number: int) -> str:
    digits = ""
    while number:
        number, rest = divmod(number, 62)
        digits = _BASE62[rest] + digits
    return digits.rjust(6, "0")


def _is_jose(header: str) -> bool:
    try:
        found = json.loads(base64.urlsafe_b64decode(header + "=" * (-len(header) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        return False
    return isinstance(found, dict) and ("alg" in found or "enc" in found)


def _is_password(value: str) -> bool:
    """Return True if the value after a name like `password` is a password: several kinds of characters, and no word."""
    if _PLACEHOLDERS.match(value) or value.endswith(("()", ".")):
        return False
    kinds = sum(
        (any(map(str.islower, value)), any(map(str.isupper, value)), any(map(str.isdigit, value)), not value.isalnum())
    )
    return kinds >= 2 and entropy(value) >= 2.7 and (any(map(str.isdigit, value)) or kinds >= 3)


def entropy(text: str) -> float:
    """Return bits per character (Shannon), by the frequency of each."""
    count = len(text)
    return -sum(n / count * math.log2(n / count) for n in Counter(text).values()) if count else 0.0
