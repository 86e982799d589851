"""Generated arguments: valid, the same for the same seed, and with the edge values that break things among them."""

from __future__ import annotations

from typing import Any

import pytest

from toolgen.connectors.proof.examples import Examples, valid_for
from toolgen.connectors.proof.verdicts import shrink


def schema(value: Any, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"v": value}, **more}


def values(value: Any, count: int = 40, **more: Any) -> list[Any]:
    made = Examples(schema(value, required=["v"], **more), seed="0")
    return [one["v"] for one in made.take(count)]


TREE = {
    "Tree": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}},
        "required": ["name", "children"],
    }
}


@pytest.mark.parametrize(
    "one",
    [
        {"type": "string", "minLength": 3, "maxLength": 5},
        {"type": "string", "pattern": "^[A-Z]{2}-[0-9]+$"},
        {"type": "string", "enum": ["a", "b"]},
        {"const": {"a": 1}},
        {"type": "integer", "minimum": 5, "exclusiveMaximum": 7},
        {"type": "number", "multipleOf": 0.5, "minimum": 10},
        {"type": "array", "items": {"type": "integer"}, "minItems": 2, "uniqueItems": True},
        {"type": "array", "prefixItems": [{"const": 1}, {"type": "string"}], "items": False, "minItems": 2},
        {"type": "array", "contains": {"const": 7}, "items": {"type": "integer"}},
        {"type": "object", "minProperties": 2, "additionalProperties": {"type": "integer"}},
        {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False},
        {"type": "object", "patternProperties": {"^x-": {"type": "integer"}}, "additionalProperties": False},
        {"allOf": [{"type": "object", "required": ["a"]}, {"properties": {"a": {"type": "boolean"}}}]},
        {"oneOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]},
        {"anyOf": [{"type": "null"}, {"type": "array", "items": {"type": "null"}}]},
        {"type": ["string", "null"], "format": "date-time"},
        {"not": {"type": "string"}},
        {"if": {"type": "integer"}, "then": {"minimum": 3}, "else": {"type": "null"}},
        {"$ref": "#/$defs/Tree"},
        True,
        {},
    ],
)
def test_examples_are_valid(one: Any) -> None:
    whole = schema(one, required=["v"], **{"$defs": TREE})
    made = list(Examples(whole, seed="0").take(20))
    assert made
    assert all(valid_for(whole).is_valid(example) for example in made)


@pytest.mark.parametrize(
    ("one", "wanted"),
    [
        ({"type": "array", "items": {"type": "string"}}, []),
        ({"type": "integer"}, 0),
        ({"type": "integer"}, 2**53 + 1),
        ({"type": "boolean"}, False),
        ({"type": "string"}, ""),
        ({"type": "string"}, "a/b?c#d"),
        ({"type": "string"}, "null"),
        ({"type": ["string", "null"]}, None),
        ({"type": "number"}, 0.1),
    ],
)
def test_the_edges_are_among_them(one: Any, wanted: Any) -> None:
    assert any(value == wanted and type(value) is type(wanted) for value in values(one, 150))


def test_what_is_optional_is_sometimes_absent() -> None:
    made = list(Examples(schema({"type": "integer"}), seed="0").take(10))
    assert {} in made
    assert any("v" in one for one in made)


def test_an_optional_argument_is_made_alone() -> None:
    properties = {"id": {"type": "integer"}, "a": {"type": "string"}, "b": {"type": "boolean"}, "never": False}
    made = Examples({"type": "object", "properties": properties, "required": ["id"]}, seed="0")
    assert {frozenset(one) for one in made.with_argument("b")} == {frozenset({"id", "b"})}
    assert list(made.with_argument("never")) == []


def test_a_value_of_an_enum_is_made_beside_a_choice_of_more_constants() -> None:
    constants = {"oneOf": [{"const": str(number)} for number in range(50)]}
    items = {"type": "string", "enum": ["7", "8", "9"], "allOf": [constants]}
    many = schema({"type": "array", "items": items, "minItems": 2, "uniqueItems": True}, required=["v"])
    assert list(Examples(many, seed="0").take(3))


def test_the_same_seed_makes_the_same_examples() -> None:
    one = schema({"type": "array", "items": {"type": "number"}})
    assert list(Examples(one, seed="7").take(20)) == list(Examples(one, seed="7").take(20))
    assert list(Examples(one, seed="7").take(20)) != list(Examples(one, seed="8").take(20))


def test_an_argument_that_no_value_fits_is_left_out_and_named() -> None:
    made = Examples({"type": "object", "properties": {"a": {"type": "integer"}, "b": False}}, seed="0")
    assert any("a" in one for one in made.take(10))
    assert made.left_out == {"b"}


def test_a_schema_no_arguments_fit_yields_none() -> None:
    assert list(Examples(schema(False, required=["v"]), seed="0").take(5)) == []


def test_arrays_that_multiply_end() -> None:
    one: dict[str, Any] = {"type": "string"}
    for _ in range(12):
        one = {"type": "array", "items": one, "minItems": 9}
    assert list(Examples(schema(one, required=["v"]), seed="0").take(1)) == []


@pytest.mark.parametrize(
    ("arguments", "fails", "smallest"),
    [
        ({"a": [1, 2, 3, 400], "b": "text"}, lambda one: len(one.get("a", ())) >= 2, {"a": [0, 0]}),
        ({"a": "x,y;z", "b": True}, lambda one: "," in one.get("a", ""), {"a": ","}),
        ({"a": {"b": {"c": 977}}}, lambda one: "c" in one.get("a", {}).get("b", {}), {"a": {"b": {"c": 0}}}),
        ({}, lambda one: True, {}),
    ],
)
def test_failures_shrink_to_what_matters(arguments: Any, fails: Any, smallest: Any) -> None:
    assert shrink(arguments, fails) == smallest
