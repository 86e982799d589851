"""Builder of the exact request from an `HttpBinding` and checked arguments; pure, so that a dry run shows the request that would be sent.

A name in an object argument must not collide with another argument, a credential, or the parameter for the request's method. Names are
compared by `model/parameter_names.py` across all places of a request: services look for a name in the query, the form, the path and the
cookies alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import chain
from operator import attrgetter
from types import MappingProxyType
from typing import TypeAlias
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace

from toolgen.connectors.http.bodies import StreamedBody, encode_body
from toolgen.connectors.http.parameter_styles import (
    UnbindableError,
    content,
    cookie_pairs,
    header_text,
    joined,
    percent,
    query_pairs,
    template,
    undefined,
)
from toolgen.model.call import Call
from toolgen.model.excerpt import bounded
from toolgen.model.http import is_gateway_header
from toolgen.model.idempotency_keys import NO_KEY_HEADER, written
from toolgen.model.media_types import JSON
from toolgen.model.parameter_names import NameSet, described_override, may_override
from toolgen.model.schema import Json, JsonObject, Schema
from toolgen.model.secret import Unprinted
from toolgen.model.tool import Binding, HttpBinding, HttpKey, HttpParameter
from toolgen.model.wire_names import Spread, brought, is_form, members, owned, spreads

__all__ = [
    "Headers",
    "HttpRequest",
    "UnbindableError",
    "bind",
    "free_names",
    "keyed",
    "path_pieces",
    "repeatable",
    "settable_header",
    "traced",
]

_MAX_NAMES, _SHOWN = 2_000, 80
_ARGUMENT = attrgetter("argument")
_NAMELESS = frozenset({str, int, float, bool, type(None)})


def free_names(binding: HttpBinding, arguments: JsonObject, schema: Schema) -> tuple[str, ...]:
    """Return the names in a request that come from arguments and not from the description. `schema` is the tool's input schema.

    Raises `UnbindableError` for a name that a service could confuse with another name of the request, or with a method override.
    """
    _check_described(binding, arguments, schema)
    if _NAMELESS.issuperset(map(type, arguments.values())):
        return ()  # only objects bring names
    found = [*spreads(binding, arguments, schema)]
    if not found:
        return ()
    claims = [*owned(binding)]
    offered: list[tuple[str, str]] = []  # described members of objects; several objects may have the same member
    free: list[str] = []
    for spread in found:
        known = members(spread.schema, schema)
        _check_siblings(spread, spread.value, known, schema)
        if not spread.name:  # the fields of a form
            free += _check(spread, [name for name in spread.value if name not in known], claims)
            claims += ((f"{spread.owner}.{name}", name) for name in {*spread.value, *known})
            continue
        names = [one.name for one in brought(spread)]
        own = [name for name in names if not spread.deep and name in known]
        _check(spread, own, claims, described=True)
        free += _check(spread, [name for name in names if spread.deep or name not in known], [*claims, *offered])
        claims += ((spread.owner, name) for name in names if spread.deep or name not in known)
        offered += ((spread.owner, name) for name in own)
    return tuple(free)


def _check(
    spread: Spread, names: list[str], claims: Iterable[tuple[str, str]], *, described: bool = False
) -> list[str]:
    """Refuse names that collide with the names of other arguments."""
    if len(names) > _MAX_NAMES:
        raise UnbindableError(f"{spread.argument!r} holds more than {_MAX_NAMES} names", suggestion="send fewer")
    others = NameSet(name for owner, name in claims if owner != spread.owner) if names else NameSet()
    for name in names:
        if (other := others.find(name)) is not None:
            raise _mixed(spread, name, other)
        if described_override(name) if described or spread.deep else may_override(name):
            raise _override(name, f"{spread.argument!r} holds")
    return names


def _check_siblings(spread: Spread, value: Mapping[str, Json], known: Mapping[str, Schema], root: Schema) -> None:
    """Refuse members of one object that collide: a rule about the first would not hold for the second."""
    seen = NameSet(
        known
    )  # also those that are not sent: a service that equates the two names would read one as the other
    for name in value:
        if name not in known:
            if (other := seen.find(name)) is not None:
                raise _mixed(spread, name, other)
            seen.add(name)
    for name, item in value.items() if spread.deep else ():
        below = members(known.get(name, {}), root)
        for one in item if isinstance(item, (list, tuple)) else (item,):
            if isinstance(one, Mapping):
                _check_siblings(spread, one, below, root)


def _check_described(binding: HttpBinding, arguments: JsonObject, schema: Schema) -> None:
    """Refuse arguments that override the method, even if the description has them: the policy decides by the method that is sent."""
    for parameter in binding.parameters:
        if parameter.in_ == "query" and parameter.argument in arguments and described_override(parameter.name):
            raise _override(parameter.name, f"{parameter.argument!r} is")
    body = binding.body
    if body is None:
        return
    for argument, name in body.properties.items():
        if argument in arguments and is_form(body.media_type) and described_override(name):
            raise _override(name, f"{argument!r} is")
    whole = arguments.get(body.argument) if body.argument is not None else None
    if isinstance(whole, Mapping) and (is_form(body.media_type) or JSON.match(body.media_type)):
        for name in filter(described_override, whole):  # Laravel reads `_method` in JSON too
            known = members(members(schema, schema).get(str(body.argument), {}), schema)
            if is_form(body.media_type) or name not in known:
                raise _override(name, f"{body.argument!r} holds")


def _mixed(spread: Spread, name: str, other: str) -> UnbindableError:
    return UnbindableError(
        f"{spread.argument!r} holds {bounded(name, _SHOWN)!r}, a name that is another's to some services: {bounded(other, _SHOWN)!r}",
        suggestion="leave it out, or send the value as the argument of that name",
    )


def _override(name: str, where: str) -> UnbindableError:
    return UnbindableError(
        f"{where} {bounded(name, _SHOWN)!r}, which some services read as another method of the request",
        suggestion="leave it out, and call the tool for the intended method",
    )


Headers: TypeAlias = tuple[tuple[str, str], ...]

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_UNSAFE_VALUE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_ORIGIN = re.compile(r"https?://[^/?#@\s\\]+\Z", re.IGNORECASE)
_SAFE_TARGET = re.compile(r"[A-Za-z0-9._~!$&()*+,;=:@/?%|\[\]-]*\Z")
_LITERAL = ":@!$&()*+,;=%"
_QUERY_LITERAL = f"{_LITERAL}/?[]"
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
_ACCEPT = "application/json, */*;q=0.5"
_AGENT = "toolgen"
_DECODINGS = 4
_NO_SCHEMA: Schema = MappingProxyType({})


class HttpRequest(Unprinted, frozen=True, kw_only=True):
    """Request without its framing. Once signed it holds credentials, so it is never printed.

    `url` is percent-encoded and sent unchanged.
    """

    method: str
    url: str
    headers: Headers
    body: bytes | None
    stream: StreamedBody | None = None
    free_names: tuple[str, ...] = ()  # names in the request that come from arguments and not from the description


def bind(binding: HttpBinding, arguments: JsonObject, schema: Schema = _NO_SCHEMA) -> HttpRequest:
    """Return the request of one call. `schema` is the tool's input schema, which has the described names of members.

    Raises `UnbindableError`, naming the argument, for a value that cannot be sent as described, or that could be read as another one.
    """
    free = free_names(binding, arguments, schema)
    base = _base(binding.servers[0].strip(" ") if binding.servers else "")
    path, question, fixed = binding.path.partition("?")
    query: list[str] = []
    headers: list[tuple[str, str]] = [("Accept", _ACCEPT), ("User-Agent", _AGENT)]
    cookies: list[str] = []
    filled: dict[str, str] = {}
    given_names = map(arguments.get, map(_ARGUMENT, binding.parameters))
    constants = ((one.parameter, one.value) for one in binding.constants) if binding.constants else ()
    for parameter, given in chain(zip(binding.parameters, given_names, strict=True), constants):
        value = joined(given, parameter.nested) if parameter.nested else given
        if value is None:
            if parameter.required and parameter.in_ == "path":
                raise UnbindableError(f"the argument {parameter.argument!r} is missing")
            continue
        match parameter.in_:
            case "path":
                filled[parameter.name] = _path_value(parameter, value)
            case "query" | "querystring":
                query.extend(_query(parameter, value))
            case "header":
                _set_header(headers, parameter, value)
            case "cookie":
                cookies.extend(_cookies(parameter, value))
            case place:
                raise UnbindableError(f"the tool has a parameter in {place!r}, which does not exist")
    target = base + _fill(path, filled, base)
    if question and fixed:
        # Characters that are plain in a path can be delimiters in a query.
        query.insert(
            0, _filled(fixed, {name: percent(text, keep="%,") for name, text in filled.items()}, _QUERY_LITERAL)
        )
    if query:
        target += "?" + "&".join(query)
    if cookies:
        headers.append(("Cookie", "; ".join(cookies)))
    body, stream = None, None
    if binding.body is not None and (encoded := encode_body(binding.body, arguments)) is not None:
        headers.append(("Content-Type", encoded.media_type))
        if isinstance(encoded.content, bytes):
            body = encoded.content
        else:
            stream = encoded.content
    return HttpRequest(
        method=binding.method, url=target, headers=tuple(headers), body=body, stream=stream, free_names=free
    )


@lru_cache(maxsize=4096)
def _base(server: str) -> str:
    """Return the server's URL without a slash at its end. Raises `UnbindableError` if it has no valid origin."""
    try:
        parts = urlsplit(server)
        origin = f"{parts.scheme}://{parts.netloc}"
    except ValueError:
        origin = ""
    # `urlsplit` removes line breaks and tabs, which would join two lines to one host.
    if not _ORIGIN.match(origin) or parts.query or parts.fragment or _CONTROLS.search(server):
        raise UnbindableError(
            "the tool's description names no server that can be called",
            suggestion="set `server:` for its source in toolgen.yaml",
        )
    return origin + percent(parts.path, keep="/:@!$&()*+,;=%~").rstrip("/")


