"""Examples that authors write as they stand in a URL become JSON values of the argument's type."""

from __future__ import annotations

from typing import Any

import pytest

from toolgen.connectors.openapi.examples import with_fitting_examples

TEXTS = {"type": "array", "items": {"type": "string"}}
NUMBERS = {"type": "array", "items": {"type": "integer"}}


@pytest.mark.parametrize(
    ("schema", "written", "fitting"),
    [
        (TEXTS, "a,b", [["a", "b"]]),
        (TEXTS, "owner[]=a,owner[]=b", [["a", "b"]]),
        (TEXTS, '["a", "b"]', [["a", "b"]]),
        (TEXTS, "a", [["a"]]),
        (TEXTS, ["a"], [["a"]]),
        (NUMBERS, "1,2", [[1, 2]]),
        (NUMBERS, "id[]=1,id[]=2", [[1, 2]]),
        (NUMBERS, 7, [[7]]),
        (NUMBERS, "a,b", None),
        ({"type": "integer"}, "60", [60]),
        ({"type": ["integer", "null"]}, "60", [60]),
        ({"type": "integer"}, "many", None),
        ({"type": "boolean"}, "true", [True]),
        ({"type": "number"}, 1, [1]),
        ({"type": "string"}, 20, ["20"]),
        ({"type": "string"}, "20", ["20"]),
        ({"type": "string"}, True, None),
        ({"type": "string"}, ["a", "b"], ["a"]),
        ({"type": "string", "enum": ["A"]}, '"A"', ["A"]),
        ({"type": "string", "enum": ["A"]}, "B", None),
        ({"type": "object"}, '{"a": 1}', [{"a": 1}]),
        ({"type": "object"}, "big", None),
        ({}, "big", ["big"]),
        ({"type": "array"}, "[" * 3_000, [["[" * 3_000]]),
    ],
)
def test_an_example_as_a_value_of_the_schema(schema: dict[str, Any], written: Any, fitting: list[Any] | None) -> None:
    found = with_fitting_examples({**schema, "examples": [written]})
    assert found == ({**schema, "examples": fitting} if fitting is not None else schema)


def test_a_schema_whose_examples_fit_is_the_same_object() -> None:
    schema = {"type": "string", "examples": ["a", "b"]}
    assert with_fitting_examples(schema) is schema
    assert with_fitting_examples({"examples": "a"}) == {"examples": "a"}
