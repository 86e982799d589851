"""The promises that mutated descriptions are held to: each notices when it is broken."""

from __future__ import annotations

from typing import Any

import pytest

from bench.promises import schema_faults

BROKEN: dict[str, Any] = {
    "a type that is none": {"type": "text"},
    "a keyword of another kind": {"required": "a"},
    "a reference to nothing": {"properties": {"a": {"$ref": "#/$defs/A"}}},
    "one below a property that is called like a keyword": {"properties": {"default": {"$ref": "#/$defs/A"}}},
    "a reference elsewhere": {"$ref": "https://h.test/a"},
    "a definition nobody needs": {"$defs": {"A": {}}},
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_schema_that_does_not_stand_alone_is_noticed(case: str) -> None:
    assert len(list(schema_faults(BROKEN[case]))) == 1


@pytest.mark.parametrize(
    "schema",
    [None, {}, {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {}}}, {"enum": [{"$ref": "#/nowhere"}]}],
)
def test_one_that_does_is_not(schema: Any) -> None:
    assert list(schema_faults(schema)) == []
