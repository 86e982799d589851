"""The one internal model that Swagger 2.0 and OpenAPI 3.0, 3.1 and 3.2 are read into; schemas are still as written.

The servers of a description: which URLs they are, and which of those a request could be sent to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from toolgen.connectors.references import joined

__all__ = [
    "METHODS",
    "FaultError",
    "Operation",
    "Parameter",
    "Part",
    "RequestBody",
    "Servers",
    "described",
    "located",
    "unusable",
]

_VARIABLE = re.compile(r"\{([^{}]+)\}")
# urlsplit takes some of these out and says nothing, and a backslash is a slash to many clients.
_NEVER_IN_A_URL = re.compile(r"[\x00-\x1f\x7f\\]")


class _NoValueError(Exception):
    """A variable of a server's URL has no value that may be used."""


class Servers(Struct, frozen=True, kw_only=True):
    """Servers at which an operation can be called: URLs that may be relative, why others that are described have none, and where that
    is written."""

    urls: tuple[str, ...]
    faults: tuple[str, ...] = ()
    origin: str


def described(written: Any, origin: str) -> Servers:
    """Server Objects with their variables at their defaults; nothing written, or none of them, is the server `/` (3.1.1, section 4.8.1)."""
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
    """The default as text, which must be among the values allowed; YAML makes numbers of what is not quoted."""
    default, allowed = variable.get("default"), variable.get("enum")
    text = _text(default)
    listed = [_text(one) for one in allowed] if isinstance(allowed, list) else []
    if text is None or (listed and text not in listed):
        return None
    # 1.10 without quotes is 1.1: only a list that has it as text says that nothing was lost.
    return None if isinstance(default, float) and text not in (allowed or ()) else text


def _text(value: object) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, (str, int, float)) else None


def located(urls: Iterable[str], location: str) -> tuple[str, ...]:
    """URLs as a document at `location` means them (3.1.1, section 4.8.5). A file has none, and means by a host without a scheme https."""
    if location:
        return tuple(joined(location, url) for url in urls)
    return tuple(f"https:{url}" if url.startswith("//") else url for url in urls)


def unusable(url: str) -> str | None:
    """Why no request could be sent to a server, or None. A user name would be a credential in every manifest."""
    try:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"}:
            return "is not an http or https address"
        if not parts.hostname or " " in parts.netloc or _NEVER_IN_A_URL.search(url):
            return "has no host that could be asked"
        _ = parts.port
    except ValueError:
        return "cannot be read as a URL"
    if "@" in parts.netloc:
        return "has a user name"
    return "has a query or a fragment" if set("?#").intersection(url) else None


METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")


class FaultError(Exception):
    """Why one operation cannot become a tool. `origin` is a JSON pointer; `code` is stable."""

    def __init__(self, code: str, origin: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.origin = origin
        self.message = message


class Parameter(Struct, frozen=True, kw_only=True):
    """A parameter, with style and explode already decided. `schema` and `example` are as written."""

    name: str
    in_: str  # path | query | header | cookie | querystring
    required: bool
    schema: Any
    description: str
    style: str
    explode: bool
    allow_reserved: bool = False
    content_type: str | None = None
    examples: tuple[Any, ...] = ()
    deprecated: bool = False
    nested: tuple[str, ...] = ()  # the styles of arrays within the array, from the outermost on
    parts: Mapping[str, Part] = {}  # of a form in the querystring


class Part(Struct, frozen=True, kw_only=True):
    """An Encoding Object, as far as it is written; `None` is absent."""

    content_type: str | None = None
    style: str | None = None
    explode: bool | None = None
    allow_reserved: bool = False
    headers: Mapping[str, str]
    nested: tuple[str, ...] = ()  # as in `Parameter`


class RequestBody(Struct, frozen=True, kw_only=True):
    """The one media type that will be sent, of those the operation offers."""

    media_type: str
    schema: Any
    required: bool
    description: str
    parts: Mapping[str, Part]
    examples: tuple[Any, ...] = ()
    others: tuple[RequestBody, ...] = ()  # in the other media types that are offered, the fittest first


class Operation(Struct, frozen=True, kw_only=True):
    """Operation with its path item's share. `security` is an OR of ANDs of scheme names."""

    origin: str
    method: str
    path: str
    identifier: str
    summary: str
    description: str
    tags: tuple[str, ...]
    deprecated: bool
    hint: str  # x-toolgen-effect
    parameters: tuple[Parameter, ...]
    body: RequestBody | None
    servers: Servers
    security: tuple[tuple[str, ...], ...]
    outputs: tuple[Any, ...]
    files: bool = False  # whether a successful answer may be neither JSON nor text
    html: bool = False  # whether a successful answer is described as HTML
    scopes: tuple[Mapping[str, tuple[str, ...]], ...] = ()  # of the same alternatives; empty where none is named
