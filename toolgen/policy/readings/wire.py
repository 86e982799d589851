"""Interpretations of a value after it became text in a path, query, header, cookie or form: every value with the same text there.

OpenAPI's styles (3.1.1, section 4.8.12) write `7`, `"7"`, `[7]` and `{"n": 7}` for a parameter `n` alike. The description says which of
them a service reads; if it allows several types, all of them are interpretations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto
from itertools import product
from math import prod
from typing import TypeAlias, assert_never

import msgspec
from msgspec import Struct, field

from toolgen.model.media_types import JSON
from toolgen.model.schema import Json, json_type
from toolgen.model.tool import HttpBody, HttpParameter, HttpPart
from toolgen.policy.readings.shape import SchemaShape
from toolgen.policy.readings.values import distinct, parsed, text_of

__all__ = ["ABSENT", "MAX_COUNT", "ReadValue", "TooManyReadingsError", "WireForm", "meanings", "places"]

ABSENT = msgspec.UNSET
"""Marker for an argument of which nothing is sent: the service treats it as missing."""

MAX_COUNT = 64
"""Maximum number of interpretations of one call that a rule is evaluated for."""

_MAX_PARTS = 10_000  # maximum items of a list whose parts may have several interpretations

_DELIMITERS: Mapping[str, str] = {"spaceDelimited": " ", "pipeDelimited": "|", "tabDelimited": "\t"}
_FORM = "application/x-www-form-urlencoded"
_NO_PARTS: Mapping[str, HttpPart] = {}
_MAX_DEPTH = 20

ReadValue: TypeAlias = "Json | msgspec.UnsetType"


class TooManyReadingsError(Exception):
    """Call with more interpretations than rules are evaluated for. The text names the ambiguous arguments."""

    def __init__(self, names: Iterable[str]) -> None:
        super().__init__(f"{', '.join(sorted(names))} can be read in more than {MAX_COUNT} ways")


class WireText(Enum):
    """The ways in which a value becomes text."""

    PAIRS = auto()  # `name=text` for each item or member
    JOINED = auto()  # one text, its items or members joined
    DEEP = auto()  # `name[member]=text` for each leaf
    TEXT = auto()  # one text; nested values are JSON in it
    FORM = auto()  # object whose members are fields, each with its own notation
    EXACT = auto()  # JSON or a file, which has one interpretation


_UNSENT = frozenset({WireText.PAIRS, WireText.JOINED, WireText.DEEP})


class WireForm(Struct, frozen=True, kw_only=True):
    """Notation of one argument, or one field of a form, and its description.

    `named`: members of an object are joined as `name=value`. `whole`: an object is one JSON text and not a pair for each member. `empty`:
    an empty list or object is sent, as an empty text. `parts` are the notations of the fields of a form.
    """

    written: WireText
    name: str
    shape: SchemaShape
    delimiter: str = ","
    named: bool = False
    whole: bool = False
    empty: bool = False
    parts: Mapping[str, HttpPart] = field(default_factory=lambda: _NO_PARTS)

    @property
    def single(self) -> bool:
        """True if every value that the description allows here has a single interpretation."""
        kinds, shape = self.shape.kinds, self.shape
        if self.written is WireText.EXACT:
            return "null" not in kinds
        return kinds <= {"string", "integer", "number", "boolean"} and len(shape.scalars) == 1

    @property
    def opens(self) -> bool:
        """True if each part of a value may have several interpretations."""
        items = self.shape.items
        one = items.kinds <= {"string", "integer", "number", "boolean"} and len(items.scalars) == 1
        return self.written is not WireText.EXACT and not (one and self.shape.kinds <= {"array", "null"})


def places(parameters: Iterable[HttpParameter], body: HttpBody | None, schema: SchemaShape) -> Mapping[str, WireForm]:
    """Return the places of request arguments that may have several interpretations."""
    found: dict[str, WireForm] = {}
    for parameter in parameters:
        found[parameter.argument] = _parameter(parameter, schema.member(parameter.argument))
    if body is not None and not JSON.match(body.media_type):
        if body.argument is not None:
            found[body.argument] = _body(body, schema.member(body.argument))
        for argument, name in body.properties.items():
            part = body.parts.get(name, body.others or HttpPart())
            found[argument] = _field(name, part, schema.member(argument))
    return {name: place for name, place in found.items() if not place.single}


def meanings(place: WireForm, value: Json) -> list[ReadValue]:
    """Return every value with the same notation as this one, as far as the description allows it; only the value itself if there is no
    other."""
    if place.written is WireText.DEEP:
        value = _trimmed(value)
    if value is None or _is_unsent(place, value):
        return [ABSENT]
    if isinstance(value, (Mapping, list, tuple)) and len(value) > _MAX_PARTS and place.opens:
        raise TooManyReadingsError([place.name])
    match place.written:
        case WireText.EXACT:
            found: list[Json] = [value]
        case WireText.PAIRS:
            found, sent = _pairs(place, value)
            if not sent:
                return [*distinct(found), ABSENT]
        case WireText.JOINED:
            found = _joined(place, value)
        case WireText.TEXT:
            found = _text(place, value)
        case WireText.DEEP:
            found = _deep(place, value)
        case WireText.FORM:
            found = _form(place, value)
        case _:
            assert_never(place.written)
    return [*(distinct(found) or [value])]


def _parameter(parameter: HttpParameter, shape: SchemaShape) -> WireForm:
    name, style, explode = parameter.name, parameter.style, parameter.explode
    if parameter.content_type is not None:
        return _content(name, parameter.content_type, parameter.parts, shape)
    if style == "deepObject":
        return WireForm(written=WireText.DEEP, name=name, shape=shape)
    pairs = explode and (style == "matrix" or parameter.in_ in {"query", "cookie"})
    if pairs:
        return WireForm(written=WireText.PAIRS, name=name, shape=shape)
    delimiter = "." if style == "label" and explode else _DELIMITERS.get(style, ",")
    return WireForm(
        written=WireText.JOINED,
        name=name,
        shape=shape,
        delimiter=delimiter,
        named=explode,
        empty=parameter.in_ == "path",
    )


def _content(name: str, media_type: str, parts: Mapping[str, HttpPart], shape: SchemaShape) -> WireForm:
    written = WireText.TEXT
    if JSON.match(media_type):
        written = WireText.EXACT
    elif media_type.partition(";")[0].strip().lower() == _FORM:
        written = WireText.FORM
    return WireForm(written=written, name=name, shape=shape, parts=parts)


def _body(body: HttpBody, shape: SchemaShape) -> WireForm:
    if body.file:
        return WireForm(written=WireText.EXACT, name="", shape=shape)
    plain = body.media_type.partition(";")[0].strip().lower()
    form = plain == _FORM or plain.startswith("multipart/")
    return WireForm(written=WireText.FORM if form else WireText.TEXT, name="", shape=shape, parts=body.parts)


def _field(name: str, part: HttpPart, shape: SchemaShape) -> WireForm:
    """Return the form of a field of a form body (3.1.1, section 4.8.15): an object without a style is JSON."""
    if part.file or (part.style is None and part.explode is None and "json" in (part.content_type or "")):
        return WireForm(written=WireText.EXACT, name=name, shape=shape)
    if part.style is None and part.explode is None:
        return WireForm(written=WireText.PAIRS, name=name, shape=shape, whole=True)
    style = part.style or "form"
    explode = part.explode if part.explode is not None else style == "form"
    return _parameter(HttpParameter(argument=name, in_="query", name=name, style=style, explode=explode), shape)


def _is_unsent(place: WireForm, value: Json) -> bool:
    """Return True if a list or an object has no content to send (RFC 6570, section 2.3); a null member is not sent."""
    if place.written not in _UNSENT or place.empty:
        return False
    if isinstance(value, Mapping):
        return not place.whole and all(item is None for item in value.values())
    return isinstance(value, (list, tuple)) and not value


def _pairs(place: WireForm, value: Json) -> tuple[list[Json], bool]:
    """Return the interpretations, and whether a service that searches for the plain name finds a value."""
    shape, name = place.shape, place.name
    members: dict[str, str] = {}
    if isinstance(value, Mapping) and not place.whole:
        members = {key: text_of(item) for key, item in value.items() if item is not None}
        own = [members[name]] if name in members else []
    else:
        own = [text_of(item) for item in value] if isinstance(value, (list, tuple)) else [text_of(value)]
        members = {name: own[-1]}
    found: list[Json] = []
    if own:
        # For a service that takes one value, a repeated name means its first or its last value.
        found += [*_scalars(shape, own[0]), *_scalars(shape, own[-1])]
        if "array" in shape.kinds:
            found += _lists(shape, own)
    if "object" in shape.kinds and (not place.whole or isinstance(value, Mapping)):
        found += [value] if place.whole else _objects(shape, members)
    return found, bool(own) or shape.kinds <= {"object", "null"}


def _joined(place: WireForm, value: Json) -> list[Json]:
    shape, divider = place.shape, place.delimiter
    parts = _parts(place, value)
    text = divider.join(parts)
    found = _scalars(shape, text)
    if place.empty and not text:
        nothing: tuple[Json, ...] = ([], {})
        found += (one for one in nothing if json_type(one) in shape.kinds)
    if isinstance(value, Mapping) and "object" in shape.kinds:
        found += _objects(shape, {key: text_of(item) for key, item in value.items() if item is not None})
    if text.count(divider) > _MAX_PARTS and place.opens:
        raise TooManyReadingsError([place.name])
    # A server that decodes before it splits treats a delimiter within a part as one between parts.
    for texts in (parts, text.split(divider)):
        if "array" in shape.kinds:
            found += _lists(shape, texts)
        if "object" not in shape.kinds:
            continue
        if place.named and all("=" in one for one in texts):
            found += _objects(shape, dict(_halves(texts)))
        elif not place.named and len(texts) % 2 == 0:
            found += _objects(shape, dict(zip(texts[::2], texts[1::2], strict=True)))
    return found


def _parts(place: WireForm, value: Json) -> list[str]:
    """Return the texts between the delimiters."""
    if isinstance(value, Mapping):
        members = [(key, text_of(item)) for key, item in value.items() if item is not None]
        return (
            [f"{key}={item}" for key, item in members] if place.named else [text for pair in members for text in pair]
        )
    return [text_of(item) for item in value] if isinstance(value, (list, tuple)) else [text_of(value)]


def _halves(texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    for text in texts:
        name, _, value = text.partition("=")
        yield name, value


def _text(place: WireForm, value: Json) -> list[Json]:
    text, shape = text_of(value), place.shape
    found = _scalars(shape, text)
    return [*found, value] if isinstance(value, (Mapping, list, tuple)) else found


def _deep(place: WireForm, value: Json) -> list[Json]:
    """Return text and numbers for each leaf; a list is a map of its indexes if both types are valid, and vice versa."""
    shape = place.shape
    if not isinstance(value, (Mapping, list, tuple)):
        return _scalars(shape, text_of(value))
    return [_deepened(shape, value, says, lists) for says in (False, True) for lists in (False, True)]


def _trimmed(value: Json, depth: int = 0) -> Json:
    """Return the value without members that are not sent in a query: null, and empty containers."""
    if not isinstance(value, Mapping) or depth > _MAX_DEPTH:
        return value
    kept = {key: _trimmed(item, depth + 1) for key, item in value.items()}
    return {key: item for key, item in kept.items() if item is not None and item not in ({}, [])}


def _deepened(shape: SchemaShape, value: Json, says: bool, lists: bool, depth: int = 0) -> Json:
    if depth > _MAX_DEPTH or value is None:
        return value
    if isinstance(value, (Mapping, list, tuple)):
        if isinstance(value, Mapping):
            keyed: Mapping[str, Json] = {key: item for key, item in value.items() if item is not None}
        else:
            nested = any(isinstance(item, (Mapping, list, tuple)) for item in value)
            keyed = {str(index) if nested else "": item for index, item in enumerate(value)}
        several = not isinstance(value, Mapping) and len(keyed) != len(
            value
        )  # repeated `name[]`, which no map can contain
        numbered = [*keyed] in ([""], [str(index) for index in range(len(keyed))])
        kinds = shape.kinds
        as_list = several or (numbered and "array" in kinds and (lists or "object" not in kinds))
        if as_list or ("object" not in kinds and not isinstance(value, Mapping)):
            items = value if several and not isinstance(value, Mapping) else [*keyed.values()]
            return [_deepened(shape.items, item, says, lists, depth + 1) for item in items]
        return {key: _deepened(shape.member(key), item, says, lists, depth + 1) for key, item in keyed.items()}
    return _spelled(shape, text_of(value))[says]


def _form(place: WireForm, value: Json) -> list[Json]:
    if not isinstance(value, Mapping):
        return [value]
    choices: dict[str, list[ReadValue]] = {}
    for name, item in value.items():
        one = _field(name, place.parts.get(name, HttpPart()), place.shape.member(name))
        choices[name] = [item] if one.single else meanings(one, item)
    if prod(len(each) for each in choices.values()) > MAX_COUNT:
        raise TooManyReadingsError(name for name, each in choices.items() if len(each) > 1)
    return [
        {name: item for name, item in zip(choices, chosen, strict=True) if item is not ABSENT}
        for chosen in product(*choices.values())
    ]


def _scalars(shape: SchemaShape, text: str) -> list[Json]:
    """Return the values other than lists and objects that a text may be, and the JSON in it if the description allows it."""
    return [value for value in distinct(_spelled(shape, text)) if json_type(value) in shape.kinds]


def _lists(shape: SchemaShape, texts: Sequence[str]) -> list[Json]:
    both = [_spelled(shape.items, text) for text in texts]
    return [[plain for plain, _ in both], [says for _, says in both]]


def _objects(shape: SchemaShape, members: Mapping[str, str]) -> list[Json]:
    both = {key: _spelled(shape.member(key), text) for key, text in members.items()}
    return [{key: plain for key, (plain, _) in both.items()}, {key: says for key, (_, says) in both.items()}]


def _spelled(shape: SchemaShape, text: str) -> tuple[Json, Json]:
    """Return a text as it is, and as its parsed value; both are equal if the description allows only one."""
    if shape.kinds == {"string"}:
        return text, text
    says = parsed(text, shape.kinds)
    if "string" not in shape.kinds:
        return says, says
    if says is text:
        return text, text
    fits = [value for value in (text, says) if shape.accepts(value)]
    return (fits[0], fits[0]) if len(fits) == 1 else (text, says)
