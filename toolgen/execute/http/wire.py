"""An `HttpBinding` and checked arguments into the exact request; pure, so that a dry run shows what would be sent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import unquote, unquote_plus, urlsplit

from toolgen.execute.http.bodies import encode_body
from toolgen.execute.http.styles import (
    UnbindableError,
    encode_json,
    form_pairs,
    percent,
    query_pairs,
    simple,
    template,
    undivided,
    unpadded,
)
from toolgen.model.headers import GATEWAY_HEADERS
from toolgen.model.schema import Json, JsonObject
from toolgen.model.tool import HttpBinding, HttpParameter

__all__ = ["Request", "UnbindableError", "bind"]

Headers: TypeAlias = tuple[tuple[str, str], ...]

# The build leaves them out of every tool; a manifest is input too. Accept is free here, because a GraphQL operation asks for its own.
_REFUSED_HEADERS = GATEWAY_HEADERS - {"accept"}
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_UNSAFE_VALUE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
_COOKIE_UNSAFE = re.compile(r'[^\x21-\x7e]|[",;\\]')
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_ORIGIN = re.compile(r"https?://[^/?#@\s\\]+\Z", re.IGNORECASE)
_SAFE_TARGET = re.compile(r"[A-Za-z0-9._~!$&()*+,;=:@/?%|\[\]-]*\Z")
_LITERAL = ":@!$&()*+,;=%"
_ACCEPT = "application/json, */*;q=0.5"
_AGENT = "toolgen"
_DECODINGS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Everything that goes on the wire but framing and credentials. `url` is percent-encoded and sent unchanged."""

    method: str
    url: str
    headers: Headers
    body: bytes | None


def bind(binding: HttpBinding, arguments: JsonObject) -> Request:
    """The request of one call. Raises `UnbindableError`, naming the argument, for what cannot be sent as it is described."""
    base = _base(binding)
    path, question, fixed = binding.path.partition("?")
    query: list[str] = [fixed] if question and fixed else []
    headers: list[tuple[str, str]] = [("Accept", _ACCEPT), ("User-Agent", _AGENT)]
    cookies: list[str] = []
    filled: dict[str, str] = {}
    for parameter in binding.parameters:
        value = arguments.get(parameter.argument)
        if value is None:
            if parameter.required and parameter.in_ == "path":
                raise UnbindableError(f"the argument {parameter.argument!r} is missing")
            continue
        match parameter.in_:
            case "path":
                filled[parameter.name] = _path_value(parameter, value)
            case "query":
                query.extend(_unmixed(_query(parameter, value), parameter, binding))
            case "querystring":
                query.extend(_unmixed(_querystring(parameter, value), parameter, binding))
            case "header":
                _set_header(headers, parameter, value)
            case "cookie":
                cookies.extend(_unmixed(_cookies(parameter, value), parameter, binding))
            case place:
                raise UnbindableError(f"the tool has a parameter in {place!r}, which does not exist")
    target = base + _fill(path, filled, base)
    if query:
        target += "?" + "&".join(query)
    if cookies:
        headers.append(("Cookie", "; ".join(cookies)))
    body = None
    if binding.body is not None and (encoded := encode_body(binding.body, arguments)) is not None:
        headers.append(("Content-Type", encoded.media_type))
        body = encoded.content
    return Request(method=binding.method, url=target, headers=tuple(headers), body=body)


def _base(binding: HttpBinding) -> str:
    """The server's URL without a slash at its end; what it may hold was decided by configuration and the pinned description."""
    server = binding.servers[0] if binding.servers else ""
    try:
        parts = urlsplit(server)
        origin = f"{parts.scheme}://{parts.netloc}"
    except ValueError:
        origin = ""
    if not _ORIGIN.match(origin) or parts.query or parts.fragment:
        raise UnbindableError(
            "the tool's description names no server that can be called",
            suggestion="set `server:` for its source in toolgen.yaml",
        )
    return origin + percent(parts.path, keep="/:@!$&()*+,;=%~").rstrip("/")


def _fill(path: str, filled: Mapping[str, str], base: str) -> str:
    """The path with its values in place. No value can add, remove or climb a segment (RFC 3986, sections 3.3 and 5.2.4)."""
    built = "/".join(_segment(segment, filled) for segment in path.split("/"))
    if any(unquote(segment) in {".", ".."} for segment in f"{base.partition('://')[2]}{built}".split("/")):
        raise UnbindableError("a path argument is a dot segment, which would change the route")
    if not _SAFE_TARGET.match(built):
        raise UnbindableError("the path holds a character that cannot be sent")
    return built


