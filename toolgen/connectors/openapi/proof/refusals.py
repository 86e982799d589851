"""Values that no request can carry, and that are correctly refused. Any other refusal is a fault."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import unquote

from toolgen.connectors.openapi.proof.reader import Absent, style_of, vanishes
from toolgen.connectors.openapi.proof.received import BODY
from toolgen.connectors.openapi.proof.spec_operation import SpecOperation
from toolgen.model.parameter_names import NameSet, may_override

__all__ = ["may_be_refused"]

_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_NOT_IN_A_COOKIE = re.compile(r'[^\x21-\x7e]|[",;\\]')
_MEDIA_TYPE = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+/[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_OPEN = ("form", True)  # the members of an object are in the query by their own names
_FORM = "application/x-www-form-urlencoded"
_DELIMITERS: Mapping[str, str] = {"spaceDelimited": " ", "pipeDelimited": "|", "tabDelimited": "\t"}


def may_be_refused(described: SpecOperation, sent: Mapping[tuple[str, str], tuple[str, Any]]) -> bool:
    """Return True if one of the values cannot be written in its place, or would be read differently there."""
    wants = {(one["in"], one["name"]): one for one in described.parameters}
    open_ = {
        where: value
        for where, (_, value) in sent.items()
        if where[0] == "query" and isinstance(value, Mapping) and style_of(wants.get(where, {"in": "query"})) == _OPEN
    }
    if any(
        _mixed(value, [name for other, one in open_.items() if other != where for name in one])
        for where, value in open_.items()
    ):
        return True
    return any(
        _not_expressible(described, wants.get(where, {"in": where[0], "name": where[1]}), value)
        for where, (_, value) in sent.items()
        if where != BODY and not isinstance(value, Absent)
    ) or (described.body is not None and _body_not_expressible(described, sent.get(BODY, ("", None))[1]))


def _not_expressible(described: SpecOperation, parameter: Mapping[str, Any], value: Any) -> bool:
    place = parameter["in"]
    texts = _texts(value)
    if any("\ud800" <= character <= "\udfff" for text in texts for character in text):
        return True
    style, explode = style_of(parameter)
    several = isinstance(value, (list, tuple, Mapping))
    if several and style in _DELIMITERS and any(_DELIMITERS[style] in text for text in texts):
        return True
    if "content" not in parameter and _holds_null(value):
        return True
    inner = value.values() if isinstance(value, Mapping) else value if several else ()
    if place in {"path", "header", "cookie"} and any(isinstance(one, (list, tuple, Mapping)) for one in inner):
        return True  # no style can write it
    match place:
        case "path":
            whole = ("." if style == "label" else "") + "/".join(texts)
            return (
                not any(texts)
                or "" in texts
                or any(segment in {".", ".."} for segment in re.split(r"[/\\]", _plain(whole)))
                or value is None
                or (several and style == "label" and explode and any("." in text for text in texts))
            )
        case "header":
            if "content" in parameter:
                return False
            joined = several and any("," in text or "=" in text or not text for text in texts)
            return joined or any(_CONTROL.search(text) or text != text.strip() for text in texts)
        case "cookie":
            return style == "cookie" and any(_NOT_IN_A_COOKIE.search(text) for text in texts)
        case "query" | "querystring":
            if style == "deepObject" and _hollow(value):
                return True
            return isinstance(value, Mapping) and _mixed(value, _others(described, parameter["name"]))
        case _:
            return False


def _others(described: SpecOperation, name: str) -> list[str]:
    """Return the names in a request that belong to other parameters."""
    media = described.body["content"].values() if described.body is not None else ()
    below = [one.get("schema") for one in media]
    fields = [known for one in below if isinstance(one, Mapping) for known in one.get("properties") or ()]
    return [*(one["name"] for one in described.parameters if one["name"] != name), *fields]


def _mixed(value: Any, others: Iterable[str]) -> bool:
    """Return True if a name in an object may be confused with another name, beside it or among `others`."""
    seen = NameSet(others)
    for name, item in value.items():
        if seen.find(name) is not None or may_override(name) or (isinstance(item, Mapping) and _mixed(item, ())):
            return True
    own = NameSet()
    for name in value:
        if own.find(name) is not None:
            return True
        own.add(name)
    return False


def _body_not_expressible(described: SpecOperation, value: Any) -> bool:
    """Return True if the description offers only invalid media types (RFC 9110, section 8.3.1), or a form that cannot hold the value."""
    content = (described.body or {})["content"]
    plain = {name.partition(";")[0].strip().lower(): media for name, media in content.items()}
    if not any(_MEDIA_TYPE.match(name) for name in plain):
        return True
    if value is None:
        return all(name.startswith("multipart/") or name == _FORM for name in plain)
    if not isinstance(value, Mapping):
        return False
    if "base64" in value and "media_type" not in value and all("*" in name for name in plain):
        return True  # the description does not say which media type of the range it is
    forms = [media for name, media in plain.items() if name.startswith("multipart/") or name == _FORM]
    known = {name for media in forms for name in (media.get("schema") or {}).get("properties") or ()}
    free = {name: item for name, item in value.items() if name not in known}
    if forms and _mixed(free, [*known, *(one["name"] for one in described.parameters)]):
        return True
    return any(
        _property_not_expressible(name, item, (media.get("encoding") or {}).get(name) or {}, value)
        for media in forms
        for name, item in value.items()
    )


def _property_not_expressible(name: str, item: Any, how: Mapping[str, Any], whole: Mapping[str, Any]) -> bool:
    style = how.get("style", "form")
    texts = _texts(item)
    if (
        "\0" in name
        or may_override(name)
        or any("\ud800" <= character <= "\udfff" for text in texts for character in text)
    ):
        return True
    if style == "deepObject":
        return _hollow(item)
    if _holds_null(item) and (how or isinstance(item, (list, tuple))):
        return True
    if style in _DELIMITERS or how.get("explode") is False:
        return any(_DELIMITERS.get(style, ",") in text for text in texts)
    return bool(how) and isinstance(item, Mapping) and _mixed(item, (other for other in whole if other != name))


def _hollow(value: Any) -> bool:
    """Return True if a list holds an item that is written as nothing in a form of names and values."""
    if isinstance(value, Mapping):
        return any(_hollow(one) for one in value.values())
    return isinstance(value, (list, tuple)) and any(vanishes(one) or _hollow(one) for one in value)


def _holds_null(value: Any) -> bool:
    """Return True if a list holds null, for which no style has a form."""
    return isinstance(value, (list, tuple)) and any(one is None for one in value)


def _texts(value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [text for name, item in value.items() for text in (str(name), *_texts(item))]
    if isinstance(value, (list, tuple)):
        return [text for item in value for text in _texts(item)]
    return [value if isinstance(value, str) else json.dumps(value)]


def _plain(text: str) -> str:
    for _ in range(4):
        text = unquote(text)
    return text
