"""OpenAPI's parameter styles (3.1.1, section 4.8.12 and appendix C), which are RFC 6570 with exceptions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import quote, quote_plus, unquote

from toolgen.core.error_codes import ErrorCode
from toolgen.core.errors import ToolgenError
from toolgen.core.json_codec import file_json
from toolgen.model.media_types import JSON
from toolgen.model.schema import Json
from toolgen.model.tool import HttpParameter, HttpPart

__all__ = [
    "UnbindableError",
    "content",
    "cookie_pairs",
    "encode_json",
    "form_pairs",
    "form_text",
    "header_text",
    "joined",
    "percent",
    "query_pairs",
    "scalar",
    "styled_parts",
    "template",
    "undefined",
]

_DELIMITERS: Mapping[str, str] = {"form": ",", "spaceDelimited": "%20", "pipeDelimited": "%7C", "tabDelimited": "%09"}
# Characters that allowReserved leaves as they are, except & ; # + (which can end a value or become a space) and ' (never needed).
_RESERVED = ":/?[]@!$()*,="
_PATH_RESERVED = ":@!$&()*+,="
_MAX_DEPTH = 20
_UNRESERVED = re.compile(r"[A-Za-z0-9_.~-]*\Z")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_TRIPLE = re.compile(r"(%[0-9A-Fa-f]{2})")
_COOKIE_UNSAFE = re.compile(r'[^\x21-\x7e]|[",;\\]')
_UNENCODABLE = re.compile(r"[\ud800-\udfff]")


class UnbindableError(ToolgenError):
    """Arguments that cannot become the request that they are for; nothing was sent."""

    code: ErrorCode = "validation"


def percent(text: str, *, keep: str = "") -> str:
    """Percent-encode everything except unreserved characters (RFC 3986, section 2.3) and `keep`."""
    if _UNRESERVED.match(text):
        return text
    if _UNENCODABLE.search(text):
        raise UnbindableError("an argument holds a lone surrogate, which is not Unicode text")
    return quote(text, safe=keep)


def reserved(text: str, *, keep: str = _RESERVED) -> str:
    """Percent-encode a text for `allowReserved` (RFC 6570, section 3.2.3), except percent-encoded triplets and characters in `keep`."""
    if "%" not in text:
        return percent(text, keep=keep)
    return "".join(piece if index % 2 else percent(piece, keep=keep) for index, piece in enumerate(_TRIPLE.split(text)))


def encode_json(value: Json) -> bytes:
    """Return compact JSON that keeps every integer exact. Raises `UnbindableError` for NaN and infinities, which have no JSON form."""
    try:
        raw = file_json(value, _plain)
        if b"null" in raw:  # msgspec writes NaN as null; Python's own writer refuses it
            json.dumps(value, allow_nan=False, default=_plain)
    except (TypeError, ValueError, RecursionError):
        pass
    else:
        return raw
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
        return text.encode("utf-8")
    except (ValueError, TypeError, RecursionError) as error:
        raise UnbindableError("an argument is not a JSON value that can be sent") from error


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple):
        return list(value)
    raise TypeError(type(value).__name__)


def scalar(value: Json) -> str:
    """Return a primitive as text: `true` for booleans, the JSON form for numbers. Nested values are JSON text, which no style defines."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case int():
            return str(value)
        case _:
            return encode_json(value).decode()


def _item(value: Json) -> str:
    """Return an item of a list as text. Raises `UnbindableError` for null: no style has a form for it, and the text `null` would be another
    item.
    """
    if value is None:
        raise UnbindableError("a list contains null, which only JSON can express: leave it out")
    return scalar(value)


def _list(value: Json) -> Sequence[Json] | None:
    return value if isinstance(value, (list, tuple)) else None


def _members(value: Mapping[str, Json]) -> list[tuple[str, Json]]:
    """Return the members that are sent: an undefined one is not (RFC 6570, section 2.3), and null is JSON's only way to express
    undefined."""
    return [(name, item) for name, item in value.items() if item is not None]


def _texts(value: Json) -> list[str]:
    if isinstance(value, Mapping):
        return [text for key, item in _members(value) for text in (key, scalar(item))]
    return [_item(item) for item in _list(value) or ()]


def joined(value: Json, styles: Sequence[str]) -> Json:
    """Return the arrays within an array as texts by their own collectionFormat (2.0, Items Object)."""
    if not styles or (items := _list(value)) is None:
        return value
    return [_joined(item, styles) for item in items]


def _joined(item: Json, styles: Sequence[str]) -> Json:
    inner = _list(item)
    if inner is None or not styles:
        return item
    delimiter = unquote(_DELIMITERS.get(styles[0], ","))
    texts: list[Json] = [_joined(one, styles[1:]) for one in inner]
    undivided(texts, delimiter)
    return delimiter.join(map(_item, texts))


