"""Request as a server receives it: path values, query pairs, headers, cookies and body, still encoded."""

from __future__ import annotations

import re
from collections.abc import Collection, Container, Mapping, Sequence
from types import MappingProxyType
from urllib.parse import unquote, unquote_plus

from msgspec import Struct

__all__ = ["BODY", "AmbiguousError", "Received", "UnreadableError", "receive"]

BODY = ("body", "")
"""Place and wire name of a complete body."""

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_HEX = re.compile(r"%(?![0-9A-Fa-f]{2})")


class UnreadableError(Exception):
    """Request, or part of one, that a server following the description could not read."""


class AmbiguousError(Exception):
    """Path with two possible values for a variable: for `{id}.{format}`, `a.b.json` gives `a` and `a.b`."""


class Received(Struct, frozen=True, kw_only=True):
    """HTTP request as a server receives it. Path values and query pairs are still percent-encoded; header names are in lower case."""

    path: Mapping[str, str]
    query: tuple[tuple[str, str], ...]
    headers: Mapping[str, str]
    cookies: tuple[tuple[str, str], ...]
    content_type: str
    body: bytes | None


def receive(
    url: str,
    headers: tuple[tuple[str, str], ...],
    body: bytes | None,
    *,
    server: str,
    path: str,
    queried: Container[str] = (),
    listed: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> Received:
    """Split a request by the description's path template. The `queried` parameters in the template's query are read as parameters.

    `listed` are the permitted values of path variables with an enum. Raises `UnreadableError` when the request does not match the path, and
    `AmbiguousError` when it matches in two ways.
    """
    target, _, fragment = url.partition("#")
    if fragment or url.endswith("#"):
        raise UnreadableError("the URL has a fragment, which is never sent")
    if not target.startswith(server):
        raise UnreadableError("the URL does not begin with the server's")
    if _HEX.search(target) or not target.isascii() or any(character <= " " for character in target):
        raise UnreadableError("the URL holds a character that is not percent-encoded")
    sent, _, query = target[len(server) :].partition("?")
    template, _, fixed = path.partition("#")[0].partition("?")
    pairs = [_pair(pair) for pair in query.split("&") if pair]
    variables: dict[str, str] = {}
    for pair in filter(None, fixed.split("&")):
        if (names := _PLACEHOLDER.findall(pair)) and all(name in queried for name in names):
            continue
        found = next((one for one in pairs if _fills(pair, one, variables)), None)
        if found is None:
            raise UnreadableError(f"the query lacks {pair!r}, which the path contains")
        pairs.remove(found)
    names = [name.lower() for name, _ in headers]
    if len(set(names)) != len(names):
        raise UnreadableError("a header is sent twice")
    by_name = {name.lower(): value for name, value in headers}
    cookies = [pair.strip() for pair in by_name.get("cookie", "").split(";") if pair.strip()]
    return Received(
        path=_values(template if template.startswith("/") else f"/{template}", sent, listed) | variables,
        query=tuple(pairs),
        headers=by_name,
        cookies=tuple(_pair(pair) for pair in cookies),
        content_type=by_name.get("content-type", ""),
        body=body,
    )


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return unquote_plus(name), value


def _fills(written: str, pair: tuple[str, str], variables: dict[str, str]) -> bool:
    """Return True if a pair is a query pair of the path itself with its variables filled in. The values are added to `variables`."""
    name, value = _pair(written)
    names, literals = _PLACEHOLDER.findall(value), _PLACEHOLDER.split(value)[::2]
    if name != pair[0]:
        return False
    if not names:
        return unquote_plus(value) == unquote_plus(pair[1])
    matched = re.fullmatch("(.*?)".join(map(_literal, literals)), pair[1])
    variables.update(zip(names, matched.groups(), strict=True) if matched else ())
    return matched is not None


def _values(template: str, sent: str, listed: Mapping[str, Collection[str]]) -> dict[str, str]:
    """Return the values of a path template's variables. A value is never empty and never holds a slash (3.1.1, section 4.8.8.2)."""
    segments, given = template.split("/"), sent.split("/")
    if len(segments) != len(given):
        raise UnreadableError(f"the path {sent!r} does not fit {template!r}")
    found: dict[str, str] = {}
    for segment, text in zip(segments, given, strict=True):
        names = _PLACEHOLDER.findall(segment)
        literals = _PLACEHOLDER.split(segment)[::2]
        if not names:
            fits = unquote(segment) == unquote(text)
            values: tuple[str, ...] = ()
        else:
            shortest, longest = (_groups(names, literals, text, listed, end) for end in ("+?", "+"))
            if shortest != longest:
                raise AmbiguousError(f"the path {sent!r} can be read in more than one way")
            fits, values = shortest is not None, shortest or ()
        if not fits:
            raise UnreadableError(f"the path {sent!r} does not fit {template!r}")
        found.update(zip(names, values, strict=True))
    return found


def _groups(
    names: Sequence[str], literals: Sequence[str], text: str, listed: Mapping[str, Collection[str]], repeated: str
) -> tuple[str, ...] | None:
    """Return the values in a segment, or None for another segment. `repeated` makes the first as short or as long as possible; a
    percent-encoded character counts as one.
    """
    pattern = _literal(literals[0])
    for name, literal in zip(names, literals[1:], strict=True):
        several = "|".join(map(_literal, listed.get(name, ())))
        pattern += f"({several or f'(?:%[0-9A-Fa-f]{{2}}|[^%]){repeated}'}){_literal(literal)}"
    matched = re.fullmatch(pattern, text)
    return matched and matched.groups()


def _literal(text: str) -> str:
    """Return a pattern for the fixed text of a path, whose characters may be sent plain or percent-encoded."""
    return "".join(
        character
        if character.isascii() and character.isalnum()
        else f"(?:{re.escape(character)}|{''.join(f'%{byte:02X}' for byte in character.encode())})"
        for character in text
    )
