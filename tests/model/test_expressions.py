"""Expressions and conditions of workflows: what they are read as, and what is refused."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exhaustive import examples
from toolgen.connectors.workflow.values import NOTHING, ExpressionScope, MissingError, evaluate, met
from toolgen.model.conditions import parse_condition
from toolgen.model.expressions import ExpressionError, parse
from toolgen.model.workflow import Criterion

SCOPE = ExpressionScope(
    inputs={"name": "Ann", "n": 3, "null": None, "list": [1, {"a/b": 2}]},
    steps={
        "find": {
            "status": "ok",
            "data": {"items": [{"id": 7, "open": True}, {"id": 8, "open": False}]},
            "outputs": {"first": 7},
        },
        "left": {"status": "skipped", "data": None, "outputs": {}},
    },
    own={"data": {"state": "Open", "count": 2}, "http_status": 201},
)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("plain", "plain"),
        ("$$5", "$5"),
        ("a {b} c", "a {b} c"),
        ("costs $5", "costs $5"),
        (5, 5),
        ("$inputs.name", "Ann"),
        ("$inputs.list[1]['a/b']", 2),
        ("$inputs#/list/1/a~1b", 2),
        ("$inputs.other", NOTHING),
        ("$steps.find.outputs.first", 7),
        ("$steps.find.data.items[1].id", 8),
        ("$steps.find.data#/items/0/id", 7),
        ("$steps.left.data.anything", NOTHING),
        ("$response.body#/state", "Open"),
        ("$data.count", 2),
        ("$statusCode", 201),
        ("Hello {$inputs.name}: {$inputs.n}, {$inputs.null}!", "Hello Ann: 3, !"),
        ({"a": ["$inputs.n", "$inputs.other"], "b": "$inputs.other"}, {"a": [3]}),
        ("$.steps.find.data.items[?@.open == true].id", [7]),
        ("$.inputs.nothing", []),
    ],
)
def test_values(written: Any, value: Any) -> None:
    assert evaluate(written, SCOPE) == value


@pytest.mark.parametrize("written", ["$steps.find.data.items[2].id", "$steps.find.outputs.second", "$data.other"])
def test_a_value_that_is_not_there_is_no_value(written: str) -> None:
    with pytest.raises(MissingError, match="there is no value at"):
        evaluate(written, SCOPE)
    assert evaluate(written, SCOPE, strict=False) is None


@pytest.mark.parametrize(
    "written",
    [
        *(
            "$input.x",
            "$inputs.",
            "$inputs.a[b]",
            "$inputs..a",
            "$response.header.x",
            "$request.body",
            "$url",
            "$statusCode.x",
        ),
        *("{$nope}", "$", "$steps.a#b", "$inputs.x" + "." * 5000),
    ],
)
def test_what_is_no_expression(written: str) -> None:
    with pytest.raises(ExpressionError):
        parse(written)


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("$statusCode == 201", True),
        ("$statusCode == '201'", False),
        ("$statusCode >= 200 && $statusCode < 300", True),
        ("$statusCode == 200 || $data.count == 2", True),
        ("!($statusCode == 201)", False),
        ("!$inputs.null", True),
        ("$data.state == 'Open'", True),
        ("$data.state == 'open'", False),
        ("$data.missing == null", True),
        ("$data.missing > 1", False),
        ("$data.state > 1", False),
        ("$steps.find.data.items[0].open == true", True),
        ("$steps.find.data.items[0].open == 1", False),
        ("$steps.find.data.items[0].open", True),
        ("$response.body#/count != 3", True),
        ("$inputs.n == 3.0", True),
        ("'it''s' == 'it''s'", True),
        ("true && (false || true)", True),
        ("$data.count == -2", False),
    ],
)
def test_conditions(condition: str, holds: bool) -> None:
    assert met((Criterion(condition=condition),), SCOPE) is holds


def test_arazzo_compares_texts_whatever_their_case() -> None:
    assert met((Criterion(condition="$data.state == 'open'", fold=True),), SCOPE)


@pytest.mark.parametrize(
    ("condition", "kind", "holds"),
    [("^Op", "regex", True), ("^op", "regex", False), ("$[?@ == 'Open']", "jsonpath", False), ("$", "jsonpath", True)],
)
def test_other_criteria(condition: str, kind: Any, holds: bool) -> None:
    assert met((Criterion(condition=condition, type=kind, context="$data.state"),), SCOPE) is holds


_NO_CONDITIONS = (
    *("", "==", "1 ==", "1 == 2 == 3", "(1", "1)", "a == 1", "$data.x = 1", "$data.x & 1", "'open"),
    *("(" * 30 + "1" + ")" * 30, "1 == 1 " * 400),
)


@pytest.mark.parametrize("text", _NO_CONDITIONS)
def test_what_is_no_condition(text: str) -> None:
    with pytest.raises(ExpressionError):
        parse_condition(text)


@settings(max_examples=examples(800), deadline=None)
@given(st.text(alphabet="$.[]{}#/'&|!=<>()ab1 ", max_size=40))
def test_whatever_is_written_is_read_or_refused(text: str) -> None:
    for read in (parse, parse_condition):
        with suppress(ExpressionError):
            read(text)


def test_an_expression_with_backtracking_takes_no_time() -> None:
    hostile = ExpressionScope(inputs={"x": "a" * 5000 + "!"}, steps={})
    assert not met((Criterion(condition="^(a+)+$", type="regex", context="$inputs.x"),), hostile)
