"""Integers beyond 2**53 in schemas: what a description says is what is compared, to the last digit."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import toolgen
from toolgen.connectors.openapi.keywords import keyword
from toolgen.core.canonical import Canonical, schema_digest
from toolgen.core.errors import CanonicalError
from toolgen.generator.emit.formats import mcp_tool
from toolgen.generator.emit.writer import render_all
from toolgen.model.manifest import load
from toolgen.policy.arguments import Validator

FUNCTION = """
from typing import Annotated

import msgspec
import toolgen

@toolgen.tool(effect="read")
def pick(a: Annotated[int, msgspec.Meta(le=18014398509481986)]) -> str:
    '''Picks.'''
    return str(a)
"""
HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    "minimum": operator.ge,
    "maximum": operator.le,
    "exclusiveMinimum": operator.gt,
    "exclusiveMaximum": operator.lt,
}
_SIGNS, _STEPS = st.sampled_from((1, -1)), st.integers(-9, 9)
POWERS = st.builds(lambda power, step, sign: sign * (2**power + step), st.integers(50, 80), _STEPS, _SIGNS)


def listed(bounds: dict[str, int]) -> dict[str, Any]:
    built: dict[str, Any] = {}
    for word, bound in bounds.items():
        keyword(built, word, bound, pytest.fail)
    return built


@given(word=st.sampled_from(sorted(HOLDS)), bound=POWERS, step=st.integers(-3, 3))
def test_a_bound_holds_to_the_last_digit(word: str, bound: int, step: int) -> None:
    validator = Validator({"type": "object", "properties": {"a": {"type": "integer", **listed({word: bound})}}})
    value = bound + step
    assert validator.accepts({"a": value}) == HOLDS[word](value, bound)


@given(inclusive=POWERS, exclusive=POWERS, step=st.integers(-2, 2))
def test_of_two_bounds_the_narrower_one_holds(inclusive: int, exclusive: int, step: int) -> None:
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


WIDE = 2**54 + 2  # neither it nor a neighbour is a double


@given(values=st.lists(POWERS, min_size=1, max_size=4, unique=True), step=st.integers(-2, 2))
def test_values_of_an_enum_are_compared_to_the_last_digit(values: list[int], step: int) -> None:
    built: dict[str, Any] = {}
    keyword(built, "enum", values, pytest.fail)
    validator = Validator({"type": "object", "properties": {"a": built}})
    for value in (one + step for one in values):
        assert validator.accepts({"a": value}) is (value in values)
        if float(value) == value:
            assert validator.accepts({"a": float(value)}) is (value in values)


@pytest.mark.parametrize(
    ("schema", "taken", "refused"),
    [
        ({"type": "integer", "maximum": WIDE}, [WIDE, WIDE - 1], [WIDE + 1, WIDE + 2]),
        ({"type": "integer", "minimum": WIDE}, [WIDE], [WIDE - 1]),
        ({"type": "integer", "enum": [WIDE, 5]}, [WIDE, 5], [WIDE + 1, WIDE - 1]),
        ({"const": -WIDE}, [-WIDE], [-WIDE - 1]),
        ({"type": "string", "enum": [WIDE, "x"]}, ["x", str(WIDE)], [str(WIDE + 1)]),
        ({"type": "array", "items": {"type": "integer", "enum": [2**70 + 1]}}, [[2**70 + 1]], [[2**70]]),
    ],
)
def test_a_built_tool_keeps_every_digit(tmp_path: Path, schema: Any, taken: list[Any], refused: list[Any]) -> None:
    parameter = {"name": "a", "in": "query", "schema": schema}
    paths = {"/x": {"get": {"operationId": "x", "parameters": [parameter], "responses": {}}}}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "t", "version": "1"},
        "servers": [{"url": "http://127.0.0.1:9"}],
        "paths": paths,
    }
    (tmp_path / "t.json").write_text(json.dumps(document), encoding="utf-8")
    built = toolgen.build({"t": {"openapi": "t.json"}}, root=tmp_path)
    assert [
        problem for problem in built.problems if problem.level != "info" and problem.code != "repaired_schema"
    ] == []
    read = load(render_all(built, ())["manifest.json"], where="manifest.json")
    assert read.digest == built.digest
    assert read.tools["t__x"].input_schema == built.tools["t__x"].input_schema
    for value in taken:
        assert "url" in toolgen.preview(read, "t__x", {"a": value})
    for value in refused:
        assert "url" not in toolgen.preview(read, "t__x", {"a": value})
    assert all(str(one) in json.dumps(mcp_tool(read.tools["t__x"])) for one in schema.get("enum", ()))


def test_functions_and_servers_may_bound_with_any_integer(tmp_path: Path) -> None:
    module = f"wide_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{module}.py").write_text(FUNCTION, encoding="utf-8")
    built = toolgen.build({"fn": {"python": module}}, root=tmp_path)
    assert built.tools["fn__pick"].input_schema["properties"]["a"] == {"type": "integer", "maximum": WIDE}
    validator = Validator(built.tools["fn__pick"].input_schema)
    assert [validator.accepts({"a": one}) for one in (WIDE, WIDE + 1)] == [True, False]


def test_schemas_with_other_integers_have_other_digests() -> None:
    schemas: list[Any] = [
        {"enum": [WIDE]},
        {"enum": [WIDE + 1]},
        {"enum": [float(WIDE)]},
        {"enum": [str(WIDE)]},
        {"enum": [{"$integer": str(WIDE)}]},
        {"enum": [{"$integer": str(WIDE)}, WIDE]},
        {"enum": [{"$$integer": str(WIDE)}, WIDE]},
        {"enum": [WIDE, {"$integer": str(WIDE)}]},
    ]
    found = [schema_digest({"of": schema}) for schema in schemas]
    assert len(set(found)) == len(found)
    assert [schema_digest({"of": Canonical(schema)}) for schema in schemas] == found
    for wrong in ({"maximum": math.nan}, {"maximum": WIDE, "minimum": -math.inf}):
        with pytest.raises(CanonicalError):
            schema_digest(wrong)