def undivided(value: Json, delimiter: str) -> None:
    """Raise `UnbindableError` if a part of an array or object contains the delimiter of the parts: it would arrive as another value."""
    if any(delimiter in text for text in _texts(value)):
        raise UnbindableError(f"a part of an argument holds {delimiter!r}, which divides its parts")


def simple(value: Json, explode: bool, encode: Callable[[str], str], delimiter: str = ",") -> str:
    """Return `a,b` for arrays; `R,100,G,200` or, exploded, `R=100,G=200` for objects. 2.0 has other delimiters for arrays."""
    if isinstance(value, (list, tuple)):
        return delimiter.join(encode(_item(item)) for item in value)
    if isinstance(value, Mapping):
        between = "=" if explode else ","
        return ",".join(f"{encode(name)}{between}{encode(scalar(item))}" for name, item in _members(value))
    return encode(scalar(value))


def template(parameter: HttpParameter, value: Json) -> str:
    """Return a value in the path: simple, label or matrix."""
    encode = _path_reserved if parameter.allow_reserved else percent
    match parameter.style:
        case "label":
            text = simple(value, parameter.explode, encode)
            if parameter.explode and not isinstance(value, str):
                undivided(value, ".")
            return "." + (text.replace(",", ".") if parameter.explode else text)
        case "matrix":
            return _matrix(percent(parameter.name), value, parameter.explode, encode)
        case "simple":
            return simple(value, parameter.explode, encode)
        case style:
            delimiter = _DELIMITERS.get(style)
            if delimiter is None:
                raise UnbindableError(f"the style {style!r} does not exist in a path")
            undivided(value, unquote(delimiter))
            return delimiter.join(percent(_item(item)) for item in (_list(value) or [value]))


def _path_reserved(text: str) -> str:
    """Percent-encode a text in a path, also `/ ? #` (3.2, section 4.8.2) and `;`, after which some servers see a dot segment."""
    return reserved(text, keep=_PATH_RESERVED)


def _matrix(name: str, value: Json, explode: bool, encode: Callable[[str], str]) -> str:
    if explode:
        if (items := _list(value)) is not None:
            return "".join(f";{name}={encode(_item(item))}" for item in items)
        if isinstance(value, Mapping):
            return "".join(f";{encode(key)}={encode(scalar(item))}" for key, item in _members(value))
    text = simple(value, False, encode)
    return f";{name}={text}" if text else f";{name}"


def undefined(value: Json) -> bool:
    """Return True if an array or an object contains nothing that could be sent (RFC 6570, section 2.3)."""
    return not _members(value) if isinstance(value, Mapping) else _list(value) is not None and not value


def header_text(parameter: HttpParameter, value: Json) -> str:
    """Return a value in a header, where nothing is encoded; empty if there is nothing to send."""
    delimiter = unquote(_DELIMITERS.get(parameter.style, ","))
    for divider in (delimiter, "=") if parameter.explode and isinstance(value, Mapping) else (delimiter,):
        undivided(value, divider)
    if any(text != text.strip() for text in _texts(value)):
        raise UnbindableError("a part of an argument begins or ends with a space, which a header cannot keep")
    return simple(value, parameter.explode, str, delimiter)


def cookie_pairs(parameter: HttpParameter, value: Json) -> list[str]:
    """Return pairs of `style: cookie` (3.2): nothing is encoded, so every part must be valid in a cookie (RFC 6265, section 4.1.1)."""

    def plain(text: str) -> str:
        if _COOKIE_UNSAFE.search(text):
            raise UnbindableError(f"the argument {parameter.argument!r} holds a character that a cookie cannot contain")
        return text

    if isinstance(value, Mapping) and parameter.explode and not all(map(_TOKEN.match, value)):
        raise UnbindableError(f"the argument {parameter.argument!r} has a name that a cookie cannot have")
    return _pairs(parameter.name, value, "form", parameter.explode, plain)


def query_pairs(parameter: HttpParameter, value: Json) -> list[str]:
    """Return encoded `name=value` pairs of the query or, joined otherwise, of the Cookie header. An empty array or object sends nothing."""
    encode = reserved if parameter.allow_reserved else percent
    return _pairs(percent(parameter.name), value, parameter.style, parameter.explode, encode)


