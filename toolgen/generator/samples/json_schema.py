"""A value that a JSON Schema accepts: deterministic, small, and plausible to a person."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeGuard

import jsonschema_rs

from toolgen.generator.samples.regex import UnsupportedPatternError, matching
from toolgen.model.schema import Json, Schema

__all__ = ["NoSampleError", "sample", "samples"]

_MAX_DEPTH = 40
_ROOMY = 5  # levels below which optional properties are left out
_MAX_NODES = 3_000
_MAX_TEXT_LENGTH = 100_000
_MAX_ITEMS = 1_000
_ATTEMPTS = 12
_FAR = 1e9
_FORMATS: Mapping[str, str] = {
    "date-time": "2026-01-15T12:00:00Z",
    "date": "2026-01-15",
    "time": "12:00:00Z",
    "duration": "PT1H",
    "email": "ann@example.com",
    "idn-email": "ann@example.com",
    "hostname": "www.example.com",
    "idn-hostname": "www.example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/1",
    "url": "https://example.com/1",
    "iri": "https://example.com/1",
    "uri-reference": "/1",
    "uri-template": "/items/{id}",
    "uuid": "3f2504e0-4f89-41d3-9a0c-0305e82c3301",
    "json-pointer": "/a",
    "regex": "^a$",
    "byte": "dGV4dA==",
    "binary": "text",
    "int32": "1",
    "int64": "1",
}
_OBJECT = ("properties", "required", "additionalProperties", "minProperties", "patternProperties")
_ARRAY = ("items", "prefixItems", "minItems", "contains")
_NUMBER = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")


class NoSampleError(ValueError):
    """Failure to find a value: the schema accepts none, or uses unsupported features."""


def sample(schema: Schema, *, seed: int = 0) -> Json:
    """Return a value that validates against `schema` (2020-12, its references below its own `$defs`).

    The same schema and seed always give the same value. Seed 0 is for people: it uses the schema's own valid examples and defaults, and all
    optional properties down to a few levels. Raises `NoSampleError`.
    """
    return next(samples(schema, seed=seed))


def samples(schema: Schema, *, seed: int = 0) -> Iterator[Json]:
    """Yield valid values without end, the first being that of `sample`. Raises `NoSampleError` when several attempts in a row fail."""
    validator = _validator(schema)
    number = seed
    while True:
        for _ in range(_ATTEMPTS):
            found = _attempt(schema, number, validator)
            number += 1
            if found:
                yield found[0]
                break
        else:
            raise NoSampleError("no value was found that the schema accepts")


def _validator(schema: Schema) -> jsonschema_rs.Draft202012Validator:
    try:
        return jsonschema_rs.Draft202012Validator(dict(schema), offline=True, validate_formats=False)
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise NoSampleError("the schema cannot be compiled") from error


def _attempt(schema: Schema, seed: int, validator: jsonschema_rs.Draft202012Validator) -> tuple[Json] | None:
    """Try with the author's own examples first, then without: they are often wrong."""
    for trusting in (True, False):
        try:
            value = _Sampler(schema, seed, trusting).value(schema, 0)
        except (NoSampleError, RecursionError):
            continue
        if validator.is_valid(value):
            return (value,)
    return None