def _fill(path: str, filled: Mapping[str, str], base: str) -> str:
    """Return the path with its values. No value can add or remove a segment, or be a dot segment (RFC 3986, sections 3.3 and 5.2.4). Raises
    `UnbindableError`.
    """
    built = ""
    for plain, name in path_pieces(path):
        built += plain
        if name is not None:
            if (value := filled.get(name)) is None:
                raise UnbindableError(f"the path parameter {name!r} is missing")
            if not value:
                raise UnbindableError("an empty path argument would change the route")
            built += value
    for segment in f"{base}{built}".split("/")[3:]:  # after the scheme and the host
        if ("." in segment or "%" in segment) and _climbs(unquote(segment)):
            raise UnbindableError("a path argument is a dot segment, which would change the route")
    if not _SAFE_TARGET.match(built):
        raise UnbindableError("the path holds a character that cannot be sent")
    return built


def _climbs(segment: str) -> bool:
    """Return True for a dot segment, also for servers that first remove a segment's parameters (`..;a`, RFC 3986, section 3.3)."""
    return segment.partition(";")[0] in {".", ".."}


def _filled(text: str, filled: Mapping[str, str], keep: str) -> str:
    """Return a part of the template with its placeholders replaced and the rest encoded, except for `keep`."""
    parts: list[str] = []
    for plain, name in _pieces(text, keep):
        parts.append(plain)
        if name is not None:
            if name not in filled:
                raise UnbindableError(f"the path parameter {name!r} is missing")
            parts.append(filled[name])
    return "".join(parts)


