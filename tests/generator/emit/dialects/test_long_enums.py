"""Enums of many values: shown in part, checked whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from toolgen.generator.build import build
from toolgen.generator.emit.dialects.listed import listed_schema
from toolgen.generator.emit.dialects.long_enums import MAX_VALUES, in_part
from toolgen.generator.emit.schema_budget import described, listed
from toolgen.model.tool import Tool
from toolgen.policy.arguments import Validator

ZONES = [f"Region/City_{number}" for number in range(200)]


@pytest.fixture(scope="module")
def tool(tmp_path_factory: pytest.TempPathFactory) -> Tool:
    zone = {"name": "zone", "in": "query", "schema": {"type": "string", "enum": ZONES}, "description": "Time zone."}
    few = {"name": "few", "in": "query", "schema": {"type": "string", "enum": ZONES[:MAX_VALUES]}}
    body = {"type": "object", "properties": {"zones": {"type": "array", "items": {"type": "string", "enum": ZONES}}}}
    operation: dict[str, Any] = {
        "operationId": "makeReport",
        "parameters": [zone, few],
        "requestBody": {"content": {"application/json": {"schema": body}}},
        "responses": {"200": {"description": "ok"}},
    }
    text = {"openapi": "3.1.0", "info": {"title": "R", "version": "1"}, "paths": {"/reports": {"post": operation}}}
    path = tmp_path_factory.mktemp("api") / "api.json"
    path.write_text(json.dumps({**text, "servers": [{"url": "https://r.example.com"}]}), encoding="utf-8")
    (found,) = build({"r": {"openapi": str(path)}}).tools.values()
    return found


def test_a_long_enum_is_listed_and_described_in_part_with_its_number(tool: Tool) -> None:
    for schema in (listed(tool).input_schema, described(tool)["input_schema"]):
        zone = schema["properties"]["zone"]
        assert "enum" not in zone
        assert zone["type"] == "string"
        assert zone["description"].startswith("Time zone. One of 200 values, such as Region/City_0, ")
        assert "One of 200 values" in schema["properties"]["zones"]["items"]["description"]
        assert schema["properties"]["few"]["enum"] == ZONES[:MAX_VALUES]


def test_all_values_are_shown_to_who_asks_for_the_field(tool: Tool) -> None:
    shown = described(tool, {"fields": ["zone"]})["input_schema"]["properties"]["zone"]
    assert shown["enum"] == ZONES


def test_a_value_that_is_none_is_refused_with_the_nearest(tool: Tool) -> None:
    validator = Validator(tool.input_schema)
    assert not validator.faults({"zone": "Region/City_199"})
    (fault,) = validator.faults({"zone": "Region/City199"})
    assert 'did you mean "Region/City_199"?' in fault


def test_what_has_no_long_enum_is_the_same_object(tmp_path: Path) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"enum": ["x"], "default": ["y"] * 99}, "b": {"enum": [*range(99)]}},
    }
    assert in_part(schema) is schema


def test_a_description_that_lists_the_values_itself_has_them_in_part_and_once() -> None:
    values = [f"kind_{number}" for number in range(50)]
    said = f"Type of it, one of {', '.join(values[:-1])}, or {values[-1]}. Needed."
    shown = in_part({"enum": values, "description": said})
    first = ", ".join(values[:10])
    assert shown["description"] == f"Type of it, one of 50 values, such as {first}. Needed."
    explained = "; ".join(f"{value} does what nobody else does" for value in values)
    shown = in_part({"enum": values, "description": explained})
    assert shown["description"] == f"{explained}. One of 50 values, such as {first}."
    shown = in_part({"enum": values, "description": "kind_49, and others"})
    assert shown["description"].startswith("kind_49, and others. One of 50 values")


def test_a_listed_argument_has_the_values_of_its_description_once() -> None:
    values = [f"kind_of_{number}" for number in range(60)]
    said = f"Type of it, one of {', '.join(values)}"
    shown = listed_schema(
        {"type": "object", "properties": {"kind": {"type": "string", "enum": values, "description": said}}}, short=True
    )
    assert shown["properties"]["kind"]["description"].count("60 values, such as kind_of_0, ") == 1
    assert shown["properties"]["kind"]["description"].count("kind_of_3,") == 1
