"""A unit that a description names in one place is said of the numbers of that name in requests."""

from __future__ import annotations

from typing import Any

import pytest

from toolgen.connectors.openapi.units_of_names import UnitsOfNames

CENTS = "In cents, or the smallest unit of the currency."


def told(said: list[str], schema: dict[str, Any], name: str = "amount") -> str:
    units = UnitsOfNames()
    for text in said:
        units.record(name, {"type": "integer", "description": text})
    found = units.with_units({"type": "object", "properties": {name: schema}})
    return str(found["properties"][name].get("description", ""))


@pytest.mark.parametrize(
    ("said", "schema", "expected"),
    [
        (["Amount in cents.", "In cents (or local equivalent)."], {"type": "integer"}, CENTS),
        (["Amount in cents."] * 2, {"type": "integer", "description": "What is paid back"}, f"What is paid back. {CENTS}"),
        (["Seconds since the Unix epoch."] * 2, {"type": "integer", "description": "Since when."}, "Since when. Unix time in seconds."),
        (["A timestamp in milliseconds."] * 2, {"type": ["integer", "null"]}, "Unix time in milliseconds."),
        (["How long, in seconds."] * 2, {"type": "number"}, "In seconds."),
        # Once is chance, two units are none, and what says one keeps its own.
        (["Amount in cents."], {"type": "integer"}, ""),
        (["Amount in cents.", "Amount in bytes."], {"type": "integer"}, ""),
        (["Amount in cents."] * 2, {"type": "integer", "description": "In percent."}, "In percent."),
        (["Amount in cents."] * 2, {"type": "string"}, ""),
        (["Amount in cents."] * 2, {"type": "integer", "format": "unix-time"}, ""),
    ],
)  # fmt: skip
def test_a_unit_is_said_where_all_who_say_one_agree(said: list[str], schema: dict[str, Any], expected: str) -> None:
    assert told(said, schema) == expected


def test_a_name_with_its_unit_says_it_already() -> None:
    assert told(["How long, in seconds."] * 3, {"type": "integer"}, "timeoutSeconds") == ""


def test_odd_schemas_are_left_as_they_are() -> None:
    units = UnitsOfNames()
    units.record("a", None)
    units.record("a", {"type": "integer", "description": 7})
    units.record("a", {"type": ["integer"], "description": "in cents"})
    assert units.with_units({"type": "object"}) == {"type": "object"}
    assert units.with_units({"type": "object", "properties": {"a": True}}) == {
        "type": "object",
        "properties": {"a": True},
    }
