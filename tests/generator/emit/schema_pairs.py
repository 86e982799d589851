"""Random pairs of schemas, one made from the other by a few edits, and values that conform to either."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import jsonschema_rs

from toolgen.generator.samples.json_schema import NoSampleError, samples

_LEAVES: list[Any] = [
    {"type": "string"}, {"type": "string", "enum": ["x", "y"]}, {"type": ["string", "null"]}, {"enum": ["x", 1, None]},
    {"const": "x"}, {"const": 1}, {"const": True}, {"type": "integer"}, {"type": "integer", "minimum": 1},
    {"type": "number", "exclusiveMinimum": 1, "maximum": 3}, {"type": "integer", "multipleOf": 2}, {"type": "boolean"},
    {"type": "null"}, {}, True, False, {"minLength": 2}, {"type": "string", "maxLength": 2}, {"pattern": "^x"},
    {"maximum": 2}, {"not": {"type": "string"}}, {"type": "number"}, {"enum": [1.0, 2]}, {"type": "array"}, {"type": "object"},
]  # fmt: skip
_BESIDE: list[Any] = [
    {}, {}, {"maxLength": 1}, {"properties": {"a": {"type": "integer"}}}, {"required": ["b"]}, {"enum": ["x"]},
    {"minimum": 2}, {"type": "object"}, {"type": ["string", "null"]},
]  # fmt: skip
_SCALARS: list[Any] = [None, True, False, 0, 1, 2, 3, 1.5, "", "x", "y", "xyz", "ab", [], ["x"], [1], {}]
_NAMES = "abc"


def schema(source: random.Random, depth: int = 3) -> Any:
    """Any schema a description may hold, and some that none should."""
    kind = source.random()
    if depth <= 0 or kind < 0.3:
        return copy.deepcopy(source.choice(_LEAVES))
    if kind < 0.55:
        return _object(source, depth)
    if kind < 0.65:
        return _array(source, depth)
    if kind < 0.8:
        branches = [schema(source, depth - 1) for _ in range(source.randint(1, 3))]
        return {source.choice(["anyOf", "oneOf"]): branches, **copy.deepcopy(source.choice(_BESIDE))}
    if kind < 0.9:
        members = [schema(source, depth - 1) for _ in range(source.randint(1, 2))]
        return {"allOf": members, **copy.deepcopy(source.choice(_BESIDE))}
    return {"$ref": f"#/$defs/{source.choice('RST')}", **copy.deepcopy(source.choice(_BESIDE))}


def _object(source: random.Random, depth: int) -> dict[str, Any]:
    names = source.sample(_NAMES, source.randint(0, 3))
    built: dict[str, Any] = {"type": "object", "properties": {name: schema(source, depth - 1) for name in names}}
    if source.random() < 0.5:
        built["required"] = source.sample(_NAMES, source.randint(0, 2))
    if source.random() < 0.4:
        built["additionalProperties"] = source.choice([False, True, schema(source, depth - 2)])
    rare: dict[str, Any] = {
        "minProperties": source.randint(0, 2),
        "maxProperties": source.randint(0, 2),
        "patternProperties": {source.choice(["^a", "b", "^[cd]"]): schema(source, depth - 2)},
        "propertyNames": {"enum": source.sample("abcz", 2)},
        "dependentRequired": {"a": ["b"]},
        "dependentSchemas": {"a": schema(source, depth - 2)},
        "unevaluatedProperties": source.choice([False, {"type": "string"}]),
        "anyOf": [{"required": ["a"]}, {"properties": {"z": schema(source, 0)}, "required": ["z"]}],
        "oneOf": [schema(source, depth - 1), schema(source, depth - 1)],
        "if": {"required": ["a"]},
        "then": schema(source, depth - 2),
    }
    return built | {key: value for key, value in rare.items() if source.random() < 0.07}


def _array(source: random.Random, depth: int) -> dict[str, Any]:
    rare: dict[str, Any] = {
        "items": schema(source, depth - 1),
        "prefixItems": [schema(source, depth - 1) for _ in range(source.randint(1, 2))],
        "minItems": source.randint(0, 2),
        "maxItems": source.randint(0, 2),
        "uniqueItems": source.choice([True, False]),
        "contains": schema(source, depth - 2),
        "minContains": 0,
    }
    chances = (0.8, 0.2, 0.2, 0.2, 0.1, 0.1, 0.05)
    return {"type": "array"} | {
        key: value for (key, value), chance in zip(rare.items(), chances, strict=True) if source.random() < chance
    }


def root(source: random.Random) -> dict[str, Any]:
    """A tool's schema: an object, with definitions some of which contain others and themselves below their properties and items."""
    definitions = {name: _guarded(schema(source, 2)) for name in "RST"}
    definitions[source.choice("RST")] = {"type": "object", "properties": {"a": {"$ref": "#/$defs/R"}}}
    return {**_object(source, 3), "$defs": definitions}