@lru_cache(maxsize=4096)
def path_pieces(path: str) -> tuple[tuple[str, str | None], ...]:
    """Split a path template into pieces, as `_pieces` does. No placeholder extends over a slash."""
    pieces: list[tuple[str, str | None]] = []
    for number, segment in enumerate(path.split("/")):
        if number:
            pieces.append(("/", None))
        pieces += _pieces(segment, _LITERAL)
    return tuple(pieces)


@lru_cache(maxsize=4096)
def _pieces(text: str, keep: str) -> tuple[tuple[str, str | None], ...]:
    """Split a template into pairs of encoded text and the placeholder that follows it; None after the last text. `keep` is not encoded."""
    pieces: list[tuple[str, str | None]] = []
    last = 0
    for match in _PLACEHOLDER.finditer(text):
        pieces.append((percent(text[last : match.start()], keep=keep), match[1]))
        last = match.end()
    return (*pieces, (percent(text[last:], keep=keep), None))


def _path_value(parameter: HttpParameter, value: Json) -> str:
    text = template(parameter, value) if parameter.content_type is None else percent(_content(parameter, value))
    # A server that decodes before it routes would see the dots, so they are refused also after several decodings.
    plain = text
    for _ in range(_DECODINGS if "." in text or "%" in text else 0):
        plain = unquote(plain)
        if any(_climbs(segment) for segment in re.split(r"[/\\]", plain)):
            raise UnbindableError(
                f"the argument {parameter.argument!r} holds a dot segment, which would change the route",
                suggestion="send the plain identifier",
            )
    return text