def _segment(segment: str, filled: Mapping[str, str]) -> str:
    parts: list[str] = []
    last = 0
    for match in _PLACEHOLDER.finditer(segment):
        if match[1] not in filled:
            raise UnbindableError(f"the path parameter {match[1]!r} is missing")
        if not filled[match[1]]:
            raise UnbindableError("an empty path argument would change the route")
        parts += [percent(segment[last : match.start()], keep=_LITERAL), filled[match[1]]]
        last = match.end()
    return "".join([*parts, percent(segment[last:], keep=_LITERAL)])


def _path_value(parameter: HttpParameter, value: Json) -> str:
    as_json = parameter.content_type is not None
    text = percent(encode_json(value).decode()) if as_json else template(parameter, value)
    # A server that decodes before it routes would see the dots, so they are refused however deep they are hidden.
    plain = text
    for _ in range(_DECODINGS if "." in text or "%" in text else 0):
        plain = unquote(plain)
        if any(segment in {".", ".."} for segment in re.split(r"[/\\]", plain)):
            raise UnbindableError(
                f"the argument {parameter.argument!r} holds a dot segment, which would change the route",
                suggestion="send the plain identifier",
            )
    return text


def _query(parameter: HttpParameter, value: Json) -> list[str]:
    if parameter.content_type is not None:
        return [f"{percent(parameter.name)}={percent(encode_json(value).decode())}"]
    return query_pairs(parameter, value)


def _querystring(parameter: HttpParameter, value: Json) -> list[str]:
    """The whole query string from one argument (3.2, section 4.12.2)."""
    content_type = (parameter.content_type or "").partition(";")[0].strip().lower()
    if content_type == "application/x-www-form-urlencoded":
        if not isinstance(value, Mapping):
            raise UnbindableError(f"the argument {parameter.argument!r} must be an object")
        return form_pairs(value, {})
    if isinstance(value, str) and not content_type.endswith("json"):
        return [percent(value)]
    return [percent(encode_json(value).decode())]


def _unmixed(pairs: list[str], parameter: HttpParameter, binding: HttpBinding) -> list[str]:
    """The pairs, none of which speaks for another parameter: an object spread over the query brings names of its own, and one of them
    could say again, and differently, what a policy narrowed or bound.
    """
    places = {"query", "querystring"} if parameter.in_ != "cookie" else {"cookie"}
    others = {other.name.casefold() for other in binding.parameters if other.in_ in places and other is not parameter}
    if others and any(unquote_plus(pair.partition("=")[0]).casefold() in others for pair in pairs):
        raise UnbindableError(f"the argument {parameter.argument!r} holds a name that is another parameter's")
    return pairs


def _set_header(headers: list[tuple[str, str]], parameter: HttpParameter, value: Json) -> None:
    name = parameter.name
    if not _TOKEN.match(name) or name.lower() in _REFUSED_HEADERS:
        raise UnbindableError(f"the header {name[:80]!r} is not an argument's to set")
    if parameter.content_type is not None:
        text = encode_json(value).decode()
    else:
        # Nothing is encoded in a header, so a comma within a part would divide it.
        for delimiter in (",", "=") if parameter.explode and isinstance(value, Mapping) else (",",):
            undivided(value, delimiter)
        unpadded(value)
        text = simple(value, parameter.explode, str)
    if _UNSAFE_VALUE.search(text):
        raise UnbindableError(f"the argument {parameter.argument!r} holds a control character, which a header cannot")
    if text != text.strip():
        raise UnbindableError(f"the argument {parameter.argument!r} begins or ends with a space, which a header cannot")
    headers[:] = [header for header in headers if header[0].lower() != name.lower()]
    headers.append((name, text))


def _cookies(parameter: HttpParameter, value: Json) -> list[str]:
    """`style: form` percent-encodes; `style: cookie` (3.2) sends the value as it is, so it must already be a cookie value (RFC 6265)."""
    if not _TOKEN.match(parameter.name):
        raise UnbindableError(f"{parameter.name[:80]!r} is not a cookie name")
    if parameter.style != "cookie":
        if parameter.content_type is not None:
            return [f"{parameter.name}={percent(encode_json(value).decode())}"]
        return query_pairs(parameter, value)
    plain = simple(value, False, str)
    if _COOKIE_UNSAFE.search(plain):
        raise UnbindableError(f"the argument {parameter.argument!r} holds a character that a cookie cannot")
    return [f"{parameter.name}={plain}"]
