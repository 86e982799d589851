"""Which documents a description may pull in by `$ref` from elsewhere: URLs below the prefixes that toolgen.yaml lists, and no others.

References by `$id` and `$anchor` as the pointers they stand for: what follows need know one kind (JSON Schema 2020-12, section 8.2).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from ipaddress import ip_address
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

from msgspec import Struct, field

from toolgen.connectors.pins import Pin
from toolgen.connectors.syntax import escape

__all__ = ["Remote", "UnsafeUrlError", "by_pointer", "canonical", "is_below", "is_loopback", "joined", "may_name_parts"]

_CHARACTERS = re.compile(r"[\x21-\x7e]+\Z")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_HOST = re.compile(r"[a-z0-9._-]+\Z|[0-9a-f:.]+\Z")
_UNRESERVED = re.compile(r"%(?:2[dD]|3[0-9]|4[1-9a-fA-F]|5[0-9aAfF]|6[1-9a-fA-F]|7[0-9aAeE])")
# What a server might read as another path than the one that was compared: / . \ % ; ? # and controls, encoded.
_AMBIGUOUS = re.compile(r"%(?:2[eEfF5]|5[cC]|3[bBfF]|23|[01][0-9a-fA-F]|7[fF]|(?![0-9a-fA-F]{2}))")
_PORTS = {"http": 80, "https": 443}


class UnsafeUrlError(ValueError):
    """A URL that is no plain address of a document; its text says why, to follow "the reference …"."""


class Remote(Struct, frozen=True, kw_only=True):
    """Remote documents that one description may refer to.

    `base` is the description's own URL, empty for a file. `pins` are the accepted documents by canonical URL.
    """

    base: str = ""
    allowed: tuple[str, ...] = ()
    pins: Mapping[str, Pin] = field(default_factory=lambda: MappingProxyType({}))


def canonical(url: str) -> str:
    """The one spelling of a document's URL, by which it is allowed, pinned and recognised.

    Raises `UnsafeUrlError` for everything that two readers could take for two documents, and for plain http beyond this machine.
    """
    if not _CHARACTERS.match(url) or "\\" in url or len(url) > 2000:
        raise UnsafeUrlError("holds a character that no URL has")
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError as error:
        raise UnsafeUrlError("is not a URL") from error
    if parts.scheme not in _PORTS or not host or not _HOST.match(host):
        raise UnsafeUrlError("is not an http(s) URL of a host")
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        raise UnsafeUrlError("holds a user name")
    if "?" in url or parts.query:
        raise UnsafeUrlError("has a query, which could be a credential")
    if parts.scheme == "http" and not is_loopback(host):
        raise UnsafeUrlError("is over plain http, so it could be anybody's")
    path = _UNRESERVED.sub(lambda match: chr(int(match[0][1:], 16)), parts.path or "/")
    if _AMBIGUOUS.search(path) or any(one.partition(";")[0] in {".", ".."} for one in path.split("/")):
        raise UnsafeUrlError("has a path that servers read in different ways")
    netloc = f"[{host}]" if ":" in host else host
    if port is not None and port != _PORTS[parts.scheme]:
        netloc = f"{netloc}:{port}"
    return urlunsplit((parts.scheme, netloc, path, "", ""))


def joined(base: str, target: str) -> str:
    """A reference as its document means it (RFC 3986, section 5). What cannot be joined comes back as no http(s) URL at all."""
    if _SCHEME.match(target):
        return target  # `https:///a` is absolute and broken, not a path (section 5.2.2, strictly)
    try:
        return urljoin(base, target)
    except ValueError:
        return f"unreadable:{target}"


def is_below(url: str, allowed: Iterable[str]) -> bool:
    """Return True if a canonical URL equals one in `allowed` or is below it: same origin, same first path segments."""
    parts = urlsplit(url)
    segments = parts.path.split("/")
    for prefix in allowed:
        other = urlsplit(prefix)
        wanted = other.path.removesuffix("/").split("/")
        if (parts.scheme, parts.netloc) == (other.scheme, other.netloc) and segments[: len(wanted)] == wanted:
            return True
    return False


def is_loopback(host: str) -> bool:
    """Return True if a host is always this machine, independent of DNS."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


_MARKS = re.compile(rb"\$(?:id|anchor|dynamicAnchor)")  # one pass over a document, which may be megabytes
_ANCHORS = ("$anchor", "$dynamicAnchor")
_DATA = frozenset({"enum", "const", "default", "example", "examples"})
_NAMED = frozenset(
    {"properties", "patternProperties", "dependentSchemas", "$defs", "definitions", "schemas", "parameters"}
)


