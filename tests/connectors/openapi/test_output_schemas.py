"""Output schemas of a bounded size: cut where they are far from the root, and never stricter than before."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest

from toolgen.connectors.openapi.output_schemas import MAX_SIZE, Outputs

LONG = "x" * (MAX_SIZE // 3)


def definitions(count: int) -> dict[str, dict[str, Any]]:
    """A chain of definitions, each a third of the bound, each refused by the next one's neighbours."""
    return {
        f"D{number}": {
            "type": "object",
            "description": LONG,
            "properties": {
                "kind": {"const": number},
                "next": {"oneOf": [{"type": "null"}, {"$ref": f"#/$defs/D{number + 1}"}, {"$ref": "#/$defs/Other"}]},
            },
            "not": {"required": ["forbidden"], "properties": {"forbidden": {"$ref": f"#/$defs/D{number + 1}"}}},
            "if": {"properties": {"next": {"$ref": f"#/$defs/D{number + 1}"}}},
            "else": {"required": ["kind"]},
            "unevaluatedProperties": False,
        }
        for number in range(count)
    } | {"Other": {"type": "string"}, f"D{count}": {"type": "object", "required": ["end"]}}


def bounded(schema: dict[str, Any], table: dict[str, dict[str, Any]]) -> dict[str, Any]:
    def uses(name: str) -> frozenset[str]:
        text = json.dumps(table[name])
        return frozenset(other for other in table if f'"#/$defs/{other}"' in text)

    first = [name for name in table if f'"#/$defs/{name}"' in json.dumps(schema)]
    cut, kept = Outputs().bounded(schema, first, table.__getitem__, uses)
    return {**cut, "$defs": kept}


def test_what_fits_is_left_as_it_is() -> None:
    table = definitions(1)
    schema = {"$ref": "#/$defs/D0"}
    assert bounded(schema, table) == {**schema, "$defs": table}


@pytest.mark.parametrize(
    "value",
    [
        {"kind": 0},
        {"kind": 0, "next": None},
        {"kind": 0, "next": "text"},
        {"kind": 0, "next": {"kind": 1, "next": {"kind": 2, "next": {"kind": 3}}}},
    ],
)
def test_a_cut_schema_accepts_all_that_it_accepted(value: Any) -> None:
    table = definitions(8)
    schema = {"oneOf": [{"$ref": "#/$defs/D0"}, {"type": "array", "items": {"$ref": "#/$defs/D0"}}]}
    whole, cut = {**schema, "$defs": table}, bounded(schema, table)
    assert len(json.dumps(cut)) < 2 * MAX_SIZE < len(json.dumps(whole))
    jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **cut})
    for candidate in (value, [value]):
        assert jsonschema_rs.Draft202012Validator(whole).is_valid(candidate)
        assert jsonschema_rs.Draft202012Validator(cut).is_valid(candidate)


def test_what_was_kept_still_refuses_what_is_plainly_wrong() -> None:
    cut = jsonschema_rs.Draft202012Validator(bounded({"$ref": "#/$defs/D0"}, definitions(8)))
    assert not cut.is_valid({"kind": 1})
    assert not cut.is_valid({"next": 5})
    assert not cut.is_valid([])


def test_the_nearest_definitions_are_kept() -> None:
    cut = bounded({"$ref": "#/$defs/D0"}, definitions(8))
    assert "properties" in cut["$defs"]["D0"]
    assert "properties" in cut["$defs"]["D1"]
    assert "properties" not in cut["$defs"]["D2"]
    assert "D7" not in cut["$defs"]
