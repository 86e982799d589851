"""Parser of parameters in a request by the rules of OpenAPI, and their comparison with the given arguments.

Written from the specification (3.1.1, sections 4.8.12 and 4.8.15, appendices C and E; 2.0, Parameter Object) and RFC 6570, without code
that is shared with the sender. If the specification does not define how a value is sent, the result is `Undefined`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote, unquote_plus

from msgspec import Struct

from toolgen.connectors.openapi.proof.bracket_names import nested
from toolgen.connectors.openapi.proof.received import Received, UnreadableError
from toolgen.connectors.openapi.proof.shapes import shapes
from toolgen.connectors.openapi.proof.spec_operation import SpecOperation

__all__ = [
    "ABSENT",
    "Absent",
    "Undefined",
    "by_convention",
    "equal",
    "reads_as",
    "same_parameter",
    "split_pairs",
    "style_of",
    "vanishes",
]


class Absent:
    """Absent value, which is different from null."""

    def __repr__(self) -> str:
        return "nothing"


ABSENT: Final = Absent()
_DELIMITERS: Mapping[str, str] = {"spaceDelimited": "%20", "pipeDelimited": r"\||%7[Cc]", "tabDelimited": "%09"}
_IN_A_HEADER: Mapping[str, str] = {"spaceDelimited": " ", "pipeDelimited": "|", "tabDelimited": "\t"}
_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]*)\Z")
_JSON = re.compile(r"[^/;\s]+/(?:[^;\s]+\+)?json\s*(?:;.*)?\Z", re.IGNORECASE)


class Undefined(Struct, frozen=True, kw_only=True):
    """Reason why the specification does not define how a value is sent."""

    reason: str
    property: str = ""  # name of the property of the body, if only one is concerned


def is_json(media_type: str) -> bool:
    """Return True for `application/json` and media types that end in `+json`, with any parameters (RFC 6839, section 3.1)."""
    return bool(_JSON.match(media_type))


def style_of(parameter: Mapping[str, Any]) -> tuple[str, bool]:
    """Return style and explode with their defaults (3.1.1, section 4.8.12.2)."""
    place = parameter["in"]
    possible = {
        "path": {"simple", "label", "matrix", *_DELIMITERS},
        "query": {"form", "deepObject", *_DELIMITERS},
        "header": {"simple", *_DELIMITERS},
        "cookie": {"form", "cookie"},
    }
    style = parameter.get("style")
    if style not in possible.get(place, {"form"}):
        style = "simple" if place in {"path", "header"} else "form"
    explode = parameter.get("explode")
    return style, explode if isinstance(explode, bool) else style in {"form", "cookie"}


def same_parameter(
    described: SpecOperation, parameter: Mapping[str, Any], received: Received, sent: Any
) -> str | Undefined | None:
    """Return None if the request has the value that was sent for this parameter (`ABSENT` for none), or else the difference."""
    undefined = _undefined(described, parameter, sent)
    if undefined is not None:
        return undefined
    try:
        if "content" in parameter or parameter["in"] == "querystring":
            found = _content(parameter, received)
            return None if equal(found, sent) else f"is read as {_shown(found)}"
        if style_of(parameter)[0] == "deepObject" and isinstance(sent, (Mapping, list, tuple)):
            values = list(sent.values()) if isinstance(sent, Mapping) else sent
            if _beyond(sent, values):
                _shape(described, parameter, sent)
                pairs = [(key, unquote_plus(value)) for key, value in received.query]
                return by_convention(parameter["name"], pairs, sent)
        read = _styled(described, parameter, received, sent)
    except UnreadableError as error:
        return str(error)
    # RFC 6570, section 2.3: an empty list, a map without a defined member, and null are undefined.
    if isinstance(sent, Absent) or vanishes(sent):
        return (
            None if isinstance(read, Absent) or read in ("", [], {}) else f"is read as {_shown(read)}, not as nothing"
        )
    if read == [] and list(sent) == [""]:
        return None  # joined, a list with one empty text equals an empty list
    return None if reads_as(read, sent) else f"is read as {_shown(read)}"


def by_convention(name: str, pairs: Sequence[tuple[str, str]], sent: Any) -> str | None:
    """Return None if lists and objects in a deepObject are read as they were sent, or else the value that is read.

    The specification leaves open how these are written. PHP, Rails, qs and Stripe agree: `a[]=1&a[]=2`, `a[0][b]=1`, `a[b][c]=1`. That
    convention is documented (docs/reference/openapi.md, "Lists in a deepObject") and tools must follow it.
    """
    read = nested(name, pairs)
    if not reads_as(ABSENT if read is None else read, sent):
        return f"is read as {_shown(read)}"
    return None


def _undefined(described: SpecOperation, parameter: Mapping[str, Any], sent: Any) -> Undefined | None:
    if "content" in parameter or parameter["in"] == "querystring" or isinstance(sent, (Absent, str)):
        return None
    style, _ = style_of(parameter)
    values = list(sent.values()) if isinstance(sent, Mapping) else sent if isinstance(sent, (list, tuple)) else []
    if style == "deepObject" and _beyond(sent, values):
        return None  # judged below by the convention
    if any(isinstance(one, (Mapping, list, tuple)) for one in values):
        return Undefined(reason=f"the style {style} has no form for an array or object within another")
    if isinstance(sent, (list, tuple)) and any(one is None for one in values):
        return Undefined(reason=f"the style {style} has no form for null")
    if isinstance(sent, Mapping) and style == "form" and style_of(parameter)[1]:
        free = [
            one
            for one in described.parameters
            if one["in"] == parameter["in"] and one is not parameter and _spreads(described, one)
        ]
        if free:
            return Undefined(reason="two objects are spread over one query, and a name could belong to either")
    return None


def _beyond(sent: Any, values: Sequence[Any]) -> bool:
    """Return True if deepObject, which is defined for objects of single values, has no form for the value."""
    return isinstance(sent, (list, tuple)) or any(isinstance(one, (Mapping, list, tuple)) for one in values)


def _spreads(described: SpecOperation, parameter: Mapping[str, Any]) -> bool:
    return "object" in shapes(described, parameter.get("schema", {})) and style_of(parameter) == ("form", True)


def _content(parameter: Mapping[str, Any], received: Received) -> Any:
    (media_type,) = list(parameter["content"])[:1]
    place, name = parameter["in"], parameter["name"]
    if place == "querystring":
        whole = "&".join(f"{key}={value}" if value else key for key, value in received.query)
        text: str | Absent = unquote(whole) if whole else ABSENT
    elif place == "header":
        text = received.headers.get(name.lower(), ABSENT)
    else:
        text = ABSENT
        pairs = {"query": received.query, "cookie": received.cookies, "path": tuple(received.path.items())}[place]
        for key, value in pairs:
            if key == name:
                text = unquote(value)
    if isinstance(text, Absent) or not is_json(media_type):
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        raise UnreadableError(f"is not JSON, which {media_type} requires: {text[:80]!r}") from error


def _styled(described: SpecOperation, parameter: Mapping[str, Any], received: Received, sent: Any) -> Any:
    """Return texts, lists or maps of texts. The schema decides the shape; if it allows several, the value decides."""
    name = parameter["name"]
    kind = _shape(described, parameter, sent)
    style, explode = style_of(parameter)
    match parameter["in"]:
        case "path":
            return _path(name, style, explode, received.path.get(name, ABSENT), kind)
        case "header":
            text = received.headers.get(name.lower(), ABSENT)
            if isinstance(text, Absent):
                return ABSENT
            return _joined(text, _IN_A_HEADER.get(style, ","), explode, kind, str.strip)
        case "cookie" if style == "cookie":
            others = {one["name"] for one in described.parameters if one["in"] == "cookie" and one is not parameter}
            return _cookie(name, explode, kind, received.cookies, others)
        case place:
            pairs = received.query if place == "query" else received.cookies
            others = {one["name"] for one in described.parameters if one["in"] == place and one is not parameter}
            return _form(name, style, explode, kind, pairs, others)


def _cookie(name: str, explode: bool, kind: str, pairs: Sequence[tuple[str, str]], others: set[str]) -> Any:
    """Read the style `cookie` of 3.2, which encodes nothing."""
    if explode and kind == "object":
        return split_pairs([(key, value) for key, value in pairs if key not in others]) or ABSENT
    if explode and kind == "array":
        return [value for key, value in pairs if key == name] or ABSENT
    text = _single(name, pairs, str)
    return text if isinstance(text, Absent) else _joined(text, ",", False, kind, str)


def _shape(described: SpecOperation, parameter: Mapping[str, Any], sent: Any) -> str:
    possible = shapes(described, parameter.get("schema", {}))
    kind = "object" if isinstance(sent, Mapping) else "array" if isinstance(sent, (list, tuple)) else "primitive"
    if isinstance(sent, Absent) or sent is None:
        return next(iter(sorted(possible)), "primitive")
    if possible and kind not in possible:
        raise UnreadableError(f"is {_article(kind)}, but the description wants {_article(min(possible))}")
    return kind


def _article(kind: str) -> str:
    return "a single value" if kind == "primitive" else f"an {kind}"


def _path(name: str, style: str, explode: bool, raw: str | Absent, kind: str) -> Any:
    if isinstance(raw, Absent):
        return ABSENT
    match style:
        case "label":
            if not raw.startswith("."):
                raise UnreadableError(f"does not begin with the dot of its style: {raw!r}")
            return _joined(raw[1:], "." if explode else ",", explode, kind, unquote)
        case "matrix":
            if not raw.startswith(";"):
                raise UnreadableError(f"does not begin with the semicolon of its style: {raw!r}")
            parts = [tuple(part.partition("=")[::2]) for part in raw[1:].split(";")]
            if explode and kind == "object":
                return {unquote(key): unquote(value) for key, value in parts}
            if any(unquote(key) != name for key, _ in parts):
                raise UnreadableError(f"is not named {name!r}: {raw!r}")
            if explode and kind == "array":
                return [unquote(value) for _, value in parts]
            return _joined(parts[0][1], ",", False, kind, unquote)
        case "simple":
            return _joined(raw, ",", explode, kind, unquote)
        case _:
            return _joined(raw, _DELIMITERS[style], False, kind, unquote)


def _joined(raw: str, delimiter: str, explode: bool, kind: str, decode: Any) -> Any:
    if kind == "primitive":
        return decode(raw)
    if not raw:
        return [] if kind == "array" else {}
    parts = re.split(delimiter if delimiter in _DELIMITERS.values() else re.escape(delimiter), raw)
    if kind == "array":
        return [decode(part) for part in parts]
    if explode:
        if any("=" not in part for part in parts):
            raise UnreadableError(f"has a member without a value: {raw!r}")
        return split_pairs([(decode(part.partition("=")[0]), decode(part.partition("=")[2])) for part in parts])
    if len(parts) % 2:
        raise UnreadableError(f"does not alternate names and values: {raw!r}")
    return split_pairs([(decode(parts[at]), decode(parts[at + 1])) for at in range(0, len(parts), 2)])


def split_pairs(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return an object from pairs. Raises `UnreadableError` if a name occurs twice."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise UnreadableError("has a member twice")
    return found


def _single(name: str, pairs: Sequence[tuple[str, str]], decode: Any) -> Any:
    values = [decode(value) for key, value in pairs if key == name]
    if len(values) > 1:
        raise UnreadableError(f"is sent {len(values)} times")
    return values[0] if values else ABSENT


def _form(name: str, style: str, explode: bool, kind: str, pairs: Sequence[tuple[str, str]], others: set[str]) -> Any:
    if style == "deepObject" and kind == "object":
        opening = f"{name}["
        inner = [
            (key[len(opening) : -1], unquote_plus(value))
            for key, value in pairs
            if key.startswith(opening) and key.endswith("]") and key not in others
        ]
        return split_pairs(inner) if inner else ABSENT
    if kind == "primitive":
        return _single(name, pairs, unquote_plus)
    if explode or style == "deepObject":
        if kind == "array":
            values = [unquote_plus(value) for key, value in pairs if key == name]
            return values or ABSENT
        free = [(key, unquote_plus(value)) for key, value in pairs if key not in others]
        return split_pairs(free) if free else ABSENT
    raw = _single(name, pairs, str)
    return ABSENT if isinstance(raw, Absent) else _joined(raw, _DELIMITERS.get(style, ","), False, kind, unquote_plus)


def vanishes(sent: Any) -> bool:
    """Return True if a style writes nothing for the value: null, an empty list, or an object without a written member."""
    if isinstance(sent, Mapping):
        return all(vanishes(one) for one in sent.values())
    return sent is None or (isinstance(sent, (list, tuple)) and not sent)


def reads_as(read: Any, sent: Any) -> bool:
    """Return True if texts equal the values that were sent, each read by the type of the sent value."""
    if isinstance(read, Absent):
        return vanishes(sent)
    if isinstance(sent, Mapping):
        members = {key: value for key, value in sent.items() if not vanishes(value)}
        return (
            isinstance(read, Mapping)
            and read.keys() == members.keys()
            and all(reads_as(read[key], value) for key, value in members.items())
        ) or (read == [] and not members)
    if isinstance(sent, (list, tuple)):
        return (
            isinstance(read, list)
            and len(read) == len(sent)
            and all(reads_as(one, value) for one, value in zip(read, sent, strict=True))
        )
    if not isinstance(read, str):
        return False
    if isinstance(sent, bool):
        return read == ("true" if sent else "false")
    if isinstance(sent, int):
        return bool(_WHOLE.match(read)) and int(read) == sent
    if isinstance(sent, float):
        try:
            return bool(json.loads(read) == sent)
        except ValueError:
            return False
    return sent is None or read == sent


def equal(read: Any, sent: Any) -> bool:
    """Return True for equal JSON values: true is not 1, 1 is 1.0, and an integer is not rounded."""
    if isinstance(sent, Mapping):
        return (
            isinstance(read, Mapping)
            and read.keys() == sent.keys()
            and all(equal(read[key], value) for key, value in sent.items())
        )
    if isinstance(sent, (list, tuple)):
        return (
            isinstance(read, (list, tuple))
            and len(read) == len(sent)
            and all(equal(one, value) for one, value in zip(read, sent, strict=True))
        )
    if isinstance(sent, bool) or isinstance(read, bool):
        return isinstance(read, bool) and read is sent
    return bool(read == sent) or (sent is None and isinstance(read, Absent))


def _shown(read: Any) -> str:
    text = repr(read)
    return text if len(text) <= 120 else f"{text[:119]}…"