def _content(parameter: HttpParameter, value: Json) -> str:
    return content(parameter.content_type or "", value, parameter.parts)


def _query(parameter: HttpParameter, value: Json) -> list[str]:
    if parameter.content_type is None:
        return query_pairs(parameter, value)
    text = _content(parameter, value)
    if parameter.in_ == "query":
        return [f"{percent(parameter.name)}={percent(text)}"]
    # The complete query string (3.2, section 4.12.1): a form is encoded already, any other content is encoded here.
    form = parameter.content_type.partition(";")[0].strip().lower() == "application/x-www-form-urlencoded"
    if form and not isinstance(value, Mapping):
        raise UnbindableError(f"the argument {parameter.argument!r} must be an object")
    return [pair for pair in text.split("&") if pair] if form else [percent(text)]


def settable_header(name: str) -> bool:
    """Return True if an argument may set a header of this name. Accept is among them, because a GraphQL operation has its own."""
    return _TOKEN.match(name) is not None and (not is_gateway_header(name) or name.lower() == "accept")


def _set_header(headers: list[tuple[str, str]], parameter: HttpParameter, value: Json) -> None:
    name = parameter.name
    if not settable_header(name):
        raise UnbindableError(f"the header {bounded(name, 80)!r} cannot be set by an argument")
    text = header_text(parameter, value) if parameter.content_type is None else _content(parameter, value)
    if not text and undefined(value):
        return
    if _UNSAFE_VALUE.search(text):
        raise UnbindableError(f"the argument {parameter.argument!r} holds a control character, which a header cannot")
    if text != text.strip():
        raise UnbindableError(f"the argument {parameter.argument!r} begins or ends with a space, which a header cannot")
    headers[:] = [header for header in headers if header[0].lower() != name.lower()]
    headers.append((name, text))


def _cookies(parameter: HttpParameter, value: Json) -> list[str]:
    """Return the pairs of a cookie parameter. `style: form` percent-encodes; `style: cookie` (3.2) sends the value unchanged, so it must be
    a valid cookie value (RFC 6265). Raises `UnbindableError`.
    """
    if not _TOKEN.match(parameter.name):
        raise UnbindableError(f"{bounded(parameter.name, 80)!r} is not a cookie name")
    if parameter.content_type is not None:
        return [f"{parameter.name}={percent(_content(parameter, value))}"]
    return cookie_pairs(parameter, value) if parameter.style == "cookie" else query_pairs(parameter, value)


_KNOWN = frozenset({"idempotency-key", "x-idempotency-key"})
_TRACE = frozenset({"traceparent", "tracestate"})


def repeatable(call: Call, configured: str) -> bool:
    """Return True if sending the call twice has the effect of sending it once: it is idempotent or has an idempotency key."""
    return call.tool.idempotent or _key(call.tool.binding, configured) is not None


def keyed(request: HttpRequest, call: Call, configured: str) -> HttpRequest:
    """Return the request with the caller's key, or the call's own id, if it needs one and the system supports it.

    A key that is an argument is not changed.
    """
    if call.tool.idempotent and not (isinstance(call.tool.binding, HttpBinding) and call.tool.binding.key):
        return request  # only a described key can be required
    key = _key(call.tool.binding, configured)
    if key is None or (call.tool.idempotent and not key.required):
        return request
    if any(given.lower() == key.header.lower() for given, _ in request.headers):
        return request
    text = written(call.tool.binding, call.idempotency_key or call.id)
    return replace(request, headers=(*request.headers, (key.header, text)))


def traced(request: HttpRequest, call: Call) -> HttpRequest:
    """Return the request with the trace headers of its call, which replace those of arguments."""
    if call.trace is None:
        return request
    kept = (header for header in request.headers if header[0].lower() not in _TRACE)
    return replace(request, headers=(*kept, *call.trace.headers))


def _key(binding: Binding, configured: str) -> HttpKey | None:
    """Return the header of the idempotency key, from the description or else from toolgen.yaml; None if neither names one, or if
    toolgen.yaml disables it.
    """
    if configured == NO_KEY_HEADER:
        return None
    if isinstance(binding, HttpBinding):
        if isinstance(binding.key, HttpKey):
            return binding.key
        for parameter in binding.parameters:
            if parameter.in_ == "header" and parameter.name.lower() in _KNOWN:
                return HttpKey(header=parameter.name)
    return HttpKey(header=configured) if configured else None
