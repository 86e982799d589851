"""Nulls for members of other branches of a union, which clients add where the branches are listed as one object."""

from __future__ import annotations

from typing import Any

import pytest

from toolgen.generator.emit.dialects import without_absent

CIRCLE = {
    "type": "object",
    "required": ["type", "radius"],
    "properties": {"type": {"const": "circle"}, "radius": {"type": "number"}},
}
SQUARE = {
    "type": "object",
    "required": ["type", "side"],
    "properties": {"type": {"const": "square"}, "side": {"type": "number"}},
}
NAMED = {"allOf": [SQUARE, {"properties": {"label": {"type": ["string", "null"]}}}]}


def schema(*branches: Any) -> dict[str, Any]:
    shape = {"oneOf": [{"$ref": f"#/$defs/B{number}"} for number in range(len(branches))]}
    definitions = {f"B{number}": branch for number, branch in enumerate(branches)}
    return {"type": "object", "properties": {"shape": shape}, "$defs": definitions}


@pytest.mark.parametrize("closed", [{}, {"additionalProperties": False}])
@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"type": "circle", "radius": 2, "side": None}, {"type": "circle", "radius": 2}),
        ({"type": "square", "radius": None, "side": 1}, {"type": "square", "side": 1}),
        ({"type": "square", "side": 1}, {"type": "square", "side": 1}),
    ],
)
def test_null_for_a_member_of_another_branch_goes(given: Any, kept: Any, closed: Any) -> None:
    assert without_absent(schema({**CIRCLE, **closed}, {**SQUARE, **closed}), {"shape": given}) == {"shape": kept}


def test_other_nulls_stay() -> None:
    open_ = schema(CIRCLE, NAMED)
    for given in (
        {"type": "square", "side": 1, "label": None},  # a value of that branch
        {"type": "circle", "radius": 2, "note": None},  # of no branch
        {"type": "circle", "radius": None, "side": 1},  # which no branch accepts
    ):
        assert without_absent(open_, {"shape": given}) == {"shape": given}
    given = {"type": "circle", "radius": 2, "label": None}
    assert without_absent(open_, {"shape": given}) == {"shape": {"type": "circle", "radius": 2}}
