"""What is repaired, what is dropped, and what a caller is told about the rest."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolgen.policy.arguments import Validator, check_schema, repair

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


def test_a_definition_may_lead_to_itself_by_descending_and_not_otherwise() -> None:
    tree = {
        "properties": {"left": {"$ref": "#"}, "next": {"$ref": "#/$defs/N"}},
        "$defs": {"N": {"items": {"$ref": "#/$defs/N"}}},
    }
    assert Validator(tree).accepts({"next": [[]]})
    with pytest.raises(ValueError, match="could take more than"):
        Validator({"$ref": "#/$defs/N", "$defs": {"N": {"anyOf": [{"$ref": "#/$defs/N"}]}}})
