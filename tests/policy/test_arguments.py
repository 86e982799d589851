"""What is repaired, what is dropped, and what a caller is told about the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.connectors.openapi.readings import document, operation, read
from toolgen.policy.arguments import Validator, check_schema, meant_names, repair, unknown_arguments

SCHEMA = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "x": {"type": "number"},
        "b": {"type": "boolean"},
        "s": {"type": "string"},
        "l": {"type": "array", "items": {"type": "integer"}},
        "o": {"type": "object"},
        "either": {"type": ["string", "integer"]},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "ref": {"$ref": "#/$defs/Count"},
        "open": {},
    },
    "$defs": {"Count": {"type": "integer"}},
}


@pytest.mark.parametrize(
    ("name", "sent", "seen"),
    [
        ("n", "5", 5),
        ("n", "-5", -5),
        ("n", "5.0", "5.0"),
        ("n", "five", "five"),
        ("n", " 5", " 5"),
        ("n", "5 6", "5 6"),
        ("n", "0x5", "0x5"),
        ("n", "true", "true"),
        ("n", '"5"', '"5"'),
        ("n", 5, 5),
        ("n", 5.5, 5.5),
        ("x", "5", 5),
        ("x", "5.5", 5.5),
        ("x", "1e3", 1000),
        ("x", "NaN", "NaN"),
        ("x", "Infinity", "Infinity"),
        ("b", "true", True),
        ("b", "True", "True"),
        ("b", "1", "1"),
        ("s", "5", "5"),
        ("s", 5, 5),
        ("l", "[1]", [1]),
        ("l", "[1", "[1"),
        ("o", '{"a": 1}', {"a": 1}),
        ("either", "5", "5"),
        ("maybe", "5", 5),
        ("maybe", "null", None),
        ("ref", "7", 7),
        ("open", "5", "5"),
        ("l", "[" * 5000 + "]" * 5000, "[" * 5000 + "]" * 5000),
        ("l", "[" * 201 + "]" * 201, "[" * 201 + "]" * 201),  # whatever the Python would read
        ("l", "[" + "[]," * 300 + "[]]", [[]] * 301),
    ],
)
def test_repair_changes_only_what_was_plainly_meant(name: str, sent: Any, seen: Any) -> None:
    repaired = repair(SCHEMA, {name: sent})
    assert repaired.arguments == {name: seen}
    assert type(repaired.arguments[name]) is type(seen)
    assert repaired.repaired == (() if sent is seen or (sent == seen and type(sent) is type(seen)) else (name,))


@pytest.mark.parametrize(
    ("extra", "kept"),
    [
        ({}, False),
        ({"additionalProperties": True}, True),
        ({"additionalProperties": False}, True),  # for validation to refuse
        ({"additionalProperties": {"type": "string"}}, True),
        ({"patternProperties": {"^x-": {}}}, True),
        ({"allOf": [{"properties": {"other": {}}}]}, True),
    ],
)
def test_unknown_arguments_are_dropped_unless_the_schema_has_its_say(extra: dict[str, Any], kept: bool) -> None:
    repaired = repair({**SCHEMA, **extra}, {"s": "a", "other": 1})
    assert ("other" in repaired.arguments) is kept
    assert repaired.dropped == (() if kept else ("other",))


ADDRESS: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}, "zip": {"type": "string"}}}
NESTED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "silent": ADDRESS,
        "closed": {**ADDRESS, "additionalProperties": False},
        "open": {**ADDRESS, "additionalProperties": True},
        "others": {**ADDRESS, "additionalProperties": {"type": "integer"}, "properties": {"at": ADDRESS}},
        "patterned": {**ADDRESS, "patternProperties": {"^x-": {}}},
        "unnamed": {"type": "object"},
        "anything": {},
        "pointed": {"$ref": "#/$defs/Address"},
        "cut": {"$ref": "#/$defs/Cut"},
        "lost": {"$ref": "#/$defs/Lost"},
        "listed": {"type": "array", "items": {"$ref": "#/$defs/Address"}},
        "nullable": {"anyOf": [{"$ref": "#/$defs/Address"}, {"type": "null"}]},
        "nullable list": {"oneOf": [{"type": "array", "items": ADDRESS}, {"type": "null"}]},
        "chosen": {"oneOf": [ADDRESS, {"type": "object", "properties": {"street": {}}}]},
        "composed": {"allOf": [{"$ref": "#/$defs/Address"}, {"properties": {"floor": {}}}]},
        "described": {"allOf": [{"$ref": "#/$defs/Address"}, {"description": "Where."}]},
        "composed open": {"allOf": [{"$ref": "#/$defs/Address"}, {"$ref": "#/$defs/Cut"}]},
        "deep": {"type": "object", "properties": {"a": {"type": "object", "properties": {"b/c": ADDRESS}}}},
        "round": {"$ref": "#/$defs/Round"},
    },
    "$defs": {
        "Address": ADDRESS,
        "Cut": {"description": "Anything."},
        "Round": {
            "type": "object",
            "properties": {"next": {"$ref": "#/$defs/Round"}},
            "allOf": [{"$ref": "#/$defs/Round"}],
        },
    },
}


@pytest.mark.parametrize(
    ("name", "sent", "dropped"),
    [
        ("silent", {"city": "a", "citty": "b"}, ["/silent/citty"]),
        ("closed", {"citty": "b"}, []),  # for validation to refuse
        ("open", {"citty": "b"}, []),
        ("others", {"citty": 1, "at": {"city": "a", "zipp": 1}}, ["/others/at/zipp"]),
        ("silent", {"city": "a", "bark": 1}, []),  # as a child of that schema may
        ("patterned", {"x-a": 1, "citty": 2}, []),
        ("unnamed", {"citty": "b"}, []),
        ("anything", {"citty": {"a": 1}}, []),
        ("pointed", {"citty": "b"}, ["/pointed/citty"]),
        ("cut", {"citty": "b"}, []),
        ("lost", {"citty": "b"}, []),
        ("listed", [{"city": "a"}, {"citty": "b", "zip": "1"}], ["/listed/1/citty"]),
        ("nullable", {"citty": "b"}, ["/nullable/citty"]),
        ("nullable list", [{"citty": "b"}], ["/nullable list/0/citty"]),
        ("chosen", {"citty": "b"}, []),
        ("composed", {"floor": 1, "city": "a", "citty": "b"}, ["/composed/citty"]),
        ("described", {"citty": "b"}, ["/described/citty"]),
        ("composed open", {"citty": "b"}, []),
        ("deep", {"a": {"b/c": {"city": "a", "z~/ip": 1}}}, ["/deep/a/b~1c/z~0~1ip"]),
        ("round", {"next": {"next": {"x": 1}}}, []),
        ("silent", "no object", []),
        ("listed", {"citty": "b"}, []),
    ],
)
def test_slips_are_dropped_where_the_schema_names_members(name: str, sent: Any, dropped: list[str]) -> None:
    seen = repair(NESTED, {name: sent})
    assert list(seen.dropped) == dropped
    if not dropped:
        assert seen.arguments == {name: sent}
    else:
        assert not any(one.rpartition("/")[2] in json.dumps(seen.arguments) for one in dropped)


def test_of_very_many_unknown_members_none_is_a_slip() -> None:
    others: dict[str, Any] = {f"colour{number}": number for number in range(100)}
    assert repair(NESTED, {"silent": {**others, "citty": "b"}}).dropped == ()
    assert repair(NESTED, {"silent": {"citty": "b", **others}}).dropped == ("/silent/citty",)


def test_a_dropped_member_is_compared_with_its_siblings() -> None:
    pointers = ["/silent/citty", "/listed/1/citty", "/deep/a/b~1c/zipp", "/silent/colour", "/nowhere/x", "/"]
    assert list(meant_names(NESTED, pointers).values()) == ["city", "city", "zip", "", "", ""]


def test_a_write_with_more_unknown_names_than_are_compared_is_refused(tmp_path: Path) -> None:
    reading = read(tmp_path, document({"/e": {"post": operation()}, "/r": {"get": operation(operationId="reads")}}))
    names = [f"n{number}" for number in range(101)]
    assert {len(unknown_arguments(tool, names)) for tool in reading.tools if tool.effect != "read"} == {1}
    assert {len(unknown_arguments(tool, names)) for tool in reading.tools if tool.effect == "read"} == {0}


@given(st.text())
def test_repair_never_raises(text: str) -> None:
    for name in SCHEMA["properties"]:
        repair(SCHEMA, {name: text})


def test_faults_name_the_argument_and_what_is_wrong_with_it() -> None:
    validator = Validator(
        {"type": "object", "properties": {"a": {"properties": {"b/c": {"maximum": 3}}}}, "required": ["id"]}
    )
    faults = validator.faults({"a": {"b/c": 4}})
    assert any(fault.startswith("/a/b~1c: ") and "3" in fault for fault in faults)
    assert any(fault.startswith("arguments: ") and "id" in fault for fault in faults)


def test_a_pattern_that_backtracks_forever_ends() -> None:
    validator = Validator({"properties": {"s": {"pattern": "^(?=a)(a+)+$"}}})
    assert validator.faults({"s": "a" * 40 + "!"}) != ()
    linear = Validator({"properties": {"s": {"pattern": "^(a+)+$"}}})
    assert linear.faults({"s": "a" * 100_000 + "!"}) != ()


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "wrong"},
        {"properties": {"a": {"maximum": "x"}}},
        {"$ref": "http://127.0.0.1:1/schema"},
        {"pattern": "("},
    ],
)
def test_what_is_no_schema_is_told(schema: dict[str, Any]) -> None:
    assert check_schema(schema)


def test_a_schema_is_no_fault() -> None:
    assert check_schema({"properties": {"limit": {"maximum": 3}}}) is None


def ladder(levels: int, keyword: str) -> dict[str, Any]:
    rungs = {f"L{level}": {keyword: [{"$ref": f"#/$defs/L{level + 1}"}] * 2} for level in range(levels)}
    return {"$ref": "#/$defs/L0", "$defs": {**rungs, f"L{levels}": {"type": "integer"}}}


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
def test_alternatives_that_multiply_for_ever_are_refused_before_they_are_tried(keyword: str) -> None:
    with pytest.raises(ValueError, match="could take more than"):
        Validator(ladder(60, keyword))
    with pytest.raises(ValueError, match="could take more than"):
        Validator({"properties": {"a": {"items": {"$ref": "#/$defs/L0"}}}, "$defs": ladder(60, keyword)["$defs"]})
    assert Validator(ladder(6, keyword)).accepts(5) is (keyword != "oneOf")  # type: ignore[arg-type]


def test_alternatives_that_stand_in_one_another_too_deep_are_refused() -> None:
    def nested(depth: int) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "integer"}
        for _ in range(depth):
            schema = {"anyOf": [schema]}
        return schema

    assert Validator(nested(50)).accepts(5)
    with pytest.raises(ValueError, match="could take more than"):
        Validator(nested(300))


def test_a_definition_may_lead_to_itself_by_descending_and_not_otherwise() -> None:
    tree = {
        "properties": {"left": {"$ref": "#"}, "next": {"$ref": "#/$defs/N"}},
        "$defs": {"N": {"items": {"$ref": "#/$defs/N"}}},
    }
    assert Validator(tree).accepts({"next": [[]]})
    with pytest.raises(ValueError, match="could take more than"):
        Validator({"$ref": "#/$defs/N", "$defs": {"N": {"anyOf": [{"$ref": "#/$defs/N"}]}}})


PLACE: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}, "zip": {"type": "integer"}}}
FORMS: dict[str, Any] = {
    "inline": PLACE,
    "reference": {"$ref": "#/$defs/Place"},
    "allof": {"allOf": [{"$ref": "#/$defs/Place"}], "description": "where"},
    "merged": {"allOf": [PLACE, {"type": "object", "properties": {"street": {"type": "string"}}}]},
    "oneof": {"oneOf": [PLACE, {"type": "array", "items": {"type": "integer"}}]},
    "nullable": {"anyOf": [PLACE, {"type": "null"}]},
    "untyped": {"properties": PLACE["properties"]},
}


def nested(form: Any, depth: int) -> Any:
    for _ in range(depth):
        form = {"type": "object", "properties": {"in": form}}
    return {"type": "object", "properties": {"a": form}, "$defs": {"Place": PLACE}}


def inside(value: Any, depth: int) -> Any:
    for _ in range(depth):
        value = {"in": value}
    return {"a": value}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_json_written_as_text_is_read_in_every_form_and_depth(form: str, depth: int) -> None:
    value: Any = {"city": "Rome", "zip": 5}
    written: list[Any] = [json.dumps(value), f"\n{json.dumps(value)} "]
    written += [{"city": "Rome", "zip": "5"}, json.dumps({"city": "Rome", "zip": "5"})]
    for one in written:
        seen = repair(nested(FORMS[form], depth), inside(one, depth))
        assert seen.arguments == inside(value, depth)
        assert (seen.dropped, seen.left_out) == ((), ())
        assert seen.repaired


NUMBERS: dict[str, Any] = {"type": "array", "items": {"type": "integer"}}
KINDS: list[dict[str, Any]] = [
    {"type": "object", "properties": {"kind": {"const": "place"}, "data": PLACE}},
    {"type": "object", "properties": {"kind": {"enum": ["list"]}, "data": NUMBERS}},
    {"type": "object", "allOf": [{"$ref": "#/$defs/Noted"}], "required": ["kind"]},
]
NOTED: dict[str, Any] = {"type": "object", "properties": {"kind": {"const": "note"}, "data": {"type": "string"}}}


@pytest.mark.parametrize("keyword", ["oneOf", "anyOf"])
@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ({"kind": "place", "data": '{"zip": "5"}'}, {"kind": "place", "data": {"zip": 5}}),
        ({"kind": "place", "data": {"zip": "5"}}, {"kind": "place", "data": {"zip": 5}}),
        ({"kind": "list", "data": "[1]"}, {"kind": "list", "data": [1]}),
        ({"kind": "list", "data": ["1"]}, {"kind": "list", "data": [1]}),
        ({"kind": "note", "data": "[1]"}, {"kind": "note", "data": "[1]"}),
        ({"kind": "other", "data": "[1]"}, {"kind": "other", "data": "[1]"}),
        ({"data": "[1]"}, {"data": "[1]"}),  # which may be a text
    ],
)
def test_constants_tell_which_branch_of_a_choice_is_meant(keyword: str, given: Any, meant: Any) -> None:
    schema = {"type": "object", "properties": {"a": {keyword: KINDS}}, "$defs": {"Noted": NOTED}}
    assert repair(schema, {"a": given}).arguments == {"a": meant}
    assert repair(schema, {"a": json.dumps(given)}).arguments == {"a": meant}


@pytest.mark.parametrize(
    ("schema", "given", "meant"),
    [
        ({"additionalProperties": PLACE}, {"x": '{"zip": 1}', "y": {"zip": "2"}}, {"x": {"zip": 1}, "y": {"zip": 2}}),
        ({"additionalProperties": {"type": "integer"}}, {"x": "5"}, {"x": 5}),
        ({"additionalProperties": {"type": "string"}}, {"x": "5"}, {"x": "5"}),
        ({"patternProperties": {"^x": NUMBERS}}, {"xa": "[1]", "ya": "[1]"}, {"xa": [1], "ya": "[1]"}),
        (
            {
                "properties": {"n": {}},
                "patternProperties": {"^x": NUMBERS},
                "additionalProperties": {"type": "integer"},
            },
            {"n": "1", "x": "[1]", "z": "1"},
            {"n": "1", "x": [1], "z": 1},
        ),
        ({"patternProperties": {"(?=x)x": NUMBERS}}, {"x": "[1]"}, {"x": "[1]"}),
        ({"allOf": [{"additionalProperties": {"type": "integer"}}]}, {"x": "5"}, {"x": 5}),
    ],
)
def test_json_written_as_text_is_read_in_members_without_a_name(schema: Any, given: Any, meant: Any) -> None:
    root = {"type": "object", "properties": {"a": {"type": "object", **schema}}}
    assert repair(root, {"a": given}).arguments == {"a": meant}


@pytest.mark.parametrize(
    ("schema", "meant"),
    [
        ({"type": "array", "prefixItems": [PLACE, {"type": "integer"}]}, [{"zip": 1}, 2, "3"]),
        ({"type": "array", "prefixItems": [PLACE], "items": {"type": "integer"}}, [{"zip": 1}, 2, 3]),
        ({"allOf": [{"type": "array", "prefixItems": [PLACE], "items": {"type": "integer"}}]}, [{"zip": 1}, 2, 3]),
        ({"oneOf": [{"type": "array", "items": {"type": "integer"}}, PLACE]}, ['{"zip": "1"}', 2, 3]),
        ({"type": "array", "items": {"type": "string"}}, ['{"zip": "1"}', "2", "3"]),
        ({"items": {"type": ["integer", "object"]}}, [{"zip": "1"}, 2, 3]),
    ],
)
def test_json_written_as_text_is_read_in_items_by_their_place(schema: Any, meant: Any) -> None:
    root = {"type": "object", "properties": {"a": schema}}
    assert repair(root, {"a": ['{"zip": "1"}', "2", "3"]}).arguments == {"a": meant}


def test_a_choice_within_choices_is_looked_at_for_a_bounded_time() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}}
    for _ in range(6):
        schema = {"anyOf": [schema] * 12}
    assert repair({"type": "object", "properties": {"a": schema}}, {"a": {"n": "5"}}).arguments["a"] in (
        {"n": 5},
        {"n": "5"},
    )


@pytest.mark.parametrize(
    ("given", "meant", "left_out"),
    [
        ({"n": "", "t": "x"}, {"t": "x"}, ("/a/n",)),
        ({"o": {"zip": "", "city": ""}}, {"o": {"city": ""}}, ("/a/o/zip",)),
        ({"r": ""}, {"r": ""}, ()),
        ({"t": ""}, {"t": ""}, ()),
        ({"l": [{"zip": ""}]}, {"l": [{}]}, ("/a/l/0/zip",)),
        ({"d": "", "e": ""}, {}, ("/a/d", "/a/e")),
        ({"elsewhere": ""}, {"elsewhere": ""}, ()),
    ],
)
def test_an_empty_text_for_an_optional_member_is_no_value(given: Any, meant: Any, left_out: tuple[str, ...]) -> None:
    members: Any = {
        "n": {"type": "integer"}, "t": {"type": "string"}, "o": PLACE, "r": {"type": "integer"}, "l": {"type": "array", "items": PLACE},
        "d": {"type": "string", "format": "date"}, "e": {"type": "string", "enum": ["x"]},
    }  # fmt: skip
    root = {"type": "object", "properties": {"a": {"type": "object", "properties": members, "required": ["r"]}}}
    seen = repair(root, {"a": given})
    assert (seen.arguments, seen.left_out) == ({"a": meant}, left_out)


def test_text_that_is_declared_as_text_is_never_read() -> None:
    members: Any = {"t": {"type": "string"}, "u": {}}
    schema: Any = {"type": "object", "properties": {"a": {"type": "object", "properties": members}}}
    given: Any = {"a": {"t": '{"x": 1}', "u": "[1]"}}
    assert repair(schema, given).arguments == given


@pytest.mark.parametrize(
    ("schema", "left"),
    [
        ({"type": "integer"}, True),
        ({"type": "array", "items": {"type": "string"}}, True),
        ({"$ref": "#/$defs/Place"}, True),
        ({"type": "string", "format": "date"}, True),
        ({"type": "string", "enum": ["a", "b"]}, True),
        ({"type": "string"}, False),
        ({"type": "string", "enum": ["a", ""]}, False),
        ({"type": ["string", "integer"]}, False),
        ({}, False),
    ],
)
def test_an_empty_text_for_an_optional_argument_is_no_value(schema: Any, left: bool) -> None:
    root: Any = {"type": "object", "properties": {"a": schema}, "$defs": {"Place": PLACE}}
    seen = repair(root, {"a": ""})
    assert seen.arguments == ({} if left else {"a": ""})
    assert seen.left_out == (("a",) if left else ())
    assert repair({**root, "required": ["a"]}, {"a": ""}).arguments == {"a": ""}
