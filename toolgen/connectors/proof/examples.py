"""Example arguments for a tool, made from its input schema: valid, equal for equal seeds, and often with values that break things.

They are made from flattened schemas, without references and combinations: one alternative is chosen and all constraints are merged.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from typing import Any

import jsonschema_rs
from msgspec import Struct

from toolgen.generator.samples.regex import UnsupportedPatternError, matching
from toolgen.model.exact_bounds import with_exact_bounds
from toolgen.model.schema import Schema

__all__ = ["Examples", "flatten", "valid_for"]

_MAX_PARTS = 200
_HIGHER = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"})
_LOWER = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"})


class StuckError(Exception):
    """No value could be thought of for a schema."""


def flatten(schema: Any, definitions: Mapping[str, Any], choose: random.Random, *, deep: bool) -> dict[str, Any]:
    """Merge a schema without unions: one branch of each `anyOf` and `oneOf`, and all of each `allOf`.

    `deep` prefers branches that end soon. Raises `StuckError`.
    """
    merged: dict[str, Any] = {}
    todo = [schema]
    for _ in range(_MAX_PARTS):
        if not todo:
            return merged
        part = todo.pop()
        if part is True:
            continue
        if not isinstance(part, dict):
            raise StuckError
        if isinstance(ref := part.get("$ref"), str):
            todo.append(definitions.get(ref.rpartition("/")[2], {}))
        todo.extend(part.get("allOf") or ())
        todo.extend(_branch(part[key], choose, deep) for key in ("anyOf", "oneOf") if part.get(key))
        for key, value in part.items():
            if key not in {"$ref", "allOf", "anyOf", "oneOf", "$defs"}:
                merged[key] = _both(key, merged[key], value) if key in merged else value
    raise StuckError


def _branch(branches: list[Any], choose: random.Random, deep: bool) -> Any:
    if deep:
        ends = [one for one in branches if isinstance(one, dict) and not one.keys() & {"$ref", "properties", "items"}]
        return choose.choice(ends or branches)
    return choose.choice(branches)


def _both(key: str, one: Any, other: Any) -> Any:
    """Merge the values of one keyword from two schemas that must both hold."""
    if one == other:
        return one
    if key == "properties":
        return {**one, **{name: {"allOf": [one[name], new]} if name in one else new for name, new in other.items()}}
    if key == "required":
        return [*one, *(name for name in other if name not in one)]
    if key == "type":
        kinds, others = ([kinds] if isinstance(kinds, str) else kinds for kinds in (one, other))
        shared = [kind for kind in kinds if kind in others]
        if "integer" in [*kinds, *others] and "number" in [*kinds, *others] and "integer" not in shared:
            shared.append("integer")
        if not shared:
            raise StuckError
        return shared[0] if len(shared) == 1 else shared
    if key == "enum":
        return [value for value in one if value in other]
    if key in {"items", "additionalProperties"}:
        return {"allOf": [one, other]}
    if key in _HIGHER:
        return max(one, other)
    if key in _LOWER:
        return min(one, other)
    return other


_MAX_DEPTH = 14
_MAX_VALUES = 20_000  # in one example; arrays of arrays multiply
_DEEP = 3  # from here on only what is required
_ATTEMPTS = 6
_TEXTS = (
    "a", "b", "0", "false", "true", "null", "1e5", "007", "x y", "é字😀", "a/b?c#d", "k=v&m=n", "100%", "%2F", "a+b",
    "a,b|c;d", "x.y", "[z]", "\"q\"", "'s'", "back\\slash", "~t", "@at:", "", " ", "<a>1</a>", "{}", "…", "{id}",
)  # fmt: skip
_WHOLE = (0, 1, -1, 2, 7, 10, 100, 1000, 2**31 - 1, 2**31, 2**53 + 1, -(2**53) - 1, 10**21)
_BROKEN = (0.5, 0, 1, -2.25, 0.1, 3.75, 1e-7, 123456.789, 1e21)
_ANYTHING: tuple[Any, ...] = ("text", 0, False, True, 1.5, "", None, ["a", 1], {"k": "v"}, [], {})
_NAMES = ("extra", "x-more", "né", "other_1")
_FORMATS: Mapping[str, tuple[str, ...]] = {
    "date": ("2024-02-29", "1999-12-31"),
    "date-time": ("2024-02-29T23:59:59Z", "2001-01-01T00:00:00.5+02:00"),
    "time": ("23:59:59Z",),
    "duration": ("P3DT4H",),
    "email": ("a.b+c@example.com",),
    "idn-email": ("a@example.com",),
    "hostname": ("api.example.com",),
    "idn-hostname": ("example.com",),
    "ipv4": ("192.0.2.1",),
    "ipv6": ("2001:db8::1",),
    "uri": ("https://example.com/a%20b?c=d&e#f", "urn:x:1"),
    "url": ("https://example.com/",),
    "uri-reference": ("../a?b", "/x"),
    "iri": ("https://example.com/é",),
    "iri-reference": ("/é",),
    "uri-template": ("/a/{b}",),
    "uuid": ("3fa85f64-5717-4562-b3fc-2c963f66afa6",),
    "json-pointer": ("/a/b~1c",),
    "relative-json-pointer": ("0/a",),
    "regex": ("a+b",),
    "byte": ("aGk=", ""),
    "base64": ("aGk=",),
}


def valid_for(schema: Schema) -> jsonschema_rs.Draft202012Validator:
    """The schema compiled, formats included: nothing goes into a proof that the tool would not have accepted."""
    return jsonschema_rs.Draft202012Validator(
        with_exact_bounds(schema), validate_formats=True, ignore_unknown_formats=True
    )


class _Taste(Struct, frozen=True, kw_only=True):
    """Options for making one example: the probability of optional parts, and whether edge values are wanted."""

    optional: float
    edges: bool
    least: bool = False


_TASTES = (
    _Taste(optional=0.0, edges=False, least=True),
    _Taste(optional=1.0, edges=False),
    _Taste(optional=1.0, edges=True),
    _Taste(optional=0.5, edges=True),
    _Taste(optional=0.0, edges=True),
    _Taste(optional=0.8, edges=False),
)


class Examples:
    """Examples for one schema. `left_out` names the optional arguments for which no valid value was found."""

    def __init__(self, schema: Schema, *, seed: str) -> None:
        self._schema = schema
        self._seed = seed
        self._validator = valid_for(schema)
        self._definitions = schema.get("$defs") or {}
        self.left_out: set[str] = set()

    def take(self, count: int) -> Iterator[dict[str, Any]]:
        """Up to `count` different valid arguments; fewer when the schema has no more, none when it was too hard."""
        seen: set[str] = set()
        for index in range(count):
            for attempt in range(_ATTEMPTS):
                # Not a secret: the point is that the same seed makes the same examples.
                choose = random.Random(f"{self._seed}:{index}:{attempt}")  # noqa: S311
                taste = _TASTES[(index + attempt) % len(_TASTES)]
                found = self._one(_ExampleMaker(self._definitions, choose, taste))
                if found is None:
                    continue
                text = json.dumps(found, sort_keys=True)
                if text not in seen:
                    seen.add(text)
                    yield found
                    break

    def with_argument(self, wanted: str) -> Iterator[dict[str, Any]]:
        """A few valid arguments with an optional one beside the required ones: what is sent of it depends on no other."""
        for attempt in range(_ATTEMPTS * len(_TASTES)):
            choose = random.Random(f"{self._seed}:{wanted}:{attempt}")  # noqa: S311
            taste = _TASTES[attempt % len(_TASTES)]
            found = self._one(_ExampleMaker(self._definitions, choose, taste), wanted)
            if found is not None and wanted in found:
                yield found

    def _one(self, maker: _ExampleMaker, wanted: str | None = None) -> dict[str, Any] | None:
        made: dict[str, Any] = {}
        required = set(self._schema.get("required") or ())
        for name, schema in (self._schema.get("properties") or {}).items():
            chosen = name == wanted if wanted is not None else name in required or maker.wants()
            if name not in required and not chosen:
                continue
            try:
                made[name] = maker.value(schema, 1)
            except StuckError:
                if name in required:
                    return None
                self.left_out.add(name)
        for _ in range(3):
            wrong = {error.instance_path[0] for error in self._validator.iter_errors(made) if error.instance_path}
            if not wrong:
                break
            if wrong & required:
                return None
            for name in wrong:
                made.pop(str(name), None)
        if not self._validator.is_valid(made):
            return None
        return made


class _ExampleMaker:
    """Makes values for schemas; they are likely valid, and the caller checks."""

    def __init__(self, definitions: Mapping[str, Any], choose: random.Random, taste: _Taste) -> None:
        self._definitions = definitions
        self._choose = choose
        self._taste = taste
        self._values = 0

    def wants(self) -> bool:
        return self._choose.random() < self._taste.optional

    def value(self, schema: Any, depth: int) -> Any:
        """Raises `StuckError` where nothing can be thought of."""
        self._values += 1
        if depth > _MAX_DEPTH or self._values > _MAX_VALUES or schema is False:
            raise StuckError
        if schema is True:
            return self._choose.choice(_ANYTHING)
        flat = flatten(schema, self._definitions, self._choose, deep=depth >= _DEEP)
        if "const" in flat and flat["const"] in flat.get("enum", [flat["const"]]):
            return flat["const"]
        if "enum" in flat:  # of which a form beside it chose another value, perhaps
            if not flat["enum"]:
                raise StuckError
            return self._choose.choice(flat["enum"])
        if flat.get("examples") and self._choose.random() < 0.2:
            return self._choose.choice(flat["examples"])
        match self._kind(flat):
            case "object":
                return self._object(flat, depth)
            case "array":
                return self._array(flat, depth)
            case "string":
                return self._text(flat)
            case "integer":
                return self._number(flat, _WHOLE)
            case "number":
                return self._number(flat, _BROKEN)
            case "boolean":
                return self._choose.random() < 0.5
            case "null":
                return None
            case _:
                return self._choose.choice(_ANYTHING)

    def _kind(self, flat: Mapping[str, Any]) -> str:
        kinds = flat.get("type")
        if isinstance(kinds, str):
            return kinds
        if isinstance(kinds, list):
            if not kinds:
                raise StuckError
            rest = [kind for kind in kinds if kind != "null"]
            plain = rest and ("null" not in kinds or not self._taste.edges or self._choose.random() < 0.7)
            return str(self._choose.choice(rest if plain else ["null"]))
        for kind, keys in (
            ("object", ("properties", "required", "additionalProperties", "minProperties", "patternProperties")),
            ("array", ("items", "prefixItems", "minItems", "contains")),
            ("string", ("pattern", "minLength", "maxLength", "format", "contentEncoding")),
            ("number", ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")),
        ):
            if any(key in flat for key in keys):
                return kind
        return "any"

    def _object(self, flat: Mapping[str, Any], depth: int) -> dict[str, Any]:
        properties = flat.get("properties") or {}
        if "base64" in properties and "media_type" in properties:
            return self._file(flat, depth)
        required = list(flat.get("required") or ())
        made: dict[str, Any] = {}
        for name in [*required, *(name for name in properties if name not in required)]:
            if name not in required and (depth >= _DEEP or not self.wants()):
                continue
            try:
                made[name] = self.value(properties.get(name, self._further(flat)), depth + 1)
            except StuckError:
                if name in required:
                    raise
        self._fill(flat, made, depth)
        return made

    def _file(self, flat: Mapping[str, Any], depth: int) -> dict[str, Any]:
        """A file argument: what is no media type or no file name is refused, and rightly."""
        made: dict[str, Any] = {"base64": self.value(flat["properties"]["base64"], depth + 1)}
        if self.wants():
            made["filename"] = self._choose.choice(("a.txt", 'q"é;=.bin', "b"))
        if self.wants():
            made["media_type"] = self._choose.choice(("text/plain", "image/png"))
        return made

    def _further(self, flat: Mapping[str, Any]) -> Any:
        further = flat.get("additionalProperties", flat.get("unevaluatedProperties", True))
        return {"type": "string"} if further is True else further

    def _fill(self, flat: Mapping[str, Any], made: dict[str, Any], depth: int) -> None:
        """Properties the schema does not name: as many as it needs, and one more now and then where it takes any."""
        further = self._further(flat)
        wanted = flat.get("minProperties", 0) - len(made)
        free = flat.get("additionalProperties") not in (None, False) or not flat.get("properties")
        if free and further is not False and depth < _DEEP + 1:
            wanted = max(wanted, 0 if self._taste.least else self._choose.choice((0, 1, 2)))
        optional = [name for name in flat.get("properties") or () if name not in made]
        for name in optional[: max(wanted, 0)] if flat.get("minProperties", 0) > len(made) else ():
            made[name] = self.value(flat["properties"][name], depth + 1)
        names = [name for name in (*_NAMES, *(f"more{index}" for index in range(20))) if name not in made]
        for pattern, schema in (flat.get("patternProperties") or {}).items():
            if self.wants() or wanted > 0:
                made[self._matching(pattern)] = self.value(schema, depth + 1)
        if further is not False and wanted > 0:
            for _ in range(min(wanted, 20)):
                name = (
                    self._text(flat["propertyNames"]) if isinstance(flat.get("propertyNames"), dict) else names.pop(0)
                )
                if len(made) < flat.get("maxProperties", 99):
                    made[name] = self.value(further, depth + 1)

    def _array(self, flat: Mapping[str, Any], depth: int) -> list[Any]:
        least, most = flat.get("minItems", 0), flat.get("maxItems", 99)
        prefix = flat.get("prefixItems") or []
        items = flat.get("items", {} if prefix else {"type": "string"})
        if self._taste.least or depth >= _DEEP + 1:
            size = max(least, 0 if not self._taste.least else min(1, most))
        else:
            size = self._choose.choice((2, 3, 1, 0) if self._taste.edges else (2, 3))
        size = max(least, min(size, most))
        if items is False:
            size = min(size, len(prefix))
        if isinstance(flat.get("contains"), dict):
            size = max(size, 1)
        made: list[Any] = []
        for _ in range(size * 4):
            if len(made) >= size or len(made) > 200:
                break
            index = len(made)
            try:
                one = self.value(prefix[index] if index < len(prefix) else items, depth + 1)
            except StuckError:
                if least > len(made):
                    raise
                break
            if not flat.get("uniqueItems") or one not in made:
                made.append(one)
        if isinstance(flat.get("contains"), dict):
            made[0] = self.value(flat["contains"], depth + 1)
        return made

    def _text(self, flat: Mapping[str, Any]) -> str:
        if isinstance(flat.get("pattern"), str):
            return self._matching(flat["pattern"])
        least, most = flat.get("minLength", 0), flat.get("maxLength", 2**31)
        options = _FORMATS.get(str(flat.get("format")))
        if flat.get("contentEncoding") == "base64":
            options = ("aGVsbG8=", "AAH/gA==", "")
        if options is None:
            options = _TEXTS if self._taste.edges else _TEXTS[:2]
        text = self._choose.choice(options)
        if len(text) > most:
            text = text[:most]
        if len(text) < least:
            text = (text or "a") + "a" * (min(least, 5000) - len(text or "a"))
        return text

    def _matching(self, pattern: str) -> str:
        try:
            return matching(pattern, choose=self._choose)
        except UnsupportedPatternError as error:
            raise StuckError from error

    def _number(self, flat: Mapping[str, Any], options: tuple[float, ...]) -> Any:
        lowest = flat.get("minimum", flat.get("exclusiveMinimum"))
        highest = flat.get("maximum", flat.get("exclusiveMaximum"))
        step = flat.get("multipleOf")
        bits = {"int32": 31, "int64": 63}.get(str(flat.get("format")))
        fits = [
            one
            for one in options
            if (lowest is None or one > lowest or (one == lowest and "minimum" in flat))
            and (highest is None or one < highest or (one == highest and "maximum" in flat))
            and (bits is None or -(2**bits) <= one < 2**bits)
            and (step is None or one % step == 0)
        ]
        if not self._taste.edges and len(fits) > 3:
            fits = fits[:3]
        for bound in (lowest, highest):
            if bound is not None and flat.get("type") != "integer":
                fits.append(bound)
            elif bound is not None and bound == int(bound):
                fits += [int(bound), int(bound) + 1, int(bound) - 1]
        if step is not None and not fits:
            fits = [step]
        if lowest is not None and highest is not None and not fits:
            fits = [(lowest + highest) / 2]
        if not fits:
            raise StuckError
        return self._choose.choice(fits)
