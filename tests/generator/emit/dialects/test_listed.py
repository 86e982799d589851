"""Listed form of schemas: never stricter than the exact schema, without what converters refuse, and bounded whatever a schema does."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exhaustive import examples
from tests.generator.emit.client_rules import broken
from tests.generator.emit.dialects.test_bombs import BOMBS, doubled
from tests.generator.emit.dialects.values import some
from toolgen.generator.emit.dialects.listed import MAX_LISTED_TOKENS, PARTS, ListedSchema, listed_schema
from toolgen.generator.emit.tokens import tokens

TEXT = {"type": "string"}
KINDS = ("string", "number", "boolean", "object")
ANY = {"anyOf": [*({"type": kind} for kind in KINDS), {"type": "array", "items": {}}, {"type": "null"}]}


def of(properties: dict[str, Any], *required: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*required], **more}


def member(schema: Any, *, required: bool = False, **definitions: Any) -> Any:
    """The listed form of one member of an object."""
    whole = of({"x": schema}, *(["x"] if required else []), **({"$defs": definitions} if definitions else {}))
    return listed_schema(whole)["properties"]["x"]


@pytest.mark.parametrize(
    ("schema", "optional", "required"),
    [
        ({"type": ["string", "null"], "default": None}, TEXT, {"anyOf": [TEXT, {"type": "null"}]}),
        (
            {"enum": ["a", None, "a"]},
            {"type": "string", "enum": ["a"]},
            {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]},
        ),
        (
            {"anyOf": [TEXT, {"type": "null"}], "title": "T"},
            {**TEXT, "title": "T"},
            {"anyOf": [TEXT, {"type": "null"}], "title": "T"},
        ),
        ({"type": "null"}, {"type": "null"}, {"type": "null"}),
    ],
)
def test_null_is_a_form_of_its_own_and_left_out_of_optional_members(
    schema: Any, optional: dict[str, Any], required: dict[str, Any]
) -> None:
    assert member(schema) == optional
    assert member(schema, required=True) == required


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"const": 3}, {"type": "integer", "const": 3}),
        ({"enum": [1, 2.5], "description": "D"}, {"type": "number", "description": "D. One of 1, 2.5."}),
        (
            {"enum": ["a", 1, True, 1]},
            {
                "anyOf": [{"type": "string", "enum": ["a"]}, {"type": "integer"}, {"type": "boolean"}],
                "description": "One of a, 1, true, 1.",
            },
        ),
        ({"enum": [{"a": 1}]}, {"type": "object", "description": 'One of {"a":1}.'}),
        (
            {"type": ["string", "integer"], "maxLength": 3, "minimum": 2, "description": "D"},
            {"anyOf": [{**TEXT, "maxLength": 3}, {"type": "integer", "minimum": 2}], "description": "D"},
        ),
        ({"type": "array"}, {"type": "array", "items": {}}),
        (
            {"type": "array", "items": False, "prefixItems": [TEXT, TEXT]},
            {"type": "array", "prefixItems": [TEXT, TEXT], "items": TEXT},
        ),
        ({"type": "object", "additionalProperties": True}, {"type": "object"}),
        (
            {"type": "object", "additionalProperties": {"type": "array"}},
            {"type": "object", "additionalProperties": {"type": "array", "items": {}}},
        ),
        (of({"a": TEXT}, "b", additionalProperties=False), of({"a": TEXT, "b": ANY}, "b")),
        ({"properties": {}}, {"type": "object", "properties": {}}),
        ({"$ref": "#/$defs/A", "description": "Here."}, {**TEXT, "description": "Here."}),
        ({"allOf": [{"$ref": "#/$defs/A"}, {"maxLength": 2}]}, {**TEXT, "description": "There.", "maxLength": 2}),
        (
            {"allOf": [of({"a": TEXT}, "a"), of({"b": TEXT}, additionalProperties=False)]},
            of({"a": TEXT, "b": TEXT}, "a"),
        ),
        ({"oneOf": [{"const": "a"}, {"const": "b"}]}, {"type": "string", "enum": ["a", "b"]}),
        (
            {"type": "object", "oneOf": [of({"a": TEXT}, "a"), of({"b": TEXT}, "b")]},
            {"anyOf": [of({"a": TEXT}, "a"), of({"b": TEXT}, "b")]},
        ),
        (
            {"anyOf": [{"anyOf": [TEXT, {"type": "boolean"}]}, {"type": "integer"}]},
            {"anyOf": [TEXT, {"type": "boolean"}, {"type": "integer"}]},
        ),
        (
            of({"a": TEXT, "b": TEXT}, anyOf=[{"required": ["a"]}, {"required": ["b"]}]),
            {"type": "object", "properties": {"a": TEXT, "b": TEXT}, "description": "Give a or b."},
        ),
        (
            {**TEXT, "format": "repo.nwo", "pattern": "^(?!x)"},
            {**TEXT, "description": "Format: repo.nwo. Matches the regular expression ^(?!x)."},
        ),
        ({**TEXT, "format": "date"}, {**TEXT, "format": "date"}),
        ({**TEXT, "format": "email"}, {**TEXT, "description": "Format: email."}),
        (
            of({"_links": TEXT, "a": TEXT}, "a", "_links", description="D"),
            of({"a": TEXT}, "a", description=f"D. Also has _links {PARTS}"),
        ),
        ({**TEXT, "not": {"const": "x"}}, {**TEXT, "description": 'Does not match {"const":"x"}.'}),
        ({"$ref": "#/$defs/missing"}, {"description": PARTS}),
    ],
)
def test_listed_forms(schema: Any, expected: dict[str, Any]) -> None:
    listed = member(schema, A={**TEXT, "description": "There."})
    if "required" in expected and not expected["required"]:
        expected = {key: value for key, value in expected.items() if key != "required"}
    assert {key: value for key, value in listed.items() if key != "anyOf" or "anyOf" in expected} == expected


def test_a_member_of_any_type_names_them_all() -> None:
    kinds = [one["type"] for one in member({"description": "Whatever."})["anyOf"]]
    assert kinds == ["string", "number", "boolean", "object", "array"]
    assert member({}, required=True)["anyOf"][-1] == {"type": "null"}


def test_null_is_told_where_it_means_something() -> None:
    nullable = {"type": ["string", "null"], "description": "Who does it"}
    schema = of({"a": nullable, "b": {**nullable, "description": "Null takes it away."}})
    listed = listed_schema(schema, "told")["properties"]
    assert listed["a"] == {**TEXT, "description": "Who does it. May be null."}
    assert listed["b"] == {**TEXT, "description": "Null takes it away."}
    assert listed_schema(schema, "listed")["properties"]["a"]["anyOf"] == [TEXT, {"type": "null"}]


def test_forms_that_a_member_tells_apart_are_one_object_and_nothing_is_lost() -> None:
    card = of(
        {"kind": {"const": "card"}, "amount": TEXT, "number": TEXT}, "kind", "amount", "number", description="By card."
    )
    bank = of({"kind": {"const": "bank"}, "amount": TEXT, "bic": TEXT}, "kind", "amount")
    assert member({"oneOf": [card, bank], "description": "How."}) == {
        "type": "object",
        "properties": {
            "kind": {"type": "string", "enum": ["card", "bank"], "description": "card: By card."},
            "amount": TEXT,
            "number": {**TEXT, "description": "Only and always with kind card."},
            "bic": {**TEXT, "description": "Only with kind bank."},
        },
        "required": ["kind", "amount"],
        "description": "How.",
    }
    other = of({"kind": {"const": "bank"}, "amount": {"type": "integer"}}, "kind", "amount")
    assert len(member({"oneOf": [card, other]})["anyOf"]) == 2


@pytest.mark.parametrize(
    ("schema", "properties", "required"),
    [
        ({}, {}, None),
        ({"type": "object", "required": []}, {}, None),
        ({"$ref": "#/$defs/A", "$defs": {"A": of({"a": TEXT}, "a")}}, {"a"}, ["a"]),
        ({"anyOf": [of({"a": TEXT, "c": TEXT}, "a", "c"), of({"b": TEXT, "c": TEXT}, "c")]}, {"a", "b", "c"}, ["c"]),
        (of({"a": TEXT}, "a", anyOf=[of({"b": TEXT}, "b"), of({"c": TEXT}, "c")]), {"a", "b", "c"}, ["a"]),
    ],
)
def test_the_root_is_an_object(schema: Any, properties: Any, required: list[str] | None) -> None:
    listed = listed_schema(schema)
    assert listed["type"] == "object"
    assert listed["properties"].keys() == set(properties)
    assert listed.get("required") == required
    assert not {"anyOf", "oneOf", "allOf", "$ref", "$defs"} & listed.keys()


def test_recursion_ends_with_an_open_part() -> None:
    again = {"$ref": "#/$defs/T"}
    node = of({"name": TEXT, "children": {"type": "array", "items": again}})
    listed = listed_schema(of({"root": again}, **{"$defs": {"T": node}}))
    assert (listed.cut, listed.large) == (True, False)
    assert listed["properties"]["root"]["properties"]["children"]["items"] == {
        "type": "object",
        "description": f"T {PARTS}",
    }
    assert listed.exact["$defs"]["T"] is node
    assert not listed_schema(of({"a": TEXT})).cut


def test_a_cycle_is_written_out_once() -> None:
    """Twice where that makes the whole no longer than it is with its references."""
    definitions = {
        "A": of({"b": {"$ref": "#/$defs/B"}, "text": {**TEXT, "description": "Words. " * 30}}),
        "B": of({"a": {"$ref": "#/$defs/A"}, "number": {"type": "integer"}}),
    }
    unused = {f"U{number}": TEXT for number in range(50)}
    for more, times in (({}, 1), (unused, 2)):
        listed = listed_schema(of({"a": {"$ref": "#/$defs/A"}}, **{"$defs": {**definitions, **more}}))
        assert json.dumps(listed).count('"text"') == times
        assert json.dumps(listed).count('"number"') == 1


def test_references_of_every_kind_are_followed() -> None:
    schema = of(
        {"a": {"$ref": "#/definitions/A"}, "b": {"$ref": "#/properties/c"}, "c": TEXT, "d": {"$ref": "#"}},
        definitions={"A": TEXT},
    )
    listed = listed_schema(schema)
    assert [listed["properties"][name] for name in "abc"] == [TEXT] * 3
    assert listed["properties"]["d"]["properties"]["a"] == TEXT
    assert listed.cut
    named = of(
        {"a": {"$id": "urn:other", "$ref": "#/$defs/A", "$defs": {"A": {"type": "integer"}}}}, **{"$defs": {"A": TEXT}}
    )
    assert jsonschema_rs.is_valid(dict(listed_schema(named)), {"a": 5})


def test_what_is_listed_already_is_returned_as_it_is() -> None:
    listed = listed_schema(of({"a": {"type": ["string", "null"]}}))
    assert listed_schema(listed) is listed


@pytest.mark.parametrize(
    "schema",
    [
        *(
            None,
            5,
            {"type": 5},
            {"type": ["string", 5]},
            {"enum": "abc"},
            {"required": "a"},
            {"allOf": None, "anyOf": None},
        ),
        *(
            {"allOf": [None, 5]},
            {"type": "string", "format": ["x"], "pattern": 5},
            {"type": "object", "required": [1, "b"]},
        ),
        *({"type": "array", "items": [TEXT, TEXT]}, {"type": "array", "prefixItems": None}, {"properties": [1]}),
        {"allOf": [{**TEXT, "minLength": "x"}, {**TEXT, "minLength": 3}]},
        {"properties": {"a": TEXT}, "anyOf": [{"required": 5}, {"required": ["a"]}]},
        *({"$ref": 5}, {"$ref": "#/properties/x"}, {"$ref": "#/properties"}, {"$ref": "https://example.com/a.json"}),
    ],
    ids=str,
)
def test_a_schema_that_is_none_is_listed_as_far_as_it_is_one(schema: Any) -> None:
    for whole in (of({"x": schema}, "x"), {"properties": {"x": schema}, "$defs": None}):
        assert list(broken(listed_schema(whole))) == []


SCHEMAS = st.recursive(
    st.sampled_from(
        [
            *(
                {"type": "string"},
                {"type": "integer", "minimum": 3},
                {"enum": ["a", 1, None]},
                True,
                False,
                {"const": {"a": 1}},
            ),
            *(
                {"type": ["integer", "null", "string"], "maxLength": 1},
                {"$ref": "#/$defs/S"},
                {"$ref": "#/$defs/R"},
                {},
            ),
            *({"type": ["array", "object"]}, {"const": None}, {"type": "number", "enum": [1, 5.5]}, {"$ref": "#"}),
        ]
    ),
    lambda inner: st.one_of(
        st.builds(lambda a, b: {"type": "object", "properties": {"a": a, "b": b}, "required": ["a"]}, inner, inner),
        st.builds(
            lambda a, b: {"type": "object", "properties": {"a": a, "c": b}, "additionalProperties": False}, inner, inner
        ),
        st.builds(lambda a: {"type": "array", "items": a, "minItems": 1}, inner),
        st.builds(lambda a, b: {"type": "array", "prefixItems": [a], "items": b}, inner, inner),
        st.builds(lambda a, b: {"oneOf": [a, b]}, inner, inner),
        st.builds(lambda a, b: {"anyOf": [a, {"not": b}]}, inner, inner),
        st.builds(lambda a, b: {"anyOf": [a, b], "type": ["string", "object"]}, inner, inner),
        st.builds(lambda a, b: {"allOf": [a, b]}, inner, inner),
        st.builds(lambda a, b: {"$ref": "#/$defs/S", "allOf": [a, b]}, inner, inner),
        st.builds(lambda a, b: {"if": a, "then": b}, inner, inner),
        st.builds(lambda a: {"allOf": [a], "unevaluatedProperties": False}, inner),
        st.builds(lambda a: {"type": "object", "additionalProperties": a}, inner),
        st.builds(lambda a: {"type": "object", "patternProperties": {"^a": a}, "additionalProperties": False}, inner),
        st.builds(lambda a: {"type": "array", "contains": a, "maxContains": 1}, inner),
        st.builds(
            lambda a, b: {
                "type": "object",
                "properties": {"a": a},
                "oneOf": [
                    {"type": "object", "properties": {"b": {"const": "a"}, "c": b}, "required": ["b"]},
                    {"type": "object", "properties": {"b": {"const": "b"}}, "required": ["b", "a"]},
                ],
            },
            inner,
            inner,
        ),
    ),
    max_leaves=8,
)
VALUES = st.recursive(
    st.sampled_from(["a", "b", 1, 5, 5.5, None, True]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
TREE = of(
    {"a": {"type": "integer"}, "b": {"$ref": "#/$defs/R"}, "c": {"type": "array", "items": {"$ref": "#/$defs/R"}}}
)


@settings(max_examples=examples(100), deadline=None)
@given(schema=SCHEMAS, other=SCHEMAS, value=VALUES)
def test_the_listed_form_accepts_whatever_the_schema_accepts(schema: Any, other: Any, value: Any) -> None:
    whole = of({"a": schema, "b": {"$ref": "#/$defs/S"}}, "b", **{"$defs": {"S": _not_itself(other), "R": TREE}})
    listed = listed_schema(whole, "listed")
    assert listed.get("required") == ["b"]
    assert list(broken(listed)) == []
    for arguments in ({"a": value, "b": value}, *some(whole, 3)):
        if jsonschema_rs.is_valid(whole, arguments):
            assert jsonschema_rs.is_valid(dict(listed), arguments)


@settings(max_examples=examples(100), deadline=None)
@given(schema=SCHEMAS, value=VALUES)
def test_apart_from_null_for_optional_members_it_is_the_same_for_arguments(schema: Any, value: Any) -> None:
    whole = of({"a": schema, "b": TEXT}, "b", **{"$defs": {"S": TEXT, "R": TREE}})
    listed = listed_schema(whole)
    assert list(broken(listed)) == []
    for arguments in ({"a": value, "b": "x"}, *some(whole, 3)):
        if not _holds_null(arguments) and jsonschema_rs.is_valid(whole, arguments):
            assert jsonschema_rs.is_valid(dict(listed), arguments)


def _not_itself(schema: Any) -> Any:
    """A definition that is no reference to itself, which accepts nothing or everything."""
    return json.loads(json.dumps(schema).replace("#/$defs/S", "#/$defs/R"))


def _holds_null(value: Any) -> bool:
    return "null" in json.dumps(value)


def tree(levels: int, keyword: str = "properties") -> dict[str, Any]:
    """Definitions each of which refers to the next one twice, through members."""
    chain = {
        f"D{level}": of({side: {"$ref": f"#/$defs/D{level + 1}"} for side in ("left", "right")}, "left")
        for level in range(levels)
    }
    return of({"x": {"$ref": "#/$defs/D0"}}, **{"$defs": {**chain, f"D{levels}": TEXT}})


def branching(levels: int) -> dict[str, Any]:
    """Unions of objects in one another, each with members beside its forms."""
    inner: dict[str, Any] = TEXT
    for level in range(levels):
        inner = of({f"a{level}": inner}, anyOf=[of({f"b{side}": TEXT}, f"b{side}") for side in range(3)])
    return of({"x": inner})


def joined(levels: int) -> dict[str, Any]:
    """Two definitions that are joined by `allOf`, and so are all that they lead to."""
    chain = {
        f"{name}{level}": of({side: {"$ref": f"#/$defs/{name}{level + 1}"} for side in ("left", "right")})
        for level in range(levels)
        for name in ("D", "E")
    }
    last = {f"D{levels}": TEXT, f"E{levels}": {"maxLength": 3}}
    return of({"x": {"allOf": [{"$ref": "#/$defs/D0"}, {"$ref": "#/$defs/E0"}]}}, **{"$defs": {**chain, **last}})


BOMB = {
    **BOMBS,
    "tree": tree(30),
    "wide tree": {**tree(30), "properties": {f"x{number}": {"$ref": "#/$defs/D0"} for number in range(100)}},
    "long words": {**tree(20), "$defs": {**tree(20)["$defs"], "D20": {**TEXT, "description": "Words. " * 20_000}}},
    "branching": branching(20),
    "joined": joined(30),
    "union": doubled("anyOf", 300),
    "long enum": of(
        {f"x{n}": {"$ref": "#/$defs/E"} for n in range(300)},
        **{"$defs": {"E": {"enum": [f"value {n}" for n in range(2_000)]}}},
    ),
}


@pytest.mark.parametrize("name", BOMB)
def test_a_schema_made_to_grow_is_listed_within_its_bound(name: str) -> None:
    listed = listed_schema(BOMB[name])
    written = json.dumps(listed)
    assert tokens(written) <= MAX_LISTED_TOKENS
    assert list(broken(listed)) == []
    assert jsonschema_rs.validator_for(dict(listed))
    assert isinstance(listed, ListedSchema)


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited with Linux's prlimit")
def test_bombs_are_listed_in_little_memory() -> None:
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        "from tests.generator.emit.dialects.test_listed import BOMB\n"
        "from toolgen.generator.emit.dialects.listed import listed_schema\n"
        "for bomb in BOMB.values(): listed_schema(bomb); listed_schema(bomb, 'listed', root=False)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2_000:]