def _pairs(name: str, value: Json, style: str, explode: bool, encode: Callable[[str], str]) -> list[str]:
    items = _list(value)
    members = _members(value) if isinstance(value, Mapping) else None
    if items is None and members is None:
        return [f"{name}={encode(scalar(value))}"]
    if not items and not members:
        return []
    if style == "deepObject":
        return _deep(name, value, encode, 0)
    if explode:
        if members is not None:
            return [f"{encode(key)}={encode(scalar(item))}" for key, item in members]
        return [f"{name}={encode(_item(item))}" for item in items or ()]
    delimiter = _DELIMITERS.get(style)
    if delimiter is None:
        raise UnbindableError(f"the style {style!r} does not exist in a query")
    flat = _texts(value)
    # The comma of `form` is not encoded, but a comma in a value is. The other delimiters are encoded in both places.
    if style != "form":
        undivided(value, unquote(delimiter))
    return [f"{name}={delimiter.join(encode(text) for text in flat)}"]


def _deep(name: str, value: Json, encode: Callable[[str], str], depth: int) -> list[str]:
    """Return pairs like `color[R]=100`. The standard leaves deeper values and arrays open; they are sent as Stripe, PHP, Rails and qs read
    them.

    These are `a[]=1&a[]=2` and `a[0][b]=1`: there, a plain repeated name keeps only its last value, and a single one is not a list.
    """
    if depth > _MAX_DEPTH:
        raise UnbindableError(
            f"an argument is nested more than {_MAX_DEPTH} levels deep, which is too much for a query"
        )
    opening, closing = encode("["), encode("]")
    if isinstance(value, Mapping):
        return [
            pair
            for key, item in _members(value)
            for pair in _deep(f"{name}{opening}{encode(key)}{closing}", item, encode, depth + 1)
        ]
    if (items := _list(value)) is not None:
        if any(item is None for item in items):
            _item(None)
        nested = any(isinstance(item, (Mapping, list, tuple)) for item in items)
        below = [
            _deep(f"{name}{opening}{index if nested else ''}{closing}", item, encode, depth + 1)
            for index, item in enumerate(items)
        ]
        if not all(below):
            raise UnbindableError("a list contains an empty value, which a query cannot express")
        return [pair for pairs in below for pair in pairs]
    return [f"{name}={encode(scalar(value))}"]


def styled_parts(name: str, value: Json, part: HttpPart) -> list[tuple[str, str]]:
    """Return the parts of one multipart property that has a style (3.1.1, section 4.8.15.1.2): names and texts, unencoded."""
    value = joined(value, part.nested)
    style = part.style or "form"
    explode = part.explode if part.explode is not None else style == "form"
    if not explode and style != "deepObject":
        undivided(value, unquote(_DELIMITERS.get(style, ",")))  # nothing is percent-encoded in a part
    written = _pairs(percent(name), value, style, explode, percent)
    return [(unquote(key), unquote(text)) for key, _, text in (pair.partition("=") for pair in written)]


def form_pairs(value: Mapping[str, Json], parts: Mapping[str, HttpPart]) -> list[str]:
    """Return pairs of application/x-www-form-urlencoded, property by property (3.1.1, section 4.8.15): a space is `+`, an object without a
    style is JSON."""
    pairs: list[str] = []
    for name, item in value.items():
        if item is None:
            continue
        part = parts.get(name)
        styled = part is not None and (part.style is not None or part.explode is not None or part.allow_reserved)
        if part is not None and styled:
            style, value_ = part.style or "form", joined(item, part.nested)
            explode = part.explode if part.explode is not None else style == "form"
            pairs += _pairs(
                form_text(name), value_, style, explode, _reserved_plus if part.allow_reserved else form_text
            )
        elif isinstance(item, Mapping) or (part is not None and "json" in (part.content_type or "")):
            pairs.append(f"{form_text(name)}={form_text(encode_json(item).decode())}")
        else:
            pairs += _pairs(form_text(name), item, "form", True, form_text)
    return pairs


def content(media_type: str, value: Json, parts: Mapping[str, HttpPart]) -> str:
    """Return a parameter with `content` in its media type: JSON, a form, or otherwise plain text."""
    if JSON.match(media_type):
        return encode_json(value).decode()
    plain = media_type.partition(";")[0].strip().lower()
    if plain == "application/x-www-form-urlencoded" and isinstance(value, Mapping):
        return "&".join(form_pairs(value, parts))
    return scalar(value)


def form_text(text: str) -> str:
    """Return a name or a value in a form: a space is `+`. Raises `UnbindableError` for a lone surrogate."""
    if _UNENCODABLE.search(text):
        raise UnbindableError("an argument holds a lone surrogate, which is not Unicode text")
    return quote_plus(text)


def _reserved_plus(text: str) -> str:
    return reserved(text, keep=f"{_RESERVED} ").replace(" ", "+")
