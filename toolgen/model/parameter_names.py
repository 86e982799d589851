"""Equality of names of parameters in any service: the common definition for every check of names.

Services read names loosely, each differently. PHP reads ` a.b` and `a[b` as `a_b`, and the text after a bracket as a nested key. Rack and
qs do the same with other brackets, ASP.NET and Spring with dots, CGI with `-` and `_` of headers. Some ignore case, stop at a NUL, decode
twice or normalize Unicode. Two names may be equal if any such reading of them is.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import TypeAlias
from urllib.parse import unquote

__all__ = ["NameSet", "described_override", "may_be_one", "may_override"]

Keys: TypeAlias = tuple[str, ...]
"""Pattern of nested keys: `filter[owner]` is `owner` in `filter`."""

_PLAIN = re.compile(r"[A-Za-z0-9]+\Z")
_BRACKETS = re.compile(r"[\[\]]")
_DIVIDERS = re.compile(r"[\[\].:]")  # Zope has `name:int`
_BETWEEN_PAIRS = re.compile(r"[&;,=?#]")  # ends of a name for services that split a query after decoding it
_WIDE_ESCAPE = re.compile(r"%u([0-9A-Fa-f]{4})")
_DECODINGS = 4
_MAX_DEPTH = 16  # keys; deeper ones do not distinguish names
_SHORT = 128
_OVERRIDES = frozenset({"xhttpmethod", "xhttpmethodoverride", "xmethodoverride", "httpmethodoverride"})
_MARKED_OVERRIDES = frozenset({"method", "httpmethod", "methodoverride"})


class NameSet:
    """Set of names with a test whether another may equal one of them, or contain or be contained in one: `a` and `a[b]` conflict."""

    __slots__ = ("_beginnings", "_whole")

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._whole: dict[Keys, str] = {}
        self._beginnings: dict[Keys, str] = {}
        for name in names:
            self.add(name)

    def add(self, name: str) -> None:
        """Add a name."""
        for keys in _readings(name):
            self._whole.setdefault(keys, name)
            for end in range(1, len(keys) + 1):
                self._beginnings.setdefault(keys[:end], name)

    def find(self, name: str) -> str | None:
        """Return the first of the names that this one may equal, or None."""
        for keys in ((name.lower(),),) if _PLAIN.match(name) else _readings(name):
            if keys in self._beginnings:
                return self._beginnings[keys]
            for end in range(1, len(keys)):
                if keys[:end] in self._whole:
                    return self._whole[keys[:end]]
        return None


def may_be_one(name: str, other: str) -> bool:
    """Return True if some service could take two names as the same name, or one as nested in the other."""
    return NameSet((name,)).find(other) is not None


@lru_cache(maxsize=4096)
def described_override(name: str) -> bool:
    """Return True if a query or form parameter of this name, which its description has, changes a request's method: a plain `method`
    does not."""
    return any(
        keys[0] in _OVERRIDES or (keys[0] in _MARKED_OVERRIDES and not name[:1].isalnum()) for keys in _readings(name)
    )


def may_override(name: str) -> bool:
    """Return True if a parameter that no description has may change the method. Some services take `method` for `_method` too."""
    return any(keys[0] in _OVERRIDES or keys[0] in _MARKED_OVERRIDES for keys in _readings(name))


def _readings(name: str) -> frozenset[Keys]:
    if _PLAIN.match(name):
        return frozenset({(name.lower(),)})
    # Names from agents are not cached: only short names are worth it, of which descriptions have few.
    return _cached(name) if len(name) <= _SHORT else _read(name)


def _read(name: str) -> frozenset[Keys]:
    return frozenset(keys for text in _texts(name) for keys in _keys(text)) or frozenset({(name,)})


_cached = lru_cache(maxsize=4096)(_read)


def _texts(name: str) -> Iterator[str]:
    """Return the name as it is and decoded again, each also cut where a reader may stop."""
    text = name
    for _ in range(_DECODINGS):
        for piece in (text, *_BETWEEN_PAIRS.split(text)):
            yield piece
            yield piece.partition("\0")[0]
        decoded = unquote(_WIDE_ESCAPE.sub(lambda found: chr(int(found[1], 16)), text))
        if decoded == text:
            return
        text = decoded


def _keys(text: str) -> Iterator[Keys]:
    for divider in (_BRACKETS, _DIVIDERS):
        if keys := tuple(key for part in divider.split(text) if (key := _simplified(part))):
            yield keys[:_MAX_DEPTH]
    if whole := _simplified(text):
        yield (whole,)


def _simplified(text: str) -> str:
    """Return letters and digits only, without case, accents or Unicode variants; a text without them is unchanged."""
    if text.isascii():
        kept = "".join(filter(str.isalnum, text)).lower()
    else:
        folded = unicodedata.normalize("NFKD", text).upper().casefold()
        kept = "".join(filter(str.isalnum, unicodedata.normalize("NFKD", folded)))
    return kept or text.strip()
