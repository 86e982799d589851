"""Nulls that stand for an argument left out, told from nulls that are values."""

from __future__ import annotations

from typing import Any

import pytest

from toolgen.generator.emit.dialects import without_absent

TEXT: dict[str, Any] = {"type": "string"}
MAYBE: dict[str, Any] = {"type": ["string", "null"]}


def object_of(*required: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


@pytest.mark.parametrize(
    ("schema", "given", "expected"),
    [
        (object_of(a=TEXT), {"a": None}, {}),
        (object_of("a", a=TEXT), {"a": None}, {"a": None}),  # required: the refusal that follows says what is wrong
        (object_of(a=MAYBE), {"a": None}, {"a": None}),
        (object_of(a={"enum": ["x", None]}), {"a": None}, {"a": None}),
        (object_of(a={"enum": ["x"]}), {"a": None}, {}),
        (object_of(a={"const": None}), {"a": None}, {"a": None}),
        (object_of(a={}), {"a": None}, {"a": None}),
        (object_of(a=True), {"a": None}, {"a": None}),
        (object_of(a=False), {"a": None}, {}),
        (object_of(a=TEXT), {"b": None}, {"b": None}),  # not listed: not ours to judge
        (object_of(a=object_of(b=TEXT)), {"a": {"b": None}}, {"a": {}}),
        (object_of(a={"type": "array", "items": object_of(b=TEXT)}), {"a": [{"b": None}, {"b": "x"}]}, {"a": [{}, {"b": "x"}]}),
        (object_of(a={"type": "array", "items": MAYBE}), {"a": [None]}, {"a": [None]}),
        (object_of(a={"allOf": [MAYBE, TEXT]}), {"a": None}, {}),
        (object_of(a={"allOf": [MAYBE, MAYBE]}), {"a": None}, {"a": None}),
        (object_of(a={"anyOf": [TEXT, {"type": "integer"}]}), {"a": None}, {}),
        (object_of(a={"oneOf": [TEXT, {"type": "null"}]}), {"a": None}, {"a": None}),
        ({"allOf": [object_of(a=TEXT), object_of(b=MAYBE)]}, {"a": None, "b": None}, {"b": None}),
        (
            {**object_of(a={"$ref": "#/$defs/A"}), "$defs": {"A": object_of(b=TEXT, a={"$ref": "#/$defs/A"})}},
            {"a": {"b": None, "a": {"b": None, "a": None}}},
            {"a": {"a": {}}},
        ),
        ({**object_of(a={"$ref": "#/$defs/A"}), "$defs": {"A": {"$ref": "#/$defs/A"}}}, {"a": None}, {"a": None}),
        # The branch that accepts the rest says which nulls are values.
        (
            object_of(a={"anyOf": [object_of("k", k={"const": 1}, v=TEXT), object_of("k", k={"const": 2}, v=MAYBE)]}),
            {"a": {"k": 2, "v": None}},
            {"a": {"k": 2, "v": None}},
        ),
        (
            object_of(a={"anyOf": [object_of("k", k={"const": 1}, v=TEXT), object_of("k", k={"const": 2}, v=MAYBE)]}),
            {"a": {"k": 1, "v": None}},
            {"a": {"k": 1}},
        ),
    ],
)  # fmt: skip
def test_what_goes_and_what_stays(schema: dict[str, Any], given: dict[str, Any], expected: dict[str, Any]) -> None:
    assert without_absent(schema, given) == expected


def test_arguments_without_null_are_the_very_same() -> None:
    given = {"a": {"b": [1, "x", False, {}]}}
    assert without_absent(object_of(a=TEXT), given) is given


def test_nothing_passed_in_is_changed() -> None:
    given: dict[str, Any] = {"a": {"b": None}, "c": [None]}
    without_absent(object_of(a=object_of(b=TEXT)), given)
    assert given == {"a": {"b": None}, "c": [None]}


def test_arguments_of_any_depth_end() -> None:
    given: dict[str, Any] = {"a": None}
    for _ in range(500):
        given = {"a": given}
    schema = {**object_of(a={"$ref": "#/$defs/A"}), "$defs": {"A": object_of(a={"$ref": "#/$defs/A"})}}
    assert set(without_absent(schema, given)) == {"a"}
