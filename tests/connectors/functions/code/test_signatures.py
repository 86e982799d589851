"""Tools as functions: the types that their schemas say."""

from __future__ import annotations

from typing import Any

import pytest

from toolgen.connectors.functions.code.signatures import is_callable, signature, stubs
from toolgen.model.tool import Effect, NoBinding, Tool


def tool(name: str = "shop__get", **schema: Any) -> Tool:
    return Tool(
        name=name,
        title="",
        description="",
        input_schema={"type": "object", **schema},
        output_schema=None,
        effect=Effect.READ,
        idempotent=True,
        source="shop",
        origin="",
        binding=NoBinding(),
    )


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({"type": "string"}, "str"),
        ({"type": "integer"}, "int"),
        ({"type": "number"}, "float"),
        ({"type": "boolean"}, "bool"),
        ({"type": ["string", "null"]}, "str | None"),
        ({"type": "array", "items": {"type": "integer"}}, "list[int]"),
        ({"type": "array"}, "list[Any]"),
        ({"type": "object"}, "dict[str, Any]"),
        ({"enum": ["a", "b'"]}, "Literal['a', \"b'\"]"),
        ({"const": 3}, "Literal[3]"),
        ({"enum": [1.5]}, "Any"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "str | int"),
        ({"anyOf": [{"type": "string"}, {}]}, "Any"),
        ({"$ref": "#/$defs/x"}, "Any"),
        (True, "Any"),
    ],
)
def test_a_type_for_each_schema(schema: Any, written: str) -> None:
    made = signature(tool(properties={"a": schema}, required=["a"]))
    assert made == f"async def shop__get(*, a: {written}) -> Any"


def test_required_arguments_come_first_and_names_that_are_none_in_python_are_in_more() -> None:
    properties = {"b": {"type": "string"}, "a": {"type": "integer"}, "class": {}, "x-y": {}}
    made = signature(tool(properties=properties, required=["a"]))
    assert made == "async def shop__get(*, a: int, b: str = ..., **more: Any) -> Any"
    assert signature(tool()) == "async def shop__get() -> Any"


def test_a_name_that_is_none_in_python_has_no_function() -> None:
    assert not is_callable(tool("shop__get-it"))
    assert "get-it" not in stubs([tool("shop__get-it")])


def test_what_a_type_checker_is_told_is_python() -> None:
    compile(stubs([tool(properties={"a": {"enum": ['"', "\\", "\n"]}})]), "stubs", "exec")
