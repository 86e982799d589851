"""Bounds of integers beyond 2**53: what a description says is what is compared, to the last digit."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toolgen
from toolgen.policy.arguments import Validator
from toolgen.sources.openapi.keywords import keyword

HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    "minimum": operator.ge,
    "maximum": operator.le,
    "exclusiveMinimum": operator.gt,
    "exclusiveMaximum": operator.lt,
}
_SIGNS, _STEPS = st.sampled_from((1, -1)), st.sampled_from((-1, 0, 1))
POWERS = st.builds(lambda power, step, sign: sign * (2**power + step), st.integers(50, 80), _STEPS, _SIGNS)


def listed(bounds: dict[str, int]) -> dict[str, Any]:
    built: dict[str, Any] = {}
    for word, bound in bounds.items():
        keyword(built, word, bound, pytest.fail)
    return built


def is_written(word: str, bound: int) -> bool:
    """Whether a double says the bound, in one keyword or the other."""
    step = {"minimum": -1, "maximum": 1, "exclusiveMinimum": 1, "exclusiveMaximum": -1}[word]
    return any(int(float(one)) == one for one in (bound, bound + step))


@given(word=st.sampled_from(sorted(HOLDS)), bound=POWERS, step=st.integers(-3, 3))
def test_a_bound_holds_to_the_last_digit(word: str, bound: int, step: int) -> None:
    if not is_written(word, bound):
        return
    validator = Validator({"type": "object", "properties": {"a": {"type": "integer", **listed({word: bound})}}})
    value = bound + step
    assert validator.accepts({"a": value}) == HOLDS[word](value, bound)


@given(inclusive=POWERS, exclusive=POWERS, step=st.integers(-2, 2))
def test_of_two_bounds_the_narrower_one_holds(inclusive: int, exclusive: int, step: int) -> None:
    if not (is_written("maximum", inclusive) and is_written("exclusiveMaximum", exclusive)):
        return
    bounds = listed({"maximum": inclusive, "exclusiveMaximum": exclusive})
    validator = Validator({"type": "object", "properties": {"a": {"type": "integer", **bounds}}})
    for value in (inclusive + step, exclusive + step):
        assert validator.accepts({"a": value}) == (value <= inclusive and value < exclusive)


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_tools_hold_bounds_of_int64_exactly_and_send_all_digits(tmp_path: Path, version: str) -> None:
    schema: dict[str, Any] = {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}
    above: dict[str, Any] = {"type": "integer", "maximum": 2**64, "exclusiveMaximum": True}
    if version == "3.1.0":
        above = {"type": "integer", "exclusiveMaximum": 2**64}
    parameters = [{"name": name, "in": "query", "schema": one} for name, one in (("a", schema), ("b", above))]
    paths = {"/x": {"get": {"operationId": "x", "parameters": parameters, "responses": {}}}}
    document = {
        "openapi": version,
        "info": {"title": "t", "version": "1"},
        "servers": [{"url": "http://127.0.0.1:9"}],
        "paths": paths,
    }
    (tmp_path / "t.json").write_text(json.dumps(document), encoding="utf-8")
    manifest = toolgen.build({"t": {"openapi": "t.json"}}, root=tmp_path)

    def sent(**given: int) -> str:
        return str(toolgen.preview(manifest, "t__x", given).get("url", "refused")).rpartition("?")[2]

    assert sent(a=2**63 - 1) == "a=9223372036854775807"
    assert sent(a=-(2**63)) == "a=-9223372036854775808"
    assert sent(a=2**63) == sent(a=-(2**63) - 1) == "refused"
    assert sent(b=2**64 - 1) == "b=18446744073709551615"
    assert sent(b=2**64) == "refused"
