"""Schemas that are written alike, with what they refer to."""

from __future__ import annotations

from typing import Any

import pytest

from toolgen.generator.emit.schema_comparison.equality import UnchangedSchemas

REF: Any = {"$ref": "#/$defs/a"}


@pytest.mark.parametrize(
    ("old", "new", "before", "after", "alike"),
    [
        ({"type": "string"}, {"type": "string"}, {}, {}, True),
        ({"type": "string"}, {"type": "number"}, {}, {}, False),
        ({"const": 1}, {"const": True}, {}, {}, False),
        ({"const": 1}, {"const": 1.0}, {}, {}, False),
        ({"const": 2**80}, {"const": 2**80}, {}, {}, True),
        (REF, REF, {"a": {}}, {"a": {}}, True),
        (REF, REF, {"a": {}}, {"a": {"type": "string"}}, False),
        (REF, REF, {"a": {}}, {}, False),
        ({"items": REF}, {"items": REF}, {"a": REF}, {"a": REF}, True),
        (REF, REF, {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {}}, {"a": {"not": {"$ref": "#/$defs/b"}}, "b": False}, False),
        (REF, REF, {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {}}, {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {}}, True),
        ({"$ref": "#"}, {"$ref": "#"}, {}, {"x": {}}, False),
        ({"$ref": "#/properties/x"}, {"$ref": "#/properties/x"}, {}, {}, False),
        ({"$ref": "#/$defs/a~1b"}, {"$ref": "#/$defs/a~1b"}, {"a/b": {}}, {"a/b": {}}, False),
    ],
)  # fmt: skip
def test_alike_is_what_reads_the_same_everywhere(old: Any, new: Any, before: Any, after: Any, alike: bool) -> None:
    unchanged = UnchangedSchemas({**old, "$defs": before}, {**new, "$defs": after})
    assert unchanged.holds(old, new) is alike