def _guarded(node: Any) -> Any:
    """Without references to anything but what a value's parts hold: a schema must not need itself for one and the same value."""
    if isinstance(node, dict):
        return {"type": "string"} if "$ref" in node else {key: _guarded(value) for key, value in node.items()}
    return [_guarded(item) for item in node] if isinstance(node, list) else node


def edited(source: random.Random, whole: dict[str, Any]) -> dict[str, Any]:
    """The same with one to three things changed somewhere."""
    built = copy.deepcopy(whole)
    for _ in range(source.randint(1, 3)):
        places = [place for place in _places(built) if isinstance(place, dict)]
        _edit(source, source.choice(places))
    return built


def _places(node: Any) -> Iterator[Any]:
    yield node
    for key, value in node.items() if isinstance(node, dict) else ():
        if key in ("properties", "patternProperties", "dependentSchemas", "$defs"):
            for inner in value.values():
                yield from _places(inner)
        elif key in ("anyOf", "oneOf", "allOf", "prefixItems"):
            for inner in value:
                yield from _places(inner)
        elif key in ("items", "additionalProperties", "not", "then", "contains"):
            yield from _places(value)


def _edit(source: random.Random, node: dict[str, Any]) -> None:
    for keyword in ("anyOf", "oneOf", "allOf"):
        if keyword in node and source.random() < 0.6:
            branches = node[keyword]
            if len(branches) > 1 and source.random() < 0.4:
                branches.pop(source.randrange(len(branches)))
            else:
                branches.insert(source.randrange(len(branches) + 1), _guarded(schema(source, 1)))
            return
    if isinstance(node.get("properties"), dict) and source.random() < 0.5:
        node["properties"][source.choice("abcd")] = _guarded(schema(source, 1))
        return
    loose = [key for key in node if key not in ("$defs", "$ref", "properties", "anyOf", "oneOf", "allOf")]
    if loose and source.random() < 0.5:
        del node[source.choice(loose)]
        return
    other = _guarded(schema(source, 1))
    if isinstance(other, dict):
        node.update(other)


def values(source: random.Random, *schemas: Mapping[str, Any]) -> list[Any]:
    """Values to hold against schemas: some that conform to one of them, some at random, some in between."""
    found: list[Any] = []
    for one in schemas:
        try:
            found.extend(islice(samples(one, seed=source.randint(0, 99)), 6))
        except NoSampleError:
            continue
    found += [_twisted(source, value) for value in found]
    found += [{name: _value(source, 2) for name in source.sample("abcdz", source.randint(0, 3))} for _ in range(30)]
    return found


def _value(source: random.Random, depth: int) -> Any:
    kind = source.random()
    if depth == 0 or kind < 0.55:
        return copy.deepcopy(source.choice(_SCALARS))
    if kind < 0.75:
        return [_value(source, depth - 1) for _ in range(source.randint(0, 3))]
    return {name: _value(source, depth - 1) for name in source.sample("abcdz", source.randint(0, 3))}


def _twisted(source: random.Random, value: Any) -> Any:
    if isinstance(value, dict) and source.random() < 0.9:
        return {**value, source.choice("abcd"): _value(source, 1)}
    return _value(source, 2) if source.random() < 0.3 else value


def described(node: Any, *, value: bool = True) -> Any:
    """The schema, for values alone whose properties it names or describes: what a caller can be held to have written."""
    if not isinstance(node, dict):
        return node
    built: dict[str, Any] = {}
    for key, inner in node.items():
        if key in ("properties", "patternProperties"):
            built[key] = {name: described(one) for name, one in inner.items()}
        elif key in ("$defs", "dependentSchemas"):
            built[key] = {name: described(one, value=False) for name, one in inner.items()}
        elif key in ("anyOf", "oneOf", "allOf"):
            built[key] = [described(one, value=False) for one in inner]
        elif key == "prefixItems":
            built[key] = [described(one) for one in inner]
        elif key in ("items", "additionalProperties"):
            built[key] = described(inner)
        elif key == "then":
            built[key] = described(inner, value=False)
        else:
            built[key] = inner
    return {"unevaluatedProperties": False, **built} if value else built


def validator(node: Mapping[str, Any]) -> jsonschema_rs.Draft202012Validator:
    """One that the gateway's own is like."""
    return jsonschema_rs.Draft202012Validator(dict(node), offline=True)
