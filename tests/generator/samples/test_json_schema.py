"""Values made from schemas: each is valid, the same every time, and found for whatever a description may say."""

from __future__ import annotations

from itertools import islice
from typing import Any

import jsonschema
import pytest

from toolgen.generator.samples.json_schema import NoSampleError, sample, samples

NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "id": {"type": "integer"}}}
SCHEMAS: dict[str, dict[str, Any]] = {
    "nothing said": {},
    "types": {"type": ["null", "integer"]},
    "an example": {"type": "string", "examples": ["Ada"]},
    "an example that lies": {"type": "integer", "examples": ["Ada"]},
    "a default beside a range": {"type": "integer", "default": 5, "maximum": 9},
    "an exclusive range": {"type": "integer", "exclusiveMinimum": 3, "exclusiveMaximum": 5},
    "a step": {"type": "number", "minimum": 7, "multipleOf": 2.5},
    "a negative maximum": {"type": "number", "maximum": -3},
    "lengths": {"type": "string", "minLength": 40, "maxLength": 41},
    "a format": {"type": "string", "format": "uuid"},
    "a pattern with a length": {"type": "string", "pattern": "^[a-f0-9]+$", "minLength": 12},
    "different items": {"type": "array", "items": {"type": "integer"}, "minItems": 3, "uniqueItems": True},
    "a tuple": {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2},
    "required but not described": {"type": "object", "required": ["a"]},
    "properties by number": {"type": "object", "minProperties": 2, "additionalProperties": {"type": "integer"}},
    "few properties": {"type": "object", "properties": {"a": {}, "b": {}}, "required": ["b"], "maxProperties": 1},
    "all of": {"allOf": [{"properties": {"a": {"type": "integer"}}}, {"required": ["a"]}, {"minProperties": 1}]},
    "all of, narrowing": {"allOf": [{"type": "number"}, {"type": "integer", "minimum": 4}, {"maximum": 4}]},
    "one of": {"oneOf": [{"type": "null"}, {"type": "object", "required": ["x"]}], "type": ["object", "null"]},
    "a branch that cannot be": {"anyOf": [False, {"enum": []}, {"const": 3}]},
    "recursion": {"$ref": "#/$defs/Node", "$defs": {"Node": NODE}},
    "a list of itself": {
        "$ref": "#/$defs/T",
        "$defs": {"T": {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/T"}}}}},
    },
    "words beside a reference": {"$ref": "#/$defs/N", "minimum": 12, "$defs": {"N": {"type": "integer"}}},
}


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
@pytest.mark.parametrize("seed", range(4))
def test_what_is_made_is_valid(schema: dict[str, Any], seed: int) -> None:
    found = list(islice(samples(schema, seed=seed), 5))
    for value in found:
        jsonschema.validate(value, schema, cls=jsonschema.Draft202012Validator)
    assert found == list(islice(samples(schema, seed=seed), 5))


@pytest.mark.parametrize(
    "schema",
    [
        {"enum": []},
        {"allOf": [{"type": "string"}, {"type": "integer"}]},
        {"type": "integer", "minimum": 5, "maximum": 4},
        {"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#/$defs/A"}}}}},
        {"type": "string", "pattern": "(?=a)b"},
        {"type": "array", "items": {"type": "boolean"}, "minItems": 3, "uniqueItems": True},
    ],
)  # fmt: skip
def test_a_schema_nothing_fits_is_said_to_be_one(schema: dict[str, Any]) -> None:
    with pytest.raises(NoSampleError):
        sample(schema)


def test_the_first_sample_is_the_authors_own_example() -> None:
    schema = {"type": "object", "properties": {"name": {"type": "string", "examples": ["Ada"]}, "n": {"default": 4}}}
    assert sample(schema) == {"name": "Ada", "n": 4}
