"""The outermost schema: an object without combinators, that refuses nothing more."""

from __future__ import annotations

from typing import Any

import pytest

from toolgen.emit.dialects import rooted

A = {"type": "object", "properties": {"a": {"type": "string"}}}
B = {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "object"}, {"type": "object"}),
        ({}, {"type": "object", "properties": {}}),
        (
            {"allOf": [A, B]},
            {"type": "object", "properties": {**A["properties"], **B["properties"]}, "required": ["b"]},
        ),
        ({"$ref": "#/$defs/A", "$defs": {"A": A}}, {**A, "$defs": {"A": A}}),
        (
            {**A, "not": {"required": ["a"]}},
            {**A, "description": 'Does not match {"required":["a"]}.'},
        ),
        ({**A, "allOf": [False]}, {**A, "description": "allOf: false."}),
    ],
)  # fmt: skip
def test_roots(schema: dict[str, Any], expected: dict[str, Any]) -> None:
    assert rooted(schema) == expected


def test_a_root_that_is_fine_is_the_very_same() -> None:
    assert rooted(A) is A
