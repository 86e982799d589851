"""Names of parameters that may be one to some service: the one notion that every check of names shares.

Services read names loosely, each in its own way. PHP takes ` a.b` and `a[b` for `a_b`, and what follows a bracket for a key below.
Rack and qs do the same with other brackets, ASP.NET and Spring with dots, CGI with `-` and `_` of headers. Some ignore case, stop at a NUL,
decode twice or bring Unicode into another form. Two names may be one if any such reading of them is.
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
"""How a service finds a value: `filter[owner]` is `owner` in `filter`."""

_PLAIN = re.compile(r"[A-Za-z0-9]+\Z")
_BRACKETS = re.compile(r"[\[\]]")
_DIVIDERS = re.compile(r"[\[\].:]")  # Zope has `name:int`
_BETWEEN_PAIRS = re.compile(r"[&;,=?#]")  # what ends a name, for who splits a query after decoding it
_WIDE_ESCAPE = re.compile(r"%u([0-9A-Fa-f]{4})")
_DECODINGS = 4
_MAX_DEPTH = 16  # keys; what is deeper differs from no name that is not as deep
_SHORT = 128
_OVERRIDES = frozenset({"xhttpmethod", "xhttpmethodoverride", "xmethodoverride", "httpmethodoverride"})
_MARKED_OVERRIDES = frozenset({"method", "httpmethod", "methodoverride"})


class NameSet:
    """Names, to be asked whether another may be one of them, or stand above or below one: `a` and `a[b]` take each other's place."""

    __slots__ = ("_beginnings", "_whole")

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._whole: dict[Keys, str] = {}
        self._beginnings: dict[Keys, str] = {}
        for name in names:
            self.add(name)

    def add(self, name: str) -> None:
        """Takes in one more."""
        for keys in _readings(name):
            self._whole.setdefault(keys, name)
            for end in range(1, len(keys) + 1):
                self._beginnings.setdefault(keys[:end], name)

    def find(self, name: str) -> str | None:
        """The first of the names that this one may be, or None."""
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
    # What agents write is not kept: only short names, of which there are few in the descriptions, are worth it.
    return _cached(name) if len(name) <= _SHORT else _read(name)


def _read(name: str) -> frozenset[Keys]:
    return frozenset(keys for text in _texts(name) for keys in _keys(text)) or frozenset({(name,)})


_cached = lru_cache(maxsize=4096)(_read)


def _texts(name: str) -> Iterator[str]:
    """The name as it stands and decoded again, each also cut where a reader may stop."""
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
        if keys := tuple(key for part in divider.split(text) if (key := _squashed(part))):
            yield keys[:_MAX_DEPTH]
    if whole := _squashed(text):
        yield (whole,)


def _squashed(text: str) -> str:
    """Letters and digits alone, without case, accents or another form of Unicode; what has none stays as it is."""
    if text.isascii():
        kept = "".join(filter(str.isalnum, text)).lower()
    else:
        folded = unicodedata.normalize("NFKD", text).upper().casefold()
        kept = "".join(filter(str.isalnum, unicodedata.normalize("NFKD", folded)))
    return kept or text.strip()