class _Sampler:
    """Attempt to make one sample. The seed decides every choice; seed 0 takes the first option each time."""

    def __init__(self, root: Schema, seed: int, trusting: bool) -> None:
        definitions = root.get("$defs")
        self._defs: Mapping[str, Any] = definitions if isinstance(definitions, Mapping) else {}
        self._random = random.Random(seed) if seed else None  # noqa: S311 - reproducible on purpose
        self._trusting = trusting
        self._nodes = 0
        self._open: list[str] = []

    def value(self, schema: Any, depth: int) -> Json:
        """Return a value for one schema, boolean ones included. Raises `NoSampleError`."""
        self._nodes += 1
        if schema is False or depth > _MAX_DEPTH or self._nodes > _MAX_NODES * 4:
            raise NoSampleError("nothing fits")
        if not isinstance(schema, Mapping):
            return "text"
        ref = schema.get("$ref")
        if not isinstance(ref, str):
            return self._combined(schema, depth)
        name = ref.removeprefix("#/$defs/").replace("~1", "/").replace("~0", "~")
        if name not in self._defs or self._open.count(name) > 1:
            raise NoSampleError("a schema needs itself without end")
        target = self._defs[name]
        self._open.append(name)
        try:
            beside = {key: item for key, item in schema.items() if key != "$ref"}
            return self.value(_merged(target, beside) if beside else target, depth + 1)
        finally:
            self._open.pop()

    def _combined(self, schema: Mapping[str, Any], depth: int) -> Json:
        given = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(given, Sequence) and not isinstance(given, str):
            if not given:
                raise NoSampleError("an empty enum accepts nothing")
            fixed: Json = self._choose(given)
            return fixed
        if self._trusting and self._random is None and (shown := _shown(schema)):
            return shown[0]
        if isinstance(parts := schema.get("allOf"), Sequence) and parts:
            rest: Any = {key: item for key, item in schema.items() if key != "allOf"}
            for part in parts:
                rest = _merged(rest, self._resolved(part))
            return self.value(rest, depth + 1)
        for keyword in ("oneOf", "anyOf"):
            if isinstance(parts := schema.get(keyword), Sequence) and parts:
                return self._branch(schema, keyword, parts, depth)
        return self._plain(schema, depth)

    def _resolved(self, part: Any) -> Any:
        """Return a schema with its own references followed, for merging."""
        for _ in range(_MAX_DEPTH):
            ref = part.get("$ref") if isinstance(part, Mapping) else None
            if not isinstance(ref, str):
                return part
            target = self._defs.get(ref.removeprefix("#/$defs/").replace("~1", "/").replace("~0", "~"))
            part = _merged(target, {key: item for key, item in part.items() if key != "$ref"})
        raise NoSampleError("a schema needs itself without end")

    def _branch(self, schema: Mapping[str, Any], keyword: str, parts: Sequence[Any], depth: int) -> Json:
        rest = {key: item for key, item in schema.items() if key != keyword}
        ordered = sorted(parts, key=lambda part: _mapping(part).get("type") == "null")
        if self._random is not None:
            self._random.shuffle(ordered)
        for part in ordered:
            try:
                return self.value(_merged(rest, self._resolved(part)), depth + 1)
            except NoSampleError:
                continue
        raise NoSampleError("no branch fits")

    def _plain(self, schema: Mapping[str, Any], depth: int) -> Json:
        match self._kind(schema):
            case "object":
                return self._object(schema, depth)
            case "array":
                return self._array(schema, depth)
            case "string":
                return self._text(schema)
            case "integer":
                return int(self._number(schema, whole=True))
            case "number":
                return self._number(schema, whole=False)
            case "boolean":
                flag: bool = self._choose([True, False])
                return flag
            case "null":
                return None
            case _:
                raise NoSampleError("a type that does not exist")

    def _kind(self, schema: Mapping[str, Any]) -> str:
        written = schema.get("type")
        if isinstance(written, str):
            return written
        if isinstance(written, Sequence) and written:
            return str(self._choose(sorted(written, key=lambda kind: kind == "null")))
        for keywords, kind in ((_OBJECT, "object"), (_ARRAY, "array"), (_NUMBER, "number")):
            if any(keyword in schema for keyword in keywords):
                return kind
        return "string"

    def _object(self, schema: Mapping[str, Any], depth: int) -> Json:
        properties, required = _mapping(schema.get("properties")), _strings(schema.get("required"))
        extra = schema.get("additionalProperties", True)  # schema of a property without a description
        built: dict[str, Json] = {}
        for name in dict.fromkeys([*properties, *required]):
            if name in required:
                built[name] = self.value(properties.get(name, extra), depth + 1)
            elif depth < _ROOMY and self._nodes < _MAX_NODES and self._wants():
                try:
                    built[name] = self.value(properties[name], depth + 1)
                except NoSampleError:
                    continue
        least, most = _whole(schema, "minProperties", 0), _whole(schema, "maxProperties", _MAX_ITEMS)
        for name in [name for name in built if name not in required][max(0, most - len(required)) :]:
            del built[name]
        for number in range(_MAX_ITEMS):
            if len(built) >= least:
                break
            built.setdefault(f"key{number + 1}", self.value(extra, depth + 1))
        return built

    def _array(self, schema: Mapping[str, Any], depth: int) -> Json:
        first = schema.get("prefixItems")
        first = first if isinstance(first, Sequence) else ()
        least, most = _whole(schema, "minItems", 0), _whole(schema, "maxItems", _MAX_ITEMS)
        wanted = max(least, min(most, len(first) or 1 if self._random is None else self._random.randint(0, 3)))
        if least > _MAX_ITEMS:
            raise NoSampleError("a list that is too long")
        built: list[Json] = []
        for number in range(wanted):
            item = first[number] if number < len(first) else schema.get("items", schema.get("contains", True))
            try:
                value = self.value(item, depth + 1)
                if schema.get("uniqueItems") is True and value in built:
                    value = self._different(item, built, depth)
            except NoSampleError:
                if len(built) < least:
                    raise
                break
            built.append(value)
        return built

    def _different(self, item: Any, built: list[Json], depth: int) -> Json:
        before, self._random = self._random, random.Random(len(built))  # noqa: S311
        try:
            for _ in range(_ATTEMPTS * 4):
                if (value := self.value(item, depth + 1)) not in built:
                    return value
        finally:
            self._random = before
        raise NoSampleError("no second value that differs from the first")

    def _text(self, schema: Mapping[str, Any]) -> str:
        least, most = _whole(schema, "minLength", 0), _whole(schema, "maxLength", _MAX_TEXT_LENGTH)
        if least > _MAX_TEXT_LENGTH:
            raise NoSampleError("a text that is too long")
        pattern, format_ = schema.get("pattern"), schema.get("format")
        if isinstance(pattern, str):
            if isinstance(format_, str) and format_ in _FORMATS and self._random is None and _fits(pattern, format_):
                return _FORMATS[format_]
            try:
                return matching(pattern, length=least)
            except UnsupportedPatternError as error:
                raise NoSampleError("a pattern that is not understood") from error
        if isinstance(format_, str) and format_ in _FORMATS and least <= len(_FORMATS[format_]) <= most:
            return _FORMATS[format_]
        text = "text" if self._random is None else self._choose(_TEXTS) + str(self._random.randint(0, 999))
        return (text * (least // max(len(text), 1) + 1) if len(text) < least else text)[: max(least, min(most, 24))]

    def _number(self, schema: Mapping[str, Any], *, whole: bool) -> float:
        step = schema.get("multipleOf")
        step = step if _is_number(step) and step > 0 else 1 if whole else None
        if whole and step and step % 1:
            step = 1 if (1 / step) % 1 == 0 else step
        low, high = _bounds(schema, 1 if whole else 0.5)
        if low > high:
            raise NoSampleError("a range that is empty")
        start = 1 if low <= 1 <= high else low if low > 1 else high
        if self._random is not None:
            start = self._random.uniform(max(low, start - 1000), min(high, start + 1000))
        if step is None:
            return start if self._random is None else round(start, 3) if low <= round(start, 3) <= high else start
        rounded = math.ceil(start / step) * step
        rounded = rounded if rounded <= high else math.floor(start / step) * step
        if not low <= rounded <= high:
            raise NoSampleError("no number that fits")
        return rounded

    def _wants(self) -> bool:
        """Return True if an optional property is included."""
        return self._random is None or self._random.random() < 0.5

    def _choose(self, options: Sequence[Any]) -> Any:
        return options[0] if self._random is None else self._random.choice(options)


_TEXTS = ("text", "a b", "naïve", "x/y?z=1&w", "ÅÄÖ", "0", "null")


def _shown(schema: Mapping[str, Any]) -> tuple[Json] | None:
    """Return the author's own example or default, or None if there is neither."""
    examples = schema.get("examples")
    if isinstance(examples, Sequence) and not isinstance(examples, str) and examples:
        return (examples[0],)
    return (schema["default"],) if schema.get("default") is not None else None


def _merged(left: Any, right: Any) -> Any:
    """Return both schemas merged, as far as one schema without `allOf` can express that."""
    if left is False or right is False:
        return False
    if not isinstance(left, Mapping) or not isinstance(right, Mapping):
        return right if isinstance(right, Mapping) else left
    built = dict(left)
    for key, value in right.items():
        before = built.get(key)
        if key not in built:
            built[key] = value
        elif key in _UNIONS:
            built[key] = _UNIONS[key](before, value)
        elif key == "allOf":
            built[key] = [*before, *value] if isinstance(before, list) and isinstance(value, list) else value
        elif key in ("oneOf", "anyOf", "$ref", "const"):
            built["allOf"] = [*built.get("allOf", []), {key: value}]
    return built


def _properties(left: Any, right: Any) -> Any:
    built = dict(_mapping(left))
    for name, schema in _mapping(right).items():
        built[name] = {"allOf": [built[name], schema]} if name in built and built[name] != schema else schema
    return built


def _types(left: Any, right: Any) -> Any:
    first, second = ([kind] if isinstance(kind, str) else list(kind or ()) for kind in (left, right))
    shared = [kind for kind in first if kind in second or (kind == "integer" and "number" in second)]
    shared += [kind for kind in second if kind == "integer" and "number" in first]
    return list(dict.fromkeys(shared)) or ["nothing"]


def _same(left: Any, right: Any) -> Any:
    return [item for item in left if item in right] if isinstance(left, list) and isinstance(right, list) else right


def _least(left: Any, right: Any) -> Any:
    return min((one for one in (left, right) if _is_number(one)), default=left)


def _most(left: Any, right: Any) -> Any:
    return max((one for one in (left, right) if _is_number(one)), default=left)


_UNIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "properties": _properties,
    "required": lambda left, right: list(dict.fromkeys([*_strings(left), *_strings(right)])),
    "type": _types,
    "enum": _same,
    "items": lambda left, right: {"allOf": [left, right]},
    "additionalProperties": lambda left, right: False if False in (left, right) else left,
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), _least),
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), _most),
}


def _fits(pattern: str, format_: str) -> bool:
    return jsonschema_rs.is_valid({"pattern": pattern}, _FORMATS[format_])


def _bounds(schema: Mapping[str, Any], step: float) -> tuple[float, float]:
    """Return the lowest and the highest permitted number; an open end is far away."""
    lows = [schema["minimum"]] if _is_number(schema.get("minimum")) else []
    highs = [schema["maximum"]] if _is_number(schema.get("maximum")) else []
    lows += [schema["exclusiveMinimum"] + step] if _is_number(schema.get("exclusiveMinimum")) else []
    highs += [schema["exclusiveMaximum"] - step] if _is_number(schema.get("exclusiveMaximum")) else []
    low = max(lows, default=min([-_FAR, *(high - _FAR for high in highs)]))
    return low, min(highs, default=max(_FAR, low + _FAR))


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _whole(schema: Mapping[str, Any], key: str, default: int) -> int:
    value = schema.get(key)
    return int(value) if _is_number(value) else default


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _strings(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
