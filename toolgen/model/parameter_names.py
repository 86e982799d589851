"""Names of parameters that may be one to some service: the one notion that every check of names shares.

Services read names loosely, each in its own way. PHP takes ` a.b` and `a[b` for `a_b`, and what follows a bracket for a key below.
Rack and qs do the same with other brackets, ASP.NET and Spring with dots, CGI with `-` and `_` of headers. Some ignore case, stop at a NUL,
decode twice or bring Unicode into another form. Two names may be one if any such reading of them is.

Which names the arguments of a tool have on the wire: those its description gives them, and those that an object brings itself.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias
from urllib.parse import unquote

from msgspec import Struct

from toolgen.model.schema import Json, JsonObject, Schema
from toolgen.model.tool import HttpBinding, HttpBody, HttpParameter, HttpPart

__all__ = [
    "Brought",
    "NameSet",
    "Spread",
    "brought",
    "described_override",
    "is_form",
    "may_be_one",
    "may_override",
    "members",
    "owned",
    "spreads",
]

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


_FORM = "application/x-www-form-urlencoded"
_BRANCHES = ("allOf", "anyOf", "oneOf")
_MAX_WIRE_NAME_DEPTH = 20


class Brought(Struct, frozen=True, kw_only=True):
    """A name that is in an argument's value and goes on the wire as one of its own. `owner` is the argument, or one field of a form."""

    argument: str
    owner: str
    name: str


class Spread(Struct, frozen=True, kw_only=True):
    """An object whose members are names on the wire: as they are or, where it is `deep`, within brackets (`name[member]`).

    `name` is the object's own, and "" for a form that is one object. `schema` is what its description says of it.
    """

    argument: str
    owner: str
    name: str
    value: Mapping[str, Json]
    schema: Schema
    deep: bool


def owned(binding: HttpBinding) -> Iterator[tuple[str, str]]:
    """Every owner with its name on the wire, sent or not: arguments, and the properties that a body is known to have."""
    for parameter in binding.parameters:
        yield parameter.argument, parameter.name
    for constant in binding.constants or ():
        yield "", constant.parameter.name
    if binding.body is not None:
        yield from binding.body.properties.items()


def is_form(media_type: str | None) -> bool:
    """Return True if the body is sent as names and values."""
    plain = (media_type or "").partition(";")[0].strip().lower()
    return plain == _FORM or plain.startswith("multipart/")


def spreads(binding: HttpBinding, arguments: JsonObject, schema: Schema) -> Iterator[Spread]:
    """The objects in the arguments that are spread over a query, a path, a cookie or a form. `schema` is the tool's input schema."""
    for parameter in binding.parameters:
        value = arguments.get(parameter.argument)
        if isinstance(value, (Mapping, list, tuple)):
            below = _below(schema, parameter.argument, schema)
            if parameter.in_ == "querystring" and parameter.content_type is not None:
                if is_form(parameter.content_type) and isinstance(value, Mapping):
                    yield from _fields(parameter.argument, value, parameter.parts, below, schema)
            elif parameter.content_type is None and (deep := _deep(parameter)) is not None:
                yield from _objects(parameter.argument, parameter.argument, parameter.name, value, below, deep=deep)
    body = binding.body
    if body is not None and is_form(body.media_type) and not body.file:
        yield from _body(body, arguments, schema)


def brought(spread: Spread) -> Iterator[Brought]:
    """The names on the wire of an object's members."""
    for name in _names(spread.name, spread.value, 0) if spread.deep else spread.value:
        yield Brought(argument=spread.argument, owner=spread.owner, name=name)


def members(schema: Schema, root: Schema) -> Mapping[str, Schema]:
    """The properties that a schema names, through references and branches."""
    found: dict[str, Schema] = {}
    _collect(schema, root, found, 0)
    return found


def _body(body: HttpBody, arguments: JsonObject, schema: Schema) -> Iterator[Spread]:
    if body.argument is not None:
        value = arguments.get(body.argument)
        if isinstance(value, Mapping):
            yield from _fields(body.argument, value, body.parts, _below(schema, body.argument, schema), schema)
        return
    for argument, name in body.properties.items():
        value, part = arguments.get(argument), body.parts.get(name)
        if isinstance(value, (Mapping, list, tuple)) and part is not None and (deep := _part_deep(part)) is not None:
            yield from _objects(argument, argument, name, value, _below(schema, argument, schema), deep=deep)


def _fields(
    argument: str, value: Mapping[str, Json], parts: Mapping[str, HttpPart], schema: Schema, root: Schema
) -> Iterator[Spread]:
    """A form that is one object: its members are fields, and those that have a style may bring further ones."""
    yield Spread(argument=argument, owner=argument, name="", value=value, schema=schema, deep=False)
    known = members(schema, root)
    for name, item in value.items():
        part = parts.get(name)
        if isinstance(item, (Mapping, list, tuple)) and part is not None and (deep := _part_deep(part)) is not None:
            yield from _objects(argument, f"{argument}.{name}", name, item, known.get(name, {}), deep=deep)


def _objects(argument: str, owner: str, name: str, value: Json, schema: Schema, *, deep: bool) -> Iterator[Spread]:
    if isinstance(value, Mapping):
        yield Spread(argument=argument, owner=owner, name=name, value=value, schema=schema, deep=deep)
    elif deep and isinstance(value, Sequence) and not isinstance(value, str):
        for index, item in enumerate(value):
            yield from _objects(argument, owner, f"{name}[{index}]", item, {}, deep=True)


def _deep(parameter: HttpParameter) -> bool | None:
    """Return True if an object is sent in brackets, False if its members are separate parameters, None if it has one name or no name."""
    match parameter.in_, parameter.style:
        case "query" | "querystring" | "cookie", "deepObject":
            return True
        case "query" | "querystring" | "cookie", _:
            return False if parameter.explode else None
        case "path", "matrix":
            return False if parameter.explode else None
        case _:
            return None


def _part_deep(part: HttpPart) -> bool | None:
    if part.style == "deepObject":
        return True
    styled = bool(part.style) or part.explode is not None or part.allow_reserved
    explode = part.explode if part.explode is not None else part.style in {None, "form"}
    return False if styled and explode else None


def _names(prefix: str, value: Json, depth: int) -> Iterator[str]:
    if isinstance(value, Mapping) and depth < _MAX_WIRE_NAME_DEPTH:
        for key, item in value.items():
            yield from _names(f"{prefix}[{key}]", item, depth + 1)
    elif isinstance(value, (list, tuple)) and depth < _MAX_WIRE_NAME_DEPTH:
        for item in value:
            yield from _names(f"{prefix}[]", item, depth + 1)
    else:
        yield prefix


def _below(schema: Schema, name: str, root: Schema) -> Schema:
    return members(schema, root).get(name, {})


def _collect(schema: Any, root: Schema, found: dict[str, Schema], depth: int) -> None:
    if not isinstance(schema, Mapping) or depth > _MAX_WIRE_NAME_DEPTH:
        return
    properties = schema.get("properties")
    if isinstance(properties, Mapping):
        for name, below in properties.items():
            found.setdefault(name, below if isinstance(below, Mapping) else {})
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/$defs/"):
        _collect(root.get("$defs", {}).get(reference.removeprefix("#/$defs/")), root, found, depth + 1)
    for keyword in _BRANCHES:
        for branch in schema.get(keyword, ()):
            _collect(branch, root, found, depth + 1)
