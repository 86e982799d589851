"""Null in arguments that a rule bounds: a rule that allows takes it only where it says so."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgen.policy.arguments import Validator
from toolgen.policy.null_arguments import refusing_null

BOUND = {"maximum": 5}
REFUSED: list[dict[str, Any]] = [
    {"properties": {"first": BOUND}, "required": ["first"]},
    {"properties": {"first": {"pattern": "^a"}}, "required": ["first"]},
    {"properties": {"first": {"maxItems": 2}}, "required": ["first"]},
    {"properties": {"first": {"anyOf": [BOUND, {"minimum": 7}]}}, "required": ["first"]},
    {"properties": {"first": {"anyOf": [{"type": "integer"}, BOUND]}}, "required": ["first"]},
    {"properties": {"first": {"allOf": [BOUND, {"description": "a page"}]}}, "required": ["first"]},
    {"properties": {"first": {"$ref": "#/$defs/Page"}}, "required": ["first"], "$defs": {"Page": BOUND}},
    {"properties": {"first": BOUND}, "allOf": [{"required": ["first"]}]},
    {"required": ["first"], "allOf": [{"properties": {"first": BOUND}}]},
    {"required": ["first"], "anyOf": [{"properties": {"first": BOUND}}, {"properties": {"first": {"minimum": 9}}}]},
    {"required": ["first"], "if": {"required": ["after"]}, "else": {"properties": {"first": BOUND}}},
    {"properties": {"first": {"if": {"type": "integer"}, "then": BOUND}}, "required": ["first"]},
    {"properties": {"first": {"properties": {"size": BOUND}}}, "required": ["first"]},
]
TAKEN: list[dict[str, Any]] = [
    {"properties": {"first": BOUND}},
    {"properties": {"first": {"type": ["integer", "null"], **BOUND}}, "required": ["first"]},
    {"properties": {"first": {"enum": [1, None]}}, "required": ["first"]},
    {"properties": {"first": {"const": None}}, "required": ["first"]},
    {"properties": {"first": {"anyOf": [BOUND, {"type": "null"}]}}, "required": ["first"]},
    {"properties": {"first": {"description": "a page"}}, "required": ["first"]},
    {"properties": {"first": True}, "required": ["first"]},
    {"properties": {"first": {"not": {"minimum": 5}}}},
]


def accepts(schema: dict[str, Any], arguments: dict[str, Any], required: frozenset[str] = frozenset()) -> bool:
    made = refusing_null(schema, required.__contains__)
    return Validator(made, formats=False).accepts(arguments)


@pytest.mark.parametrize("schema", REFUSED)
def test_null_for_a_bounded_argument_that_has_to_be_there_is_refused(schema: dict[str, Any]) -> None:
    assert Validator(schema, formats=False).accepts({"first": None})  # which JSON Schema takes
    assert not accepts(schema, {"first": None})


@pytest.mark.parametrize("schema", TAKEN)
def test_null_is_taken_where_the_rule_says_so_or_bounds_nothing(schema: dict[str, Any]) -> None:
    assert accepts(schema, {"first": None}) == Validator(schema, formats=False).accepts({"first": None})


def test_null_is_refused_for_what_the_tool_requires_and_within_arguments() -> None:
    assert not accepts({"properties": {"first": BOUND}}, {"first": None}, frozenset({"first"}))
    page = {"properties": {"page": {"properties": {"first": BOUND}, "required": ["first"]}}}
    assert not accepts(page, {"page": {"first": None}})
    assert accepts(page, {"page": None})
    assert accepts(page, {"page": {"first": 5}})
    assert not accepts({"properties": {"ids": {"items": BOUND}}}, {"ids": [1, None]})
    assert not accepts({"properties": {"ids": {"contains": BOUND}}}, {"ids": [None]})
    assert not accepts({"properties": {"ids": {"prefixItems": [BOUND]}}}, {"ids": [None]})


VALUES = st.recursive(
    st.none() | st.integers(-9, 9) | st.text("ab", max_size=3),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from(["first", "b"]), below, max_size=2),
    max_leaves=6,
)


def without_null(value: Any) -> bool:
    match value:
        case None:
            return False
        case list():
            return all(map(without_null, value))
        case dict():
            return all(map(without_null, value.values()))
        case _:
            return True


@given(schema=st.sampled_from([*REFUSED, *TAKEN]), arguments=st.dictionaries(st.just("first"), VALUES))
def test_nothing_is_said_of_other_values(schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    before, after = Validator(schema, formats=False).accepts(arguments), accepts(schema, arguments)
    assert not after or before
    if without_null(arguments):
        assert before == after
