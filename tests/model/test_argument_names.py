"""Listed names of arguments: unique, free of a leading underscore, and a schema that means the same under them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import create_model

from toolgen.model.argument_names import (
    listed_arguments,
    listed_names,
    own_arguments,
    own_names,
    with_listed_arguments,
)
from toolgen.model.tool import Effect, McpBinding, Tool
from toolgen.model.wire_names import members

NAMES = ["_id", "id", "id_", "__id", "_", "__", "_ID", "_answer", "answer", "plain", "_2", "argument", "x"]
KEYS = st.sampled_from(NAMES)
LISTS = st.lists(KEYS, max_size=3, unique=True)
KINDS = st.sampled_from([{"type": "string"}, {"type": "integer"}, {}, True])
PARTS = st.recursive(
    st.fixed_dictionaries(
        {"properties": st.dictionaries(KEYS, KINDS, max_size=5)},
        optional={
            "required": LISTS,
            "additionalProperties": st.booleans(),
            "dependentRequired": st.dictionaries(KEYS, LISTS, max_size=2),
        },
    ),
    lambda inner: st.fixed_dictionaries(
        {"properties": st.dictionaries(KEYS, KINDS, max_size=3)},
        optional={
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
            "dependentSchemas": st.dictionaries(KEYS, inner, max_size=2),
            "$ref": st.just("#/$defs/more"),
        },
    ),
    max_leaves=4,
)


def tool(schema: dict[str, Any]) -> Tool:
    return Tool(
        name="far__t", title="", description="", input_schema={"type": "object", **schema}, output_schema=None,
        effect=Effect.READ, idempotent=True, source="far", origin="t", binding=McpBinding(tool="t", url="", parts={}),
    )  # fmt: skip


@given(st.sets(KEYS | st.text("_ab1", min_size=1, max_size=5)))
def test_no_listed_name_begins_with_an_underscore_and_no_two_are_one(names: set[str]) -> None:
    found = listed_names(names)
    assert set(found) == {name for name in names if name.startswith("_")}
    every = [found.get(name, name) for name in names]
    assert len(set(every)) == len(every)
    assert not [name for name in every if name.startswith("_")]
    fields: dict[str, Any] = dict.fromkeys(every, int)
    create_model("Arguments", **fields)
    assert listed_names(sorted(names, reverse=True)) == found


@pytest.mark.parametrize(
    ("names", "listed"),
    [
        (["_id"], {"_id": "id"}),
        (["_id", "id"], {"_id": "id_"}),
        (["_id", "id", "id_"], {"_id": "id_2"}),
        (["_id", "__id"], {"__id": "id", "_id": "id_"}),
        (["_"], {"_": "argument"}),
        (["id", "a_b", "a_"], {}),
    ],
)
def test_a_listed_name_is_the_own_one_without_its_underscore_where_that_is_free(
    names: list[str], listed: dict[str, str]
) -> None:
    assert listed_names(names) == listed


@given(PARTS, PARTS, st.dictionaries(KEYS, st.sampled_from(["x", 1, None]), max_size=5))
def test_a_renamed_schema_takes_what_the_schema_took(
    top: dict[str, Any], more: dict[str, Any], arguments: dict[str, Any]
) -> None:
    schema = {**top, "$defs": {"more": {"type": "object", **_unreferenced(more)}}}
    before = tool(schema)
    made = with_listed_arguments(before)
    known = members(before.input_schema, before.input_schema)
    arguments = {name: value for name, value in arguments.items() if name in known}
    listed = {own: name for name, own in own_names(made).items()}
    assert listed.keys() == {name for name in known if name.startswith("_")}
    named = {listed[own]: value for own, value in arguments.items() if own in listed}
    named |= {name: value for name, value in arguments.items() if not name.startswith("_")}
    assert own_arguments(made, named) == arguments
    assert listed_arguments(made, arguments) == (named, ())
    assert listed_arguments(made, named) == (named, ())
    assert Draft202012Validator(made.input_schema).is_valid(named) is Draft202012Validator(
        before.input_schema
    ).is_valid(arguments)
    assert not [name for name in members(made.input_schema, made.input_schema) if name.startswith("_")]
    assert with_listed_arguments(made) is made


def _unreferenced(part: Any) -> Any:
    """The part without references: a definition that leads to itself for the same value would never end."""
    if isinstance(part, dict):
        return {name: _unreferenced(one) for name, one in part.items() if name != "$ref"}
    return [_unreferenced(one) for one in part] if isinstance(part, list) else part


def test_an_argument_that_is_given_by_both_names_with_two_values_is_told() -> None:
    made = with_listed_arguments(tool({"properties": {"_id": {}, "b": {}}}))
    assert own_names(made) == {"id": "_id"}
    assert listed_arguments(made, {"_id": 1, "id": 1, "b": 2}) == ({"id": 1, "b": 2}, ())
    assert listed_arguments(made, {"_id": 1, "id": 2, "b": 2}) == ({"id": 2, "b": 2}, ("_id",))
