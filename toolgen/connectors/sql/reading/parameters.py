"""The `parameter:` line of a named query: `name type [= default] [constraint(…) …]  description`, read into a JSON Schema.

| Part | |
|---|---|
| type | `string`, `integer`, `number`, `boolean`, `date` (2026-01-31), `timestamp` (2026-01-31T09:30:00Z) |
| `[]` | after a type, only in PostgreSQL: a list of it |
| `= default` | `'text'` (`''` is a quote in it), a number, `true`, `false`, `null`; without one, the argument is required |
| constraint | `enum('a', 'b')` of strings, integers and numbers; `minimum(1)`, `maximum(9)` of integers and numbers; |
| | `min_length(1)`, `max_length(80)` of strings; `max_items(10)` of lists |
| description | all text after the first two consecutive spaces |

Constraints of a list apply to its items, except `max_items`. Any other word is a fault, never part of a description.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn

from msgspec import Struct

from toolgen.connectors.sql.dialects import RECORDS
from toolgen.core.spelling import nearest
from toolgen.model.database import DialectName
from toolgen.model.schema import Json, Schema

__all__ = ["QueryFault", "QueryParameter", "read_parameter"]

_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,39}\Z")
_RESERVED: Final = frozenset({"cursor"})  # argument for the next page
_TOKEN: Final = re.compile(
    r"(?P<gap> {2,})|(?P<space> )|(?P<text>'(?:[^']|'')*')|(?P<number>-?\d{1,30}(?:\.\d{1,30})?(?![\w.]))"
    r"|(?P<word>[A-Za-z_][A-Za-z0-9_]*)|(?P<sign>\[\]|[=(),])"
)
_MAX_TEXT_LENGTH: Final = 10_000
_MAX_ITEMS: Final = 1_000
_MAX_CHOICES: Final = 200
_TYPES: Final[Mapping[str, Schema]] = {
    "string": {"type": "string"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "date": {"type": "string", "format": "date", "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"},
    "timestamp": {
        "type": "string",
        "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?(Z|[+-][0-9]{2}:[0-9]{2})?$",
    },
}
# By constraint: the JSON Schema keyword, and its types.
_CONSTRAINTS: Final[Mapping[str, tuple[str, frozenset[str]]]] = {
    "enum": ("enum", frozenset({"string", "integer", "number"})),
    "minimum": ("minimum", frozenset({"integer", "number"})),
    "maximum": ("maximum", frozenset({"integer", "number"})),
    "min_length": ("minLength", frozenset({"string"})),
    "max_length": ("maxLength", frozenset({"string"})),
    "max_items": ("maxItems", frozenset(_TYPES)),
}
_COUNTS: Final = frozenset({"min_length", "max_length", "max_items"})
_WORDS: Final = {"true": True, "false": False, "null": None}


class QueryFault(Exception):  # noqa: N818  a Problem on its way
    """Fault of a query, for the person who wrote it."""


class QueryParameter(Struct, frozen=True, kw_only=True):
    """Declared parameter of a query. `schema` has its type, bounds, default and description."""

    name: str
    schema: Schema
    required: bool


def read_parameter(text: str, dialect: DialectName) -> QueryParameter:
    """Parse the text after `parameter:`. Raises `QueryFault`."""
    return _ParameterReader(text, dialect).parameter()


class _ParameterReader:
    def __init__(self, text: str, dialect: DialectName) -> None:
        self._dialect = dialect
        self._tokens, self._description = _split(text)
        self._place = 0

    def parameter(self) -> QueryParameter:
        name = self._word("the parameter's name")
        if not _NAME.match(name):
            _fault(
                f"'{name}' is not a valid name of a parameter: lower-case letters, digits and _, beginning with a letter"
            )
        if name in _RESERVED:
            _fault(f"'{name}' is the argument for the next page; give the parameter another name")
        kind = self._word("a type")
        if kind not in _TYPES:
            _fault(f"'{kind}' is not a type{nearest(kind, _TYPES)}; the types are {', '.join(_TYPES)}")
        listed = self._taken("[]")
        if listed and not RECORDS[self._dialect].list_parameters:
            _fault("lists are for PostgreSQL, as in = ANY(:ids)")
        given, default = self._default()
        constraints = self._constraints(kind, listed=listed)
        schema = _schema(kind, constraints, listed=listed)
        if given:
            schema = _with_default(schema, default)
        if self._description:
            schema["description"] = self._description
        return QueryParameter(name=name, schema=schema, required=not given)

    def _default(self) -> tuple[bool, Json]:
        return (True, self._literal("a default")) if self._taken("=") else (False, None)

    def _constraints(self, kind: str, *, listed: bool) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self._place < len(self._tokens):
            group, word = self._tokens[self._place]
            if group != "word":
                _fault(f"{word} is not understood here; a description follows two spaces")
            if word not in _CONSTRAINTS:
                known = nearest(word, _CONSTRAINTS)
                _fault(f"'{word}' is not a constraint{known}; a description follows two spaces")
            self._place += 1
            keyword, kinds = _CONSTRAINTS[word]
            if kind not in kinds or (word == "max_items" and not listed):
                _fault(f"{word}() is not for the type {kind}")
            if keyword in found:
                _fault(f"{word}() occurs here twice")
            found[keyword] = self._constraint(word, kind)
        for low, high in (("minimum", "maximum"), ("minLength", "maxLength")):
            if low in found and high in found and found[low] > found[high]:
                _fault(f"{low} is more than {high}: no value is valid")
        return found

    def _constraint(self, word: str, kind: str) -> Json:
        values = self._arguments(word)
        if word == "enum":
            if not 0 < len(values) <= _MAX_CHOICES or len({repr(value) for value in values}) != len(values):
                _fault(f"enum() takes 1 to {_MAX_CHOICES} different values")
        elif len(values) != 1:
            _fault(f"{word}() takes one number")
        wanted = "integer" if word in _COUNTS else kind
        for value in values:
            if not _fits(value, wanted):
                _fault(f"{word}({_shown(value)}): the value is not of the type {wanted}")
        if word in _COUNTS and not 0 <= _number(values[0]) <= _MAX_TEXT_LENGTH:
            _fault(f"{word}() takes a number up to {_MAX_TEXT_LENGTH}")
        return values if word == "enum" else values[0]

    def _arguments(self, word: str) -> list[Json]:
        if not self._taken("("):
            _fault(f"{word} takes its values in parentheses, as {word}(…)")
        values = [self._literal(f"a value of {word}()")]
        while self._taken(","):
            values.append(self._literal(f"a value of {word}()"))
        if not self._taken(")"):
            _fault(f"the parenthesis of {word}( is not closed")
        return values

    def _literal(self, what: str) -> Json:
        group, text = self._next(what)
        match group:
            case "text":
                return text[1:-1].replace("''", "'")
            case "number":
                return float(text) if "." in text else int(text)
            case "word" if text in _WORDS:
                return _WORDS[text]
            case _:
                return _fault(f"{what} is 'text' in single quotes, a number, true, false or null, and not {text}")

    def _word(self, what: str) -> str:
        group, text = self._next(what)
        if group != "word":
            _fault(f"{what} must be in the place of {text}")
        return text

    def _next(self, what: str) -> tuple[str, str]:
        if self._place >= len(self._tokens):
            _fault(f"{what} is missing")
        self._place += 1
        return self._tokens[self._place - 1]

    def _taken(self, sign: str) -> bool:
        if self._place < len(self._tokens) and self._tokens[self._place] == ("sign", sign):
            self._place += 1
            return True
        return False


def _split(text: str) -> tuple[list[tuple[str, str]], str]:
    """Return the tokens before two consecutive spaces, and the description after them."""
    tokens: list[tuple[str, str]] = []
    place = 0
    while place < len(text):
        found = _TOKEN.match(text, place)
        if found is None or found.lastgroup is None:
            return _fault(f"{text[place : place + 20]!r} is not understood; a description follows two spaces")
        if found.lastgroup == "gap":
            return tokens, text[found.end() :].strip()
        if found.lastgroup != "space":
            tokens.append((found.lastgroup, found[0]))
        place = found.end()
    return tokens, ""


def _schema(kind: str, constraints: Mapping[str, Any], *, listed: bool) -> dict[str, Any]:
    bounds = dict(constraints)
    most = bounds.pop("maxItems", _MAX_ITEMS)
    schema: dict[str, Any] = {**_TYPES[kind], **bounds}
    if kind == "string" and "enum" not in schema:
        schema.setdefault("maxLength", _MAX_TEXT_LENGTH)
    return {"type": "array", "items": schema, "maxItems": most} if listed else schema


def _with_default(schema: dict[str, Any], default: Json) -> dict[str, Any]:
    """Return the schema with its default. A default of null permits null; any other applies if the argument is absent."""
    if default is None:
        nullable = {**schema, "type": [schema["type"], "null"]}
        if "enum" in nullable:
            nullable["enum"] = [*nullable["enum"], None]
        return {**nullable, "default": None}
    if schema["type"] == "array":
        _fault("a list has no default but null")
    return {**schema, "default": default}


def _fits(value: Json, kind: str) -> bool:
    checks: Mapping[str, Callable[[Json], bool]] = {
        "string": lambda given: isinstance(given, str),
        "integer": lambda given: type(given) is int and -(2**63) <= given < 2**63,
        "number": lambda given: type(given) in {int, float},
    }
    return checks[kind](value)


def _number(value: Json) -> float:
    return value if isinstance(value, (int, float)) else -1


def _shown(value: Json) -> str:
    return str(value)[:40]


def _fault(message: str) -> NoReturn:
    raise QueryFault(message)