def may_name_parts(data: bytes) -> bool:
    """Return True if the bytes of a document hold a name by which references could mean a part of it (`$id` or an anchor)."""
    return _MARKS.search(data) is not None


def by_pointer(document: Any) -> Any:
    """The document with every reference that an `$id` or an anchor in it can resolve written as a pointer from its root."""
    resources = _Resources(document)
    return resources.rewritten() if resources.found else document


class _Resources:
    """The schemas of one document that have an address of their own, by URL, and their anchors."""

    def __init__(self, document: Any) -> None:
        self._document = document
        self._pointers: dict[str, str] = {"": ""}
        self._anchors: dict[tuple[str, str], str] = {}
        self._done: dict[tuple[int, str, bool], Any] = {}
        seen: set[int] = set()
        todo: list[tuple[Any, str, str, bool]] = [(document, "", "", True)]
        while todo:
            node, pointer, base, is_schema = todo.pop()
            if not isinstance(node, (dict, list)) or id(node) in seen:
                continue
            seen.add(id(node))
            if isinstance(node, dict) and is_schema:
                base = self._enter(node, pointer, base)
            todo += [
                (item, f"{pointer}/{escape(str(key))}", base, inner is _Inside.SCHEMA)
                for key, item, inner in _inside(node, is_schema)
                if inner is not _Inside.DATA
            ]
        self.found = len(self._pointers) > 1 or bool(self._anchors)

    def _enter(self, node: dict[str, Any], pointer: str, base: str) -> str:
        own = _base(node, base)
        if own != base:
            self._pointers.setdefault(own, pointer)
        for keyword in _ANCHORS:
            if isinstance(name := node.get(keyword), str):
                self._anchors.setdefault((own, name), pointer)
        return own

    def rewritten(self) -> Any:
        """The document, with its references as pointers."""
        return self._rewritten(self._document, "", True)

    def _rewritten(self, node: Any, base: str, is_schema: bool) -> Any:
        if not isinstance(node, (dict, list)):
            return node
        known = self._done.get((id(node), base, is_schema))
        if known is not None:
            return known
        own = _base(node, base) if is_schema and isinstance(node, dict) else base
        built: Any = {} if isinstance(node, dict) else [None] * len(node)
        for key, item, inner in _inside(node, is_schema):
            if is_schema and key == "$ref" and isinstance(item, str):
                built[key] = self._pointer(item, own)
            elif inner is _Inside.DATA:
                built[key] = item
            else:
                built[key] = self._rewritten(item, own, inner is _Inside.SCHEMA)
        self._done[id(node), base, is_schema] = built
        return built

    def _pointer(self, ref: str, base: str) -> str:
        target, _, fragment = ref.partition("#")
        url = _joined(base, target) if target else base
        within = self._pointers.get(url)
        if within is None or (not within and fragment.startswith("/")):
            return ref
        if fragment and not fragment.startswith("/"):
            place = self._anchors.get((url, unquote(fragment)))
            return ref if place is None else f"#{place}"
        # Many write pointers from the document's root where an `$id` makes them start from the schema.
        return f"#{within}{fragment}" if target or self._leads(f"{within}{fragment}") else ref

    def _leads(self, pointer: str) -> bool:
        node = self._document
        for token in pointer.split("/")[1:]:
            key = unquote(token).replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict) and key in node:
                node = node[key]
            elif isinstance(node, list) and key.isascii() and key.isdigit() and int(key[:9]) < len(node):
                node = node[int(key[:9])]
            else:
                return False
        return True


class _Inside(Enum):
    SCHEMA = "its keys are keywords"
    NAMES = "its keys are names"
    DATA = "it is a value"


def _inside(node: Any, is_schema: bool) -> Iterator[tuple[Any, Any, _Inside]]:
    """Yield the members of a node: key or index, value, and the kind of the value."""
    if isinstance(node, list):
        yield from ((index, item, _Inside.SCHEMA) for index, item in enumerate(node))
        return
    for key, item in node.items():
        if is_schema and (key in _DATA or key.startswith("x-")):
            yield key, item, _Inside.DATA
        else:
            yield key, item, _Inside.NAMES if is_schema and key in _NAMED else _Inside.SCHEMA


def _base(node: dict[str, Any], base: str) -> str:
    own = node.get("$id")
    return _joined(base, own.partition("#")[0]) if isinstance(own, str) and own.partition("#")[0] else base


def _joined(base: str, target: str) -> str:
    try:
        return urljoin(base, target)
    except ValueError:
        return f"unreadable:{target}"
