"""Arguments of calls from the input schema of a tool: valid ones, those at the edges of what is valid, and those beyond."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import jsonschema

from toolgen.generator.samples.json_schema import NoSampleError, samples

__all__ = ["generated", "valid"]

_MOST = 24
_LONG = 3_000
_UNKNOWN = "no_such_argument"
_OF_ANOTHER_TYPE: Mapping[str, Any] = {
    "string": 7,
    "integer": "seven",
    "number": "seven",
    "boolean": "yes",
    "array": "one",
    "object": "one",
}


def generated(schema: Mapping[str, Any], values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Arguments of calls, valid ones first. `values` are the values of some properties in valid calls."""
    found = {json.dumps(one, sort_keys=True): one for one in islice(_all(schema, values), 400)}
    fitting = [one for one in found.values() if valid(schema, one)]
    others = [one for one in found.values() if not valid(schema, one)]
    return fitting[:_MOST] + others[:_MOST]


def valid(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> bool:
    """True if a schema accepts arguments."""
    return bool(jsonschema.Draft202012Validator(dict(schema)).is_valid(dict(arguments)))


def _all(schema: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    properties: Mapping[str, Any] = schema.get("properties", {})
    required = list(schema.get("required", ()))
    bases = list(_bases(schema, {name: value for name, value in values.items() if name in properties}))
    base = bases[0] if bases else {}
    yield from bases
    yield {name: value for name, value in base.items() if name in required}
    for name, about in properties.items():
        for value in _edges(about if isinstance(about, Mapping) else {}):
            yield {**base, name: value}
    for name in required:
        yield {key: value for key, value in base.items() if key != name}
    for name, about in properties.items():
        kind = about.get("type") if isinstance(about, Mapping) else None
        if isinstance(kind, str) and kind in _OF_ANOTHER_TYPE:
            yield {**base, name: _OF_ANOTHER_TYPE[kind]}
        yield {**base, name: None}
    yield {**base, _UNKNOWN: 1}


def _bases(schema: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    try:
        for one in islice(samples(dict(schema)), 3):
            if isinstance(one, dict):
                yield {**one, **values}
    except NoSampleError:
        yield dict(values)


def _edges(about: Mapping[str, Any]) -> Iterator[Any]:
    """Values at the edges of a property, and just beyond."""
    if "enum" in about:
        yield from (about["enum"][0], about["enum"][-1], "no such choice")
        return
    match about.get("type"):
        case "string" if "format" in about:
            yield from ("", "no such form")
        case "string":
            yield from (
                "",
                " ",
                "Grüße 😀\n\t\"'\\",
                "x" * int(about.get("maxLength", _LONG)),
                "x" * (_LONG + 1),
                "null",
            )
        case "integer" | "number" as kind:
            low, high = about.get("minimum", about.get("exclusiveMinimum", -1)), about.get("maximum", 2**53)
            yield from (0, low, low - 1, min(high, 2**53 - 1), high + 1)
            yield from (1.0, 1.5, 0.1) if kind == "number" else (1.5,)
        case "boolean":
            yield from (True, False)
        case "array":
            items = about.get("items")
            yield []
            if isinstance(items, Mapping) and items.get("type") == "string":
                yield ["a", "a", "ü"]
        case "object":
            yield {}
            yield {"any": [1, None, {"deep": True}]}
