"""Schemas cut to what a model can be asked to read: within their bound, never stricter than the whole, and open to being asked."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.catalogs import http_tool
from toolgen.generator.emit.dialects import ListedSchema
from toolgen.generator.emit.dialects.listed import MAX_LISTED_TOKENS
from toolgen.generator.emit.formats import render
from toolgen.generator.emit.schema_budget import (
    DEEPEST,
    MAX_DESCRIBED_TOKENS,
    UnknownFieldError,
    cost,
    described,
    exact,
    listed,
)
from toolgen.generator.emit.tokens import tokens
from toolgen.model.shared_definitions import Closure, Definitions
from toolgen.model.tool import Tool, absent, seal
from toolgen.policy.arguments import Validator


def deep(width: int, depth: int) -> dict[str, Any]:
    """Objects in objects, through definitions that also lead back to themselves."""
    definitions: dict[str, Any] = {}
    for level in range(depth):
        below = {"$ref": f"#/$defs/L{level + 1}"} if level + 1 < depth else {"type": "string"}
        fields = {
            f"f{index}": {"type": "string", "description": f"Words about field {index}."} for index in range(width)
        }
        properties = {
            **fields,
            "next": below,
            "all": {"type": "array", "items": below},
            "again": {"$ref": "#/$defs/L0"},
        }
        definitions[f"L{level}"] = {"type": "object", "properties": properties, "required": ["f0"]}
    return {
        "type": "object",
        "properties": {"spec": {"$ref": "#/$defs/L0"}, "name": {"type": "string"}},
        "required": ["spec"],
        "$defs": definitions,
    }


def large(schema: dict[str, Any]) -> Tool:
    return msgspec.structs.replace(http_tool("s__create"), input_schema=schema)


def cost_of(value: Any) -> int:
    return tokens(msgspec.json.encode(value, enc_hook=dict).decode())


@pytest.mark.parametrize(
    "schema",
    [
        deep(60, 12),
        deep(600, 3),
        {
            "type": "object",
            "properties": {f"a{index}": {"type": "string", "description": "Words. " * 9} for index in range(900)},
            "required": ["a7"],
        },
        {
            "type": "object",
            "properties": {"a": {"oneOf": [deep(80, 4)["$defs"]["L3"]] * 30, "not": {"required": ["x"]}}},
        },
    ],
    ids=["deep", "wide", "flat", "branches"],
)
def test_a_large_tool_is_listed_and_described_within_its_bound(schema: dict[str, Any]) -> None:
    tool = large(schema)
    assert cost_of(tool.input_schema) > MAX_LISTED_TOKENS
    assert cost(tool) == cost(listed(tool))
    assert cost(listed(tool)) <= MAX_LISTED_TOKENS
    assert cost_of(described(tool)) <= MAX_DESCRIBED_TOKENS
    assert (
        cost_of(described(msgspec.structs.replace(tool, output_schema=schema), {"output_schema": True}))
        <= MAX_DESCRIBED_TOKENS
    )
    jsonschema_rs.validator_for(dict(listed(tool).input_schema))


def test_a_small_tool_is_listed_whole_and_described_as_it_is() -> None:
    tool = large(deep(3, 2))
    schema = listed(tool).input_schema
    assert isinstance(schema, ListedSchema)
    assert not schema.large
    assert exact(tool) is tool.input_schema
    assert listed(listed(tool)) == listed(tool)
    assert described(tool)["input_schema"] == tool.input_schema
    assert "more" not in described(tool)


def test_what_is_left_open_is_named_and_shown_when_asked_for() -> None:
    tool = large(deep(60, 12))
    first = described(tool)
    assert all(path.startswith("spec.next") for path in first["more"])
    path = "spec.next.next.all.next"
    asked = described(tool, {"fields": [path]})
    assert list(asked["input_schema"]["properties"]) == [path]
    assert "f59" in str(asked["input_schema"])
    assert cost_of(asked) <= MAX_DESCRIBED_TOKENS
    assert cost_of(described(tool, {"depth": DEEPEST})) > MAX_DESCRIBED_TOKENS
    with pytest.raises(UnknownFieldError, match=r"spec\.nothing"):
        described(tool, {"fields": ["spec.nothing"]})


SCHEMAS = st.recursive(
    st.sampled_from(
        [{"type": "string"}, {"type": "integer", "minimum": 3}, {"enum": ["a", 1]}, True, {"const": {"a": 1}}]
    ),
    lambda inner: st.one_of(
        st.builds(lambda a, b: {"type": "object", "properties": {"a": a, "b": b}, "required": ["a"]}, inner, inner),
        st.builds(lambda a: {"type": "array", "items": a, "minItems": 1}, inner),
        st.builds(lambda a, b: {"oneOf": [a, b]}, inner, inner),
        st.builds(lambda a, b: {"anyOf": [a, {"not": b}]}, inner, inner),
        st.builds(lambda a, b: {"if": a, "then": b}, inner, inner),
        st.builds(lambda a: {"allOf": [a], "unevaluatedProperties": False}, inner),
        st.builds(lambda a: {"additionalProperties": a}, inner),
        st.builds(lambda a: {"contains": a, "maxContains": 1}, inner),
    ),
    max_leaves=8,
)
VALUES = st.recursive(
    st.sampled_from(["a", "b", 1, 5, None, True]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(schema=SCHEMAS, value=VALUES, depth=st.integers(1, 4))
def test_what_is_cut_accepts_whatever_the_whole_accepts(schema: Any, value: Any, depth: int) -> None:
    whole = {"type": "object", "properties": {"a": schema, "b": {"$ref": "#/$defs/S"}}, "$defs": {"S": schema}}
    arguments = {"a": value, "b": value}
    cut = described(large(whole), {"depth": depth})["input_schema"]
    if jsonschema_rs.is_valid(whole, arguments):
        assert jsonschema_rs.is_valid(cut, arguments)


@pytest.fixture(scope="module")
def shared_tool() -> Tool:
    """A tool that leads to more definitions than a tool has of its own: a tree of objects, each with a number and two of the next."""
    schemas: dict[str, Any] = {
        f"d{n}": {
            "type": "object",
            "properties": {
                "number": {"type": "integer", "maximum": n},
                "left": {"$ref": f"#/$defs/d{(2 * n + 1) % 400}"},
                "right": {"anyOf": [{"$ref": f"#/$defs/d{(2 * n + 2) % 400}"}, {"type": "null"}]},
            },
        }
        for n in range(400)
    }
    closure = Closure(Definitions(schemas), {"d0"})
    schema = {"type": "object", "properties": {"body": {"$ref": "#/$defs/d0"}}, "required": ["body"], "$defs": closure}
    return seal(msgspec.structs.replace(absent("t__set"), input_schema=schema))


def test_what_thousands_share_is_listed_to_a_few_levels(shared_tool: Tool) -> None:
    shown = listed(shared_tool).input_schema
    assert "$defs" not in shown
    assert shown["required"] == ["body"]
    body = shown["properties"]["body"]
    assert body["properties"]["left"]["properties"]["number"] == {"type": "integer", "maximum": 1}
    assert "describe_tool" in json.dumps(shown)
    assert cost_of(shown) * 0.8 < cost(shared_tool) <= MAX_LISTED_TOKENS
    assert listed(shared_tool).input_schema == shown
    assert listed(shared_tool).digest == shared_tool.digest
    assert exact(shared_tool) == shown


def test_what_is_listed_of_what_is_shared_takes_all_that_the_whole_takes(shared_tool: Tool) -> None:
    shown, whole = Validator(dict(listed(shared_tool).input_schema)), Validator(shared_tool.input_schema)
    value: Any = {"number": 0, "left": {"number": 1, "left": {"left": {"number": 7}}}}
    assert whole.accepts({"body": value})
    assert shown.accepts({"body": value})
    assert not whole.accepts({"body": {"left": {"left": {"left": {"number": 8}}}}})


def test_what_is_shared_is_described_by_fields_and_depth(shared_tool: Tool) -> None:
    by_default = described(shared_tool)
    assert by_default["more"]
    assert len(by_default["input_schema"]["$defs"]) > 5
    deep = described(shared_tool, {"depth": 8})
    assert len(deep["input_schema"]["$defs"]) > len(by_default["input_schema"]["$defs"])
    (part,) = described(shared_tool, {"fields": ["body.left.left"], "depth": 1})["input_schema"]["properties"].values()
    assert part == {"$ref": "#/$defs/d3"}
    with pytest.raises(UnknownFieldError):
        described(shared_tool, {"fields": ["body.middle"]})


def test_a_schema_is_listed_as_it_is_where_its_source_says_so() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "additionalProperties": False,
        "$defs": {"A": {"$anchor": "a", "type": ["string", "null"]}},
    }
    one = msgspec.structs.replace(absent("a"), input_schema=schema)
    assert listed(one).input_schema != schema
    kept = listed(msgspec.structs.replace(one, exact_schema=True))
    assert kept.input_schema == schema
    assert listed(kept) is kept


def test_long_descriptions_are_listed_in_short_and_described_whole() -> None:
    prose = "It is shown to everybody who opens the page, with the names of those who wrote it and the day on which they did. "
    text = f"The size of the page. {prose}{prose}{prose}The default is 30. It counts from the top."
    tool = msgspec.structs.replace(
        http_tool("s__create"),
        description=f"Creates a page. {prose * 12}It is kept.",
        input_schema={"type": "object", "properties": {"size": {"type": "integer", "description": text}}},
    )
    short = listed(tool)
    said = short.input_schema["properties"]["size"]["description"]
    assert said.startswith("The size of the page.")
    assert said.endswith("The default is 30.")
    assert len(said) < len(text)
    assert short.description.startswith("Creates a page.")
    assert len(short.description) <= 1_024
    for name in ("openai-strict", "gemini"):
        assert text not in msgspec.json.encode(render(name, [tool]), enc_hook=dict).decode()
    whole = described(tool)
    assert whole["description"] == tool.description
    assert whole["input_schema"]["properties"]["size"]["description"] == text


def test_where_the_whole_texts_have_no_room_describe_tool_has_the_short_ones_and_shows_a_field_whole() -> None:
    text = "The size of the page. " + "It is shown to everybody who opens the page, and to nobody else at all. " * 20
    properties = {f"size{number}": {"type": "integer", "description": text} for number in range(60)}
    tool = large({"type": "object", "properties": properties})
    brief = described(tool)
    assert set(brief["input_schema"]["properties"]) == set(properties)
    assert brief["input_schema"]["properties"]["size1"]["description"].startswith("The size of the page.")
    assert cost_of(brief) <= MAX_DESCRIBED_TOKENS
    asked = described(tool, {"fields": ["size1"]})
    assert asked["input_schema"]["properties"]["size1"]["description"] == text
