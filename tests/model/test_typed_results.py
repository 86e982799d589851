"""Results for type checkers: mypy checks this file in strict mode, in which a comparison that never holds is an error."""

from __future__ import annotations

from typing import assert_never

import pytest

import toolgen
from toolgen.model.result import Envelope


def add(left: int, right: int) -> int:
    """Add two numbers."""
    return left + right


def told(result: Envelope) -> str:
    """What a program does with each status; a status that is missing here is an error of types."""
    match result.status:
        case "ok":
            return "done"
        case "pending":
            return "later"
        case "error" | "refused" | "cancelled":
            return result.error.code if result.error else ""
        case _:
            assert_never(result.status)


def test_statuses_and_codes_are_closed_sets_for_type_checkers() -> None:
    with toolgen.Gateway.from_functions(add) as calls:
        results = [calls.call("add", {"left": 1, "right": 2}), calls.call("sub"), calls.call("add", {"left": "x"})]
    assert [told(result) for result in results] == ["done", "unknown_tool", "validation"]
    assert results[1].status != "fine"  # type: ignore[comparison-overlap]
    assert results[1].error is not None
    assert results[1].error.code != "no_such_code"  # type: ignore[comparison-overlap]


def test_an_error_that_was_raised_has_them_too() -> None:
    with toolgen.Gateway.from_functions(add) as calls, pytest.raises(toolgen.CallError) as caught:
        calls.call("sub").unwrap()
    assert (caught.value.status, caught.value.code) == ("refused", "unknown_tool")
    assert caught.value.code != "unknown"  # type: ignore[comparison-overlap]
