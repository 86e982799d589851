"""What a reviewer is told of a device tool that changed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from toolgen.generator.emit.diff import binding_changes
from toolgen.model.tool import DeviceBinding, Effect, Tool

BINDING = DeviceBinding(method="a.b", params={"x": "$.x"}, result={"type": "null"}, display="Do it?", timeout_s=60.0)
TOOL = Tool(
    name="phone__do",
    title="Do",
    description="Does it.",
    input_schema={"type": "object", "properties": {"x": {}}},
    output_schema=None,
    effect=Effect.WRITE,
    idempotent=False,
    source="phone",
    origin="do",
    binding=BINDING,
)
CHANGES: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    ({}, []),
    ({"method": "a.c"}, [("breaking", "binding")]),
    ({"params": {"x": "$.y"}}, [("breaking", "binding")]),
    ({"result": None}, [("breaking", "binding")]),
    ({"transform": {"x": "$"}}, [("breaking", "binding")]),
    ({"display": "Send everything?"}, [("compatible", "display")]),
    ({"timeout_s": 30.0}, [("breaking", "timeout")]),
    ({"timeout_s": 90.0}, [("compatible", "timeout")]),
]


@pytest.mark.parametrize(("changes", "told"), CHANGES)
def test_each_part_of_a_device_tool_that_changes_is_told(changes: dict[str, Any], told: list[tuple[str, str]]) -> None:
    new = msgspec.structs.replace(TOOL, binding=msgspec.structs.replace(BINDING, **changes))
    assert [(one.level, one.code) for one in binding_changes(TOOL, new)] == told
