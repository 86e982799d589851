"""Servers of a description: their URLs, and the URLs that a request can be sent to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from toolgen.connectors.references import joined

__all__ = ["Servers", "described", "located", "unusable"]

_VARIABLE = re.compile(r"\{([^{}]+)\}")


# urlsplit removes some of these silently, and many clients read a backslash as a slash.
_NEVER_IN_A_URL = re.compile(r"[\x00-\x1f\x7f\\]")


class _NoValueError(Exception):
    """Variable of a server's URL without a usable value."""


class Servers(Struct, frozen=True, kw_only=True):
    """Servers of an operation: URLs that may be relative, reasons why other described servers have none, and the place of the list."""

    urls: tuple[str, ...]
    faults: tuple[str, ...] = ()
    origin: str


def described(written: Any, origin: str) -> Servers:
    """Return Server Objects with variables at their defaults. An absent or empty list means the server `/` (3.1.1, section 4.8.1)."""
    found: list[str] = []
    faults: list[str] = []
    for one in written if isinstance(written, list) else []:
        if isinstance(one, dict) and isinstance(one.get("url"), str):
            try:
                found.append(_substitute(one["url"], one.get("variables")))
            except _NoValueError as error:
                faults.append(str(error))
    urls = () if faults and not found else tuple(found) or ("/",)
    return Servers(urls=urls, faults=tuple(faults), origin=origin)


def _substitute(url: str, variables: Any) -> str:
    def value(match: re.Match[str]) -> str:
        variable = variables.get(match[1]) if isinstance(variables, dict) else None
        text = _default(variable) if isinstance(variable, dict) else None
        if text is None:
            raise _NoValueError(f"the server variable {match[1][:40]!r} has no usable default")
        return text

    return _VARIABLE.sub(value, url)


def _default(variable: Mapping[str, Any]) -> str | None:
    """Return the default as text, which must be among the permitted values. YAML reads unquoted values as numbers."""
    default, allowed = variable.get("default"), variable.get("enum")
    text = _text(default)
    listed = [_text(one) for one in allowed] if isinstance(allowed, list) else []
    if text is None or (listed and text not in listed):
        return None
    # 1.10 without quotes is 1.1: only a list with the same text shows that nothing was lost.
    return None if isinstance(default, float) and text not in (allowed or ()) else text


def _text(value: object) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (str, int, float)) else None


def located(urls: Iterable[str], location: str) -> tuple[str, ...]:
    """Return absolute URLs for a document at `location` (3.1.1, section 4.8.5). A file has no base URL; a host without a scheme means
    https there.
    """
    if location:
        return tuple(joined(location, url) for url in urls)
    return tuple(f"https:{url}" if url.startswith("//") else url for url in urls)


def unusable(url: str) -> str | None:
    """Return the reason why no request can be sent to a server, or None. A user name would be a credential in every manifest."""
    try:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"}:
            return "is not an http or https address"
        if not parts.hostname or " " in parts.netloc or _NEVER_IN_A_URL.search(url):
            return "has no host"
        _ = parts.port
    except ValueError:
        return "cannot be read as a URL"
    if "@" in parts.netloc:
        return "has a user name"
    return "has a query or a fragment" if set("?#").intersection(url) else None
