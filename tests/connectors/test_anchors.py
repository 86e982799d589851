"""References by `$id` and `$anchor`: the pointer each stands for, and nothing else touched."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

from tests.connectors.openapi.readings import document, only, operation, read
from toolgen.connectors.schema_ids import by_pointer

ITEM = {
    "$id": "https://h.test/item",
    "$anchor": "self",
    "$defs": {"n": {"type": "integer"}},
    "properties": {"n": {"$ref": "#/$defs/n"}},
}
CASES: dict[str, tuple[Any, Any]] = {
    "an anchor": ({"a": {"$ref": "#x"}, "b": {"$anchor": "x"}}, {"$ref": "#/b"}),
    "an anchor that escapes": ({"a": {"$ref": "#x"}, "b/c": [{"$dynamicAnchor": "x"}]}, {"$ref": "#/b~1c/0"}),
    "an address": ({"a": {"$ref": "https://h.test/item"}, "b": ITEM}, {"$ref": "#/b"}),
    "an address with a pointer": ({"a": {"$ref": "https://h.test/item#/$defs/n"}, "b": ITEM}, {"$ref": "#/b/$defs/n"}),
    "an address with an anchor": ({"a": {"$ref": "https://h.test/item#self"}, "b": ITEM}, {"$ref": "#/b"}),
    "a relative address": ({"a": {"$id": "https://h.test/x", "$ref": "item"}, "b": ITEM}, {"$id": "https://h.test/x", "$ref": "#/b"}),
    "an anchor of another schema": ({"a": {"$ref": "#self"}, "b": ITEM}, {"$ref": "#self"}),
    "no address here": ({"a": {"$ref": "https://h.test/other"}, "b": ITEM}, {"$ref": "https://h.test/other"}),
    "a pointer": ({"a": {"$ref": "#/b"}, "b": ITEM}, {"$ref": "#/b"}),
    "a value": ({"a": {"enum": [{"$ref": "#x"}]}, "b": {"$anchor": "x"}}, {"enum": [{"$ref": "#x"}]}),
    "an anchor in a value": ({"a": {"$ref": "#x"}, "b": {"const": {"$anchor": "x"}}}, {"$ref": "#x"}),
    "a property called enum": ({"a": {"properties": {"enum": {"$ref": "#x"}}}, "b": {"$anchor": "x"}},
        {"properties": {"enum": {"$ref": "#/b"}}}),
    "a property called $ref": ({"a": {"properties": {"$ref": {"$ref": "#x"}}}, "b": {"$anchor": "x"}},
        {"properties": {"$ref": {"$ref": "#/b"}}}),
    "an address that is none": ({"a": {"$ref": "http://["}, "b": {"$id": "http://["}}, {"$ref": "#/b"}),
    "marks that are no texts": ({"a": {"$ref": "#x", "$id": 5}, "b": {"$anchor": ["x"]}}, {"$ref": "#x", "$id": 5}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_reference_is_the_pointer_it_stands_for(case: str) -> None:
    written, expected = CASES[case]
    assert by_pointer(written)["a"] == expected


def test_a_pointer_within_a_schema_starts_there_or_where_it_leads_somewhere() -> None:
    written = {"b": ITEM, "c": {"$id": "https://h.test/c", "properties": {"b": {"$ref": "#/b"}}}}
    rewritten = by_pointer(written)
    assert rewritten["b"]["properties"]["n"] == {"$ref": "#/b/$defs/n"}
    assert rewritten["c"]["properties"]["b"] == {"$ref": "#/b"}


def test_a_document_without_marks_is_the_same_object() -> None:
    written = {"a": {"$ref": "#/b"}, "b": {}}
    assert by_pointer(written) is written


def test_schemas_are_found_by_their_names(tmp_path: Any) -> None:
    schemas = {
        "Node": {
            "$anchor": "node",
            "type": "object",
            "properties": {"next": {"$ref": "#node"}, "item": {"$ref": "https://h.test/item"}},
        },
        "Item": {
            "$id": "https://h.test/item",
            "type": "object",
            "$defs": {"n": {"type": "integer"}},
            "properties": {"n": {"$ref": "#/$defs/n"}},
        },
    }
    parameter = {"name": "q", "in": "query", "schema": {"$ref": "#node"}}
    written = document({"/a": {"get": operation(parameters=[parameter])}}, components={"schemas": schemas})
    validator = jsonschema.Draft202012Validator(dict(only(read(tmp_path, written))[0].input_schema))
    assert validator.is_valid({"q": {"next": {"next": {"item": {"n": 1}}}}})
    assert not validator.is_valid({"q": {"next": {"item": {"n": "x"}}}})
