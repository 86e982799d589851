"""What a place of a schema is filled with: defaults at any depth, and an end where they lead back to themselves."""

from __future__ import annotations

from typing import Any

from toolgen.policy.readings.shape import SchemaShape


def test_defaults_are_filled_in_at_any_depth() -> None:
    schema: dict[str, Any] = {
        "properties": {
            "page": {"default": 1},
            "filter": {"type": "object", "properties": {"size": {"default": 3}}},
            "rows": {"type": "array", "items": {"properties": {"unit": {"default": "kg"}}}},
        }
    }

    assert SchemaShape(schema, schema).filled({"filter": {}, "rows": [{}, {"unit": "g"}]}) == {
        "page": 1,
        "filter": {"size": 3},
        "rows": [{"unit": "kg"}, {"unit": "g"}],
    }


def test_defaults_that_lead_back_to_themselves_come_to_an_end() -> None:
    schema: dict[str, Any] = {
        "$ref": "#/$defs/Node",
        "$defs": {"Node": {"properties": {"next": {"$ref": "#/$defs/Node", "default": {"next": {}}}}}},
    }

    filled: Any = SchemaShape(schema, schema).filled({})

    depth = 0
    while filled:
        depth, filled = depth + 1, filled["next"]
    assert 1 < depth < 200
